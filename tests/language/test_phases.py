"""Programs of several phases: what a phase knows of those before it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import onyx_harness
from harness.campaign.problem import inputs_of
from harness.campaign.variation import varied_inputs
from harness.graph import Graph
from harness.language import Algorithm, Inputs, InvalidInput, K, LanguageError, trace
from harness.language.explain import explain_program
from harness.language.phase_inputs import inputs_after, inputs_of_phase
from harness.language.reference import ReferenceRun
from tests.language.programs import program_of

GRAPH = Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], weights=[1, 2, 3, 4], name="four")


def of_three(p, _):
    p.vertex("given", K)
    p.vertex("unused", K)
    p.vertex("x", K, start="given")
    p.vertex("inner", K, start=0.0)
    p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": v.sum, "inner": v.x})
    p.repeat(2)
    p.output("x", bound=1e-5)
    p.then()
    p.vertex("y", K, start="x")
    p.once.over_vertices(lambda v: {"twice": 2.0 * v.x})
    p.over_edges(into="sum", reduce="max")(lambda src: src.y)
    p.over_vertices(lambda v: {"y": v.sum + v.twice})
    p.until_settled(at_most=7)
    p.output("y", bound=1e-3)
    p.then()
    p.vertex("z", K, start=1.0)
    p.over_vertices(lambda v: {"z": v.x + v.y + v.given})
    p.repeat(1)
    p.output("z", bound=1e-4)


class Three(Algorithm):
    name = "three"

    def build(self, p):
        of_three(p, self)

    def inputs(self, graph, features):
        ones = np.ones((graph.num_vertices, features), np.float32)
        return Inputs({"given": ones, "unused": ones})


def roles(program):
    return {name: prop.role for name, prop in program.properties.items() if prop.role != "builtin"}


def test_every_phase_is_a_program_and_finds_inputs_and_outputs_of_earlier_ones():
    first, second, third = trace(Three()).phases
    assert roles(first) == {
        "given": "input", "unused": "input", "x": "state", "inner": "state", "sum": "temporary"
    }  # fmt: skip
    assert roles(second) == {"x": "input", "y": "state", "twice": "input", "sum": "temporary"}
    assert roles(third) == {"given": "input", "x": "input", "y": "input", "z": "state"}
    assert [one.control.max_supersteps for one in (first, second, third)] == [2, 7, 1]
    assert [one.control.settles for one in (first, second, third)] == [False, True, False]
    assert list(third.answers) == ["x", "y", "z"]
    assert [one.outputs for one in (first, second, third)] == [("x",), ("y",), ("z",)]


def test_the_fingerprint_covers_the_earlier_phases():
    def scaled(by):
        def build(p, _):
            p.vertex("given", K)
            p.vertex("x", K, start="given")
            p.over_edges(into="sum", reduce="sum")(lambda src: by * src.x)
            p.over_vertices(lambda v: {"x": v.sum})
            p.repeat(2)
            p.output("x", bound=1e-5)
            p.then()
            p.vertex("y", start=1.0)
            p.over_vertices(lambda v: {"y": v.y + 1.0})
            p.repeat(2)
            p.output("y", bound=1e-5)

        return program_of(build)

    one, other = scaled(2.0), scaled(3.0)
    assert one.serialise()["stages"] == other.serialise()["stages"]
    assert one.fingerprint != other.fingerprint == scaled(3.0).fingerprint


def test_an_answer_that_only_starts_a_later_value_is_an_input_there_and_one_that_nothing_reads_is_not():
    def build(p, _):
        p.vertex("given")
        p.vertex("spare")
        p.vertex("x", start="given")
        p.vertex("z", start=0.0)
        p.over_vertices(lambda v: {"x": 2.0 * v.x, "z": v.x + v.spare})
        p.repeat(2)
        p.output("x", bound=1e-5)
        p.output("z", bound=1e-5)
        p.then()
        p.vertex("y", start="x")
        p.over_vertices(lambda v: {"y": v.y + 1.0})
        p.repeat(3)
        p.output("y", bound=1e-5)

    program = program_of(build)
    assert roles(program) == {"x": "input", "y": "state"}
    given, spare = np.array([1, 2, 3], np.float32), np.array([5, 5, 5], np.float32)
    (first, last), every = program.phases, Inputs({"given": given, "spare": spare})
    run = ReferenceRun(first, GRAPH, 1)
    run.reset(inputs_of_phase(first, every))
    run.run(2)
    answers = {name: run.values(name) for name in first.outputs}
    assert {name: values.tolist() for name, values in answers.items()} == {"x": [4, 8, 12], "z": [7, 9, 11]}
    after = inputs_of_phase(last, inputs_after(last, GRAPH, 1, every, answers))
    assert set(after.properties) == {"x"}
    run = ReferenceRun(last, GRAPH, 1)
    run.reset(after)
    run.run(3)
    assert run.values("y").tolist() == [7, 11, 15]


def test_inputs_of_a_phase_are_its_own_and_the_outputs_before():
    program = trace(Three())
    first, second, third = program.phases
    every = inputs_of(Three(), program, GRAPH, 1)
    assert set(inputs_of_phase(first, every).properties) == {"given", "unused"}
    x, y = np.array([[1], [2], [3]], np.float32), np.array([[4], [5], [6]], np.float32)
    after = inputs_after(second, GRAPH, 1, every, {"x": x})
    np.testing.assert_array_equal(after.properties["twice"], 2 * x)
    assert set(inputs_of_phase(second, after).properties) == {"x", "twice"}
    last = inputs_of_phase(third, inputs_after(third, GRAPH, 1, after, {"y": y}))
    assert {name: array.tolist() for name, array in last.properties.items()} == {
        "given": [[1], [1], [1]], "x": x.tolist(), "y": y.tolist(),
    }  # fmt: skip


def test_an_input_of_a_later_phase_is_checked_before_the_first_one_runs():
    class Late(Algorithm):
        name = "late"

        def build(self, p):
            of_three(p, self)
            p.then()
            p.vertex("weights_of", K, nonnegative=True)
            p.vertex("w", K, start="z")
            p.over_vertices(lambda v: {"w": v.w * v.weights_of})
            p.repeat(1)
            p.output("w", bound=1e-4)

        def inputs(self, graph, features):
            given = Three().inputs(graph, features).properties
            return Inputs({**given, "weights_of": -np.ones((graph.num_vertices, features), np.float32)})

    with pytest.raises(InvalidInput, match="'weights_of' must be nonnegative"):
        inputs_of(Late(), trace(Late()), GRAPH, 1)


@pytest.mark.parametrize("outward", [0, 1, 2])
def test_reductions_of_all_phases_take_their_direction_if_one_takes_out_edges(outward):
    """The graph then has every edge in both directions, for every phase."""

    def add(p, name, along):
        p.vertex(name, start=1.0)
        p.over_edges(into="sum", reduce="sum", along=along)(lambda src: getattr(src, name))
        p.over_vertices(lambda v: {name: v.sum})
        p.repeat(1)
        p.output(name, bound=1e-5)

    def build(p, _):
        for phase, name in enumerate("xyz"):
            if phase:
                p.then()
            add(p, name, "out" if phase == outward else "in")

    for number, phase in enumerate(program_of(build).phases):
        assert phase.properties["forward"].role == "input"
        condition = phase.stages[0].message.args[0]
        assert (condition.op == "not") == (number == outward), condition


def first(p):
    p.vertex("x", start=1.0)
    p.vertex("hidden", start=1.0)
    p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": v.sum, "hidden": v.x})
    p.repeat(1)


def reads(name):
    """Return a program whose second phase reads a property of the first one."""

    def build(p, _):
        first(p)
        p.output("x", bound=1e-5)
        p.then()
        p.vertex("y", start="x")
        p.over_vertices(lambda v: {"y": getattr(v, name)})

    return build


def writes_output(p, _):
    first(p)
    p.output("x", bound=1e-5)
    p.then()
    p.over_vertices(lambda v: {"x": v.x + 1.0})


def declares_output(p, _):
    first(p)
    p.output("x", bound=1e-5)
    p.then()
    p.vertex("x", start=0.0)


def without_output(p, _):
    first(p)
    p.then()
    p.vertex("y", start=1.0)
    p.over_vertices(lambda v: {"y": v.y + 1.0})
    p.output("y", bound=1e-5)


def starts_as_hidden(p, _):
    first(p)
    p.output("x", bound=1e-5)
    p.then()
    p.vertex("y", start="hidden")


def outputs_again(p, _):
    first(p)
    p.output("x", bound=1e-5)
    p.then()
    p.vertex("y", start=1.0)
    p.over_vertices(lambda v: {"y": v.y + 1.0})
    p.output("x", bound=1e-5)


def steps_in_place_first(p, _):
    p.vertex("x", start=1.0)
    p.over_edges(update="both")(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}})
    p.repeat(1)
    p.output("x", bound=1e-5)
    p.then()
    p.vertex("y", start="x")
    p.over_vertices(lambda v: {"y": v.y + 1.0})
    p.repeat(1)
    p.output("y", bound=1e-5)


def without_second(p, _):
    first(p)
    p.output("x", bound=1e-5)
    p.then()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (reads("hidden"), "v.hidden: no vertex property 'hidden' is known here; it is not an output of its phase"),
        (reads("sum"), "v.sum: no vertex property 'sum' is known here; it is not an output of its phase"),
        (writes_output, "'x' is an input; declare it with a start"),
        (declares_output, "'x' is already a property of the vertex"),
        (without_output, "test names no output"),
        (starts_as_hidden, "'hidden', which is not an output of its phase"),
        (outputs_again, "'x' belongs to an earlier phase"),
        (steps_in_place_first, "updates both ends of edges; only the last phase may do that"),
        (without_second, "phase 2 of test has no stages"),
    ],
)
def test_what_a_phase_cannot_do_is_refused(build, words):
    with pytest.raises(LanguageError, match=words):
        program_of(build)


def test_a_phase_is_explained_by_its_number():
    one, two, _ = trace(Three()).phases
    assert explain_program(one).startswith("program three\n")
    assert explain_program(two).startswith("program three, phase 2\n")


def test_a_phase_does_not_start_from_values_that_are_not_numbers():
    program = trace(Three())
    every = inputs_of(Three(), program, GRAPH, 1)
    nan = np.array([[1], [np.nan], [3]], np.float32)
    with pytest.raises(InvalidInput, match="output 'x' of phase 1 holds values that are not numbers"):
        inputs_after(program.phases[1], GRAPH, 1, every, {"x": nan})


def test_outputs_of_earlier_phases_are_not_rotated_among_the_vertices():
    """They may belong to the graph, as a degree does."""
    program = trace(Three()).phases[1]
    inputs = Inputs({"x": np.array([[1], [2], [3]], np.float32), "twice": np.ones((3, 1), np.float32)})
    found = varied_inputs(program, GRAPH, 1, inputs)
    assert found.properties["x"] is not inputs.properties["x"]
    np.testing.assert_array_equal(found.properties["x"], inputs.properties["x"])


def test_a_run_has_settled_if_every_phase_has_that_can():
    result = onyx_harness.run("tigr", Three, GRAPH, features=1, validate=True)
    assert result.settled is False  # the second phase does not settle within 7 supersteps
    assert result.supersteps == 2 + 7 + 1
    assert set(result.answers) == {"x", "y", "z"}

    class Quiet(Algorithm):
        name = "quiet"

        def build(self, p):
            p.vertex("x", start=1.0)
            p.over_vertices(lambda v: {"x": v.x * 0.0})
            p.until_settled(at_most=9)
            p.output("x", bound=1e-5)
            p.then()
            p.vertex("y", start="x")
            p.over_vertices(lambda v: {"y": v.y + 1.0})
            p.repeat(2)
            p.output("y", bound=1e-5)

    assert onyx_harness.run("tigr", Quiet, GRAPH).settled is True

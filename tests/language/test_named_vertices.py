"""Reads and reductions at vertices that values name: tracing, the reference, and what the analysis concludes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Graph
from harness.graph.generators import grid, random_ratings
from harness.language import Algorithm, Inputs, K, LanguageError, maximum, minimum, trace, where
from harness.language.analysis import change_driven, fold_groups, steps_folded, unfolded, watched
from harness.language.explain import explain_program
from harness.language.matching import matched
from harness.language.monotone import one_way
from harness.language.named_vertices import named_vertices
from harness.language.program import VertexReduce, VertexStep
from harness.language.reference import ReferenceRun
from harness.language.residual import residual
from harness.language.rounding import RoundedRun
from harness.language.sampled_stages import not_sampled
from harness.language.warm import warm_start
from harness.lowering.refusals import unsupported
from harness.lowering.setting import LoweredProgram
from tests.engines.named_vertices import FastComponents

INFINITE = float("inf")


def traced(body, **fields):
    class Drawn(Algorithm):
        name = "drawn"
        tolerance: float = 1e-3

        def build(self, p):
            body(self, p)

    return trace(Drawn(**fields))


def pointers(self, p):
    """Read a vector, a bool and a number through ``to``, and reduce a minimum and a maximum through it."""
    p.vertex("to")
    p.vertex("x", K)
    p.vertex("on", dtype=bool)
    p.vertex("value")
    p.vertex("far_x", K, start="x")
    p.vertex("far_on", start="on", dtype=bool)
    p.vertex("far_far", start=0.0)
    p.vertex("least", start=0.0)
    p.vertex("most", start=0.0)
    p.over_vertices(lambda v: {"far_x": v.at(v.to).x, "far_on": v.at(v.to).on, "far_far": v.at(v.at(v.to).to).value})
    p.over_vertices(into="least", reduce="min", at=lambda v: v.to)(lambda v: v.value)
    p.over_vertices(into="most", reduce="max", at=lambda v: v.to)(lambda v: v.value)
    p.repeat(1)
    for name in ("far_x", "far_far", "least", "most"):
        p.output(name, bound=0.0)


def jumping(self, p):
    """Follow pointers until nothing moves."""
    p.vertex("own")
    p.vertex("root", start="own")
    p.over_vertices(lambda v: {"root": v.at(v.root).root})
    p.until_settled(at_most=100)
    p.output("root", bound=0.0)


def edgeless(count):
    return Graph.from_edges([], [], num_vertices=count, name="edgeless")


def run_of(program, graph, features=1, **properties):
    run = ReferenceRun(program, graph, features)
    run.reset(Inputs({name: np.asarray(values, np.float32) for name, values in properties.items()}))
    return run


# the reference --------------------------------------------------------------------------------------------------------
@given(st.data(), st.integers(1, 9))
@settings(max_examples=60)
def test_the_reference_is_a_plain_loop(data, count):
    to = data.draw(st.lists(st.integers(0, count - 1) | st.sampled_from([INFINITE, -INFINITE]), min_size=count,
                            max_size=count))  # fmt: skip
    value = data.draw(st.lists(st.integers(-3, 3) | st.just(INFINITE), min_size=count, max_size=count))
    x, on = np.arange(2.0 * count).reshape(count, 2), np.arange(count) % 2 == 0
    run = ReferenceRun(traced(pointers), edgeless(count), 2)
    given_ = {"to": to, "x": x, "value": value}
    run.reset(Inputs({**{name: np.asarray(one, np.float32) for name, one in given_.items()}, "on": on}))
    run.run(1)
    reached = [v if np.isinf(to[v]) else int(to[v]) for v in range(count)]
    least, most = [INFINITE] * count, [-INFINITE] * count
    for v in range(count):
        if np.isfinite(to[v]):
            least[reached[v]] = min(least[reached[v]], value[v])
            most[reached[v]] = max(most[reached[v]], value[v])
    assert np.array_equal(run.values("far_x"), x[reached])
    assert np.array_equal(run.values("far_on"), on[reached])
    # of a number that is read at another vertex and names none, the reading vertex's own value is read
    second = [v if np.isinf(to[reached[v]]) else int(to[reached[v]]) for v in range(count)]
    assert run.values("far_far").tolist() == [value[v] for v in second]
    assert run.values("least").tolist() == least
    assert run.values("most").tolist() == most


@pytest.mark.parametrize("wrong", [-1.0, 3.0, 0.5, np.nan])
def test_the_reference_refuses_a_value_that_is_no_vertex(wrong):
    def halved(self, p):
        p.vertex("own")
        p.vertex("x", start="own")
        p.graph("add", ())
        p.over_vertices(lambda v, graph: {"x": v.at(v.own + graph.add - graph.add * 0.0).x})
        p.repeat(1)
        p.output("x", bound=0.0)

    run = ReferenceRun(traced(halved), edgeless(3), 1)
    infinite = np.isnan(wrong)  # infinity times 0
    run.reset(Inputs({"own": np.zeros(3, np.float32), "add": np.float32(INFINITE if infinite else wrong)}))
    with pytest.raises(LanguageError, match="names the vertex .*; a vertex is a whole number from 0 to 2"):
        run.run(1)


def test_a_run_ends_when_all_pointers_have_arrived():
    count = 1000
    run = run_of(traced(jumping), edgeless(count), own=np.maximum(np.arange(count) - 1, 0))
    statistics = run.run(100)
    assert statistics.settled
    assert not run.values("root").any()
    assert len(statistics.supersteps) == 11  # paths are halved: 2^10 > 999, and one to find that nothing moves


@pytest.mark.parametrize(("given", "called"), [(lambda v: v, "v"), (lambda v: v.at(v.to), r"v\.at\(\)")])
def test_a_vertex_itself_is_no_value(given, called):
    def misread(self, p):
        p.vertex("to")
        p.over_vertices(lambda v: {"to": v.at(given(v)).to})

    with pytest.raises(LanguageError, match=f"{called} of type .*Reader cannot appear in a traced expression; use"):
        traced(misread)


def test_a_step_reads_the_values_from_before_it():
    program = traced(jumping)
    assert [type(stage) for stage in program.stages] == [VertexStep, VertexStep]
    assert program.stages[0].writes == ("root_next",)
    run = run_of(program, edgeless(4), own=[0, 0, 1, 2])
    run.superstep()
    assert run.values("root").tolist() == [0, 0, 0, 1]  # not [0, 0, 0, 0]


def test_nan_is_not_reduced_and_an_unnamed_vertex_gets_an_infinity():
    def reduces(self, p):
        p.vertex("x0")
        p.vertex("x", start="x0")
        p.over_vertices(into="least", reduce="min", at=lambda v: v.x0 * 0.0)(lambda v: v.x - where(v.x > 1, 0.0, v.x))
        p.over_vertices(lambda v: {"x": v.least})
        p.repeat(1)
        p.output("x", bound=0.0)

    run = run_of(traced(reduces), edgeless(3), x0=[2.0, 3.0, 4.0])
    run.run(1)
    assert run.values("x").tolist() == [2.0, INFINITE, INFINITE]


def test_injected_errors_do_not_change_what_is_named():
    def shifted(self, p):
        p.vertex("own")
        p.vertex("x", start="own")
        p.over_vertices(lambda v: {"x": v.at(minimum(v.own * 3.0 / 3.0 + 1.0, 9999.0)).own})
        p.repeat(1)
        p.output("x", bound=0.0)

    count = 10_000
    run = RoundedRun(traced(shifted), edgeless(count), 1)
    run.reset(Inputs({"own": np.arange(count, dtype=np.float32)}))
    run.run(1)
    assert np.array_equal(run.values("x"), np.minimum(np.arange(count) + 1, count - 1))


def test_a_settled_answer_stays_at_rest():
    program, graph = traced(jumping), edgeless(5)
    inputs = Inputs({"own": np.array([0, 0, 1, 3, 3], np.float32)})
    at_rest = np.array([0, 0, 0, 3, 3], np.float32)
    assert residual(program, graph, 1, inputs, {"root": at_rest}).ok
    assert not residual(program, graph, 1, inputs, {"root": np.array([0, 0, 1, 3, 3], np.float32)}).ok


def test_stages_that_run_once_name_vertices_too():
    def once(self, p):
        p.vertex("to")
        p.vertex("value")
        p.once.over_vertices(into="best", reduce="max", at=lambda v: v.to)(lambda v: v.value)
        p.once.over_vertices(lambda v: {"theirs": v.at(v.to).best})
        p.vertex("x", start="theirs")
        p.over_vertices(lambda v: {"x": maximum(v.x, v.theirs)})
        p.repeat(1)
        p.output("x", bound=0.0)

    from harness.language.results_once import with_results

    program, graph = traced(once), edgeless(3)
    inputs = Inputs({"to": np.array([1, 1, 0], np.float32), "value": np.array([5, 7, 9], np.float32)})
    found = with_results(program, graph, 1, inputs).properties
    assert found["best"].tolist() == [9, 7, -INFINITE]
    assert found["theirs"].tolist() == [7, 7, 9]


# what is refused ------------------------------------------------------------------------------------------------------
def build(**stages):
    """Return the body of a program with an input ``to``, an input vector ``y``, a state ``x`` and other stages."""

    def body(self, p):
        p.vertex("to")
        p.vertex("y", K)
        p.vertex("x", start="to")
        p.edge("weight")
        stages["stage"](p)
        p.over_vertices(lambda v: {"x": v.x})
        p.repeat(1)
        p.output("x", bound=0.0)

    return body


REFUSED = {
    "a sum": (lambda p: p.over_vertices(into="z", reduce="sum", at=lambda v: v.to)(lambda v: v.x), "min or max"),
    "no vertex": (lambda p: p.over_vertices(into="z", reduce="min")(lambda v: v.x), "takes into=, reduce= and at="),
    "a guard": (
        lambda p: p.over_vertices(into="z", reduce="min", at=lambda v: v.to, when=lambda v: v.x > 0)(lambda v: v.x),
        "no guard",
    ),
    "a vector": (
        lambda p: p.over_vertices(into="z", reduce="min", at=lambda v: v.to)(lambda v: v.y), "a scalar to reduce",
    ),
    "a bool": (lambda p: p.over_vertices(into="z", reduce="min", at=lambda v: v.to)(lambda v: v.x > 0), "one float"),
    "a vertex that is a vector": (lambda p: p.over_vertices(lambda v: {"x": v.at(v.y).x}), "the number of a vertex"),
    "a vertex that is a bool": (lambda p: p.over_vertices(lambda v: {"x": v.at(v.x > 0).x}), "the number of a vertex"),
    "an unknown property": (lambda p: p.over_vertices(lambda v: {"x": v.at(v.to).z}), r"v\.at\(\)\.z: no vertex"),
    "a property of edges": (lambda p: p.over_vertices(lambda v: {"x": v.at(v.to).weight}), "property of the edge"),
    "the source of an edge": (
        lambda p: p.over_edges(into="z", reduce="min")(lambda src: src.at(src.to).x), "no vertex property 'at'",
    ),
    "the whole graph": (
        lambda p: p.over_graph(into="z", reduce="sum")(lambda v: v.at(v.to).x), "read it in a vertex stage before",
    ),
    "sides": (lambda p: (p.alternate_sides(), p.over_vertices(lambda v: {"x": v.at(v.to).x})), "either side"),
    "a name": (lambda p: p.vertex("at"), "'at' is not a property name"),
    "steps of edges": (
        lambda p: (
            p.over_edges(update="both")(lambda src, dst: {"src": {"x": src.x}, "dst": {"x": dst.x}}),
            p.over_vertices(lambda v: {"x": v.at(v.to).x}),
        ),
        "not supported beside",
    ),
    "an assignment": (lambda p: p.over_vertices(lambda v: setattr(v.at(v.to), "x", 1.0)), "cannot be assigned"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_without_a_meaning_is_refused(name):
    stage, reason = REFUSED[name]
    with pytest.raises(LanguageError, match=reason):
        traced(build(stage=stage))


def test_a_degree_counts_both_directions_at_a_named_vertex_too():
    def both(p):
        p.over_edges(into="z", reduce="sum", along="out")(lambda dst: dst.x)
        p.over_vertices(lambda v: {"x": v.at(v.to).degree})

    with pytest.raises(LanguageError, match=r"v\.at\(\)\.degree counts every edge twice"):
        traced(build(stage=both))


# the analysis ---------------------------------------------------------------------------------------------------------
fast_components = FastComponents.build


def test_the_analysis_knows_named_vertices():
    program = traced(fast_components)
    assert program.names_vertices
    assert set(watched(program)) == {("vertex", "label"), ("vertex", "least")}
    assert "no known readers to follow" in change_driven(program)
    assert isinstance(one_way(program), str)
    assert "may be anywhere in the graph" in not_sampled(program)
    assert watched(traced(jumping)) == (("vertex", "root"),)
    text = explain_program(program)
    assert "offered(w) = min over the vertices v with v.label = w of v.least" in text
    assert "v.at(v.label).label" in text
    assert "change-driven: not the whole program, because stage_2 reduces into vertices that values name" in text


def test_a_warm_run_restarts():
    program, graph = traced(fast_components), grid(rows=3, columns=3)
    inputs = Inputs({"number": np.arange(9, dtype=np.float32)})
    start = warm_start(program, 1, (graph, inputs), (graph, inputs), {"label": np.zeros(9, np.float32)})
    assert start.restarted
    assert "it is not known" in start.summary


def test_a_kernel_writes_nothing_that_other_owners_read_in_it():
    program = LoweredProgram.of(traced(fast_components)).program
    for groups in (*(fold_groups(program, way) for way in ("push", "pull")), steps_folded(program)):
        assert [stage for group in groups for stage in group.stages] == list(program.stages)
        for group in groups:
            at = {node for stage in group.stages for node in _read_at(stage)}
            assert not at & {name for stage in group.stages for name in stage.writes}
            assert not at or group.kind == "vertex"
    reducing = [group for group in unfolded(program) if isinstance(group.stages[0], VertexReduce)]
    assert [group.kind for group in reducing] == ["named"]


def _read_at(stage):
    from harness.language.program import reads

    return {name for space, name in reads(stage) if space == "at"}


def test_the_result_of_a_reduction_that_is_read_elsewhere_is_copied():
    """Otherwise the movement of what is watched could not be counted: kernels clear what they reduce into."""

    def body(self, p):
        p.vertex("to")
        p.vertex("x", start="to")
        p.over_vertices(into="least", reduce="min", at=lambda v: v.to)(lambda v: v.x)
        p.over_vertices(lambda v: {"x": v.at(v.to).least})
        p.until_settled(at_most=9)
        p.output("x", bound=0.0)

    program = LoweredProgram.of(traced(body)).program
    assert [stage.writes[0] for stage in program.stages] == ["least_reduced", "least", "x"]


def test_programs_are_matched_up_to_names():
    def renamed(self, p):
        p.vertex("id")
        p.vertex("part", start="id")
        p.over_edges(into="low", reduce="min")(lambda src: src.part)
        p.over_vertices(into="sent", reduce="min", at=lambda v: v.part)(lambda v: v.low)
        p.over_vertices(lambda v: {"part": minimum(minimum(v.part, v.sent), v.low)})
        p.over_vertices(lambda v: {"part": v.at(v.part).part})
        p.until_settled(at_most=1000)
        p.output("part", bound=0.0)

    def other(self, p):
        p.vertex("id")
        p.vertex("part", start="id")
        p.over_edges(into="low", reduce="min")(lambda src: src.part)
        p.over_vertices(into="sent", reduce="max", at=lambda v: v.part)(lambda v: v.low)
        p.over_vertices(lambda v: {"part": minimum(minimum(v.part, v.sent), v.low)})
        p.over_vertices(lambda v: {"part": v.at(v.part).id})
        p.until_settled(at_most=1000)
        p.output("part", bound=0.0)

    program = traced(fast_components)
    names = matched(program, traced(renamed))
    assert names is not None
    assert names.properties["label"] == "part"
    assert matched(program, traced(other)) is None
    assert program.fingerprint != traced(other).fingerprint


def test_kernels_refuse_more_vertices_than_float32_can_name():
    program, facts = traced(jumping), edgeless(3).facts
    many = dataclasses.replace(facts, num_vertices=2**24 + 1)
    assert unsupported(program, facts, 1, change_driven=False) == ""
    assert "float32 has a number for 2^24 vertices" in unsupported(program, many, 1, change_driven=False)
    assert "no known readers" in unsupported(program, facts, 1, change_driven=True)


def test_sides_of_a_bipartite_graph_are_vertices_like_others():
    graph = random_ratings(users=4, items=3, num_ratings=6)
    run = run_of(traced(jumping), graph, own=[0, 0, 1, 2, 3, 4, 5])
    run.run(10)
    assert not run.values("root").any()


@pytest.mark.parametrize("wrong", [1234567.5, -1.0, 2e6, np.nan])
def test_a_number_that_is_no_vertex_is_shown_with_all_digits_among_others_that_are(wrong):
    stage, right = VertexStep("far", (), None), [0.0, 1999999.0, INFINITE, -INFINITE]
    found, known = named_vertices(np.array(right), 2_000_000, stage)
    assert (found.tolist(), known.tolist()) == ([0, 1999999, 0, 0], [True, True, False, False])
    for numbers in ([wrong], [*right, wrong]):
        with pytest.raises(LanguageError, match=rf"names the vertex {wrong:.17g};"):
            named_vertices(np.array(numbers), 2_000_000, stage)


def test_more_vertices_than_float32_has_numbers_for_are_refused_in_stages_that_run_once_too():
    stage = VertexStep("far", (), None)
    assert named_vertices(np.zeros(1), 2**24, stage)[1].all()
    with pytest.raises(LanguageError, match="far names vertices by values, and float32"):
        named_vertices(np.zeros(1), 2**24 + 1, stage)

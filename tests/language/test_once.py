"""Stages that run once: their results are inputs, and what they cannot read or write is refused."""

from __future__ import annotations

import numpy as np
import pytest

import onyx_harness
from harness.campaign.problem import inputs_of
from harness.graph import Graph
from harness.language import Algorithm, Inputs, InvalidInput, K, LanguageError, trace
from harness.language.program import describe
from harness.language.reference import ReferenceRun
from harness.language.results_once import refuse_changed_graph, with_results
from tests.language.programs import program_of

GRAPH = Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], weights=[1, 2, 3, 4], name="four")


class Shares(Algorithm):
    """Weighted shares: everything that does not change is computed once."""

    name = "shares"
    scale: float = 2.0

    def build(self, p):
        p.edge("weight")
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.once.over_edges(into="strength", reduce="sum")(lambda edge: edge.weight)
        p.once.over_graph(into="heaviest", reduce="max")(lambda v: v.strength)
        p.once.over_vertices(
            lambda v, graph: {"rate": self.scale * v.strength / graph.heaviest, "rich": v.strength > 3}
        )
        p.over_edges(into="sum", reduce="sum")(lambda src: src.rate * src.x)
        p.over_vertices(lambda v, graph: {"x": v.sum / graph.heaviest})
        p.repeat(2)
        p.output("x", bound=1e-5)

    def inputs(self, graph, features):
        return Inputs({"given": np.ones((graph.num_vertices, features), np.float32)}, self.parameter_values())


def test_results_are_inputs_of_the_run():
    program = trace(Shares())
    assert {program.properties[name].role for name in ("strength", "heaviest", "rate", "rich")} == {"input"}
    assert [stage.name for stage in program.stages] == ["stage", "stage_2"]
    inputs = inputs_of(Shares(scale=4.0), program, GRAPH, 2).properties
    np.testing.assert_array_equal(inputs["strength"], [4, 1, 5])
    np.testing.assert_allclose(inputs["rate"], [3.2, 0.8, 4.0], rtol=1e-6)
    assert inputs["rich"].tolist() == [True, False, True]
    assert (inputs["heaviest"].shape, inputs["heaviest"].dtype) == ((), np.float32)
    assert "once, stage: strength(v) = sum over in-edges of edge.weight" in describe(program)


def test_given_results_are_kept_and_others_follow_the_given_inputs():
    program = trace(Shares())
    given = {**Shares().inputs(GRAPH, 1).properties, "strength": np.array([1, 2, 4], np.float32)}
    found = with_results(program, GRAPH, 1, Inputs(given)).properties
    assert found["strength"].tolist() == [1, 2, 4]
    np.testing.assert_allclose(found["rate"], [0.5, 1.0, 2.0], rtol=1e-6)


def test_inputs_of_the_python_api_are_read_before_the_results():
    plain, other = (
        onyx_harness.run("scipy", Shares(), GRAPH, features=1, inputs=arrays, validate=True)
        for arrays in ({}, {"strength": [1, 2, 4]})
    )
    ones = np.ones(3)
    for result, strength in ((plain, np.array([4, 1, 5])), (other, np.array([1, 2, 4]))):
        step = np.zeros((3, 3))
        step[GRAPH.csr.neighbours, GRAPH.csr.row_of_edge] = (2 * strength / strength.max())[GRAPH.csr.row_of_edge]
        step /= strength.max()
        np.testing.assert_allclose(result.answers["x"][:, 0], step @ step @ ones, rtol=1e-5)


def test_a_program_without_such_stages_keeps_its_fingerprint_and_another_has_its_own():
    class Other(Shares):
        name = "shares"

        def build(self, p):
            super().build(p)
            p.once.over_vertices(lambda v: {"more": v.strength})

    assert "setup" not in program_of(lambda p, self: simple(p)).serialise()
    assert trace(Other()).fingerprint != trace(Shares()).fingerprint
    assert trace(Shares(scale=3.0)).fingerprint == trace(Shares()).fingerprint


def test_what_runs_once_is_part_of_the_program_though_the_rest_is_the_same():
    def prepared(over="sum", factor=2.0, along="in"):
        def build(p, self):
            p.edge("weight")
            p.vertex("x", start=1.0)
            p.once.over_edges(into="strength", reduce=over, along=along)(lambda edge: edge.weight)
            p.once.over_vertices(lambda v: {"rate": factor * v.strength})
            p.over_vertices(lambda v: {"x": v.rate * v.x})
            p.repeat(1)
            p.output("x", bound=1e-5)

        return program_of(build).fingerprint

    assert prepared() == prepared()
    assert (
        len({prepared(), prepared(over="max"), prepared(over="min"), prepared(factor=3.0), prepared(along="out")}) == 5
    )


def simple(p):
    p.vertex("x", start=1.0)
    p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": v.sum})
    p.repeat(1)
    p.output("x", bound=1e-5)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (lambda p: p.once.over_vertices(lambda v: {"y": v.x}), "'x' has no value"),
        (lambda p: p.once.over_vertices(lambda v: {"y": v.sum}), "'sum' has no value"),
        (lambda p: p.once.over_edges(into="sum", reduce="sum")(lambda edge: 1.0), "writes 'sum', which is a state or"),
        (lambda p: p.once.over_vertices(lambda v: {"x": v.out_degree}), "'x' is declared; the result of a stage"),
        (lambda p: (p.vertex("y"), p.once.over_vertices(lambda v: {"y": v.out_degree})), "remove its declaration"),
    ],
)
def test_what_does_not_exist_before_the_run_is_refused(stage, words):
    def build(p, self):
        simple(p)
        stage(p)

    with pytest.raises(LanguageError, match=words) as met:
        program_of(build)
    assert met.value.where.file == __file__


def test_a_result_may_be_the_start_of_a_state():
    def build(p, self):
        p.once.over_vertices(lambda v: {"first": 2.0 * v.out_degree})
        p.vertex("y", start="first")
        p.over_vertices(lambda v: {"y": v.y + 1.0})
        p.repeat(1)
        p.output("y", bound=1e-5)

    program = program_of(build)
    run = ReferenceRun(program, GRAPH, 1)
    run.reset(with_results(program, GRAPH, 1, Inputs({})))
    run.run(1)
    np.testing.assert_allclose(run.values("y"), 2 * GRAPH.out_degrees + 1.0)


def test_a_temporary_is_no_start():
    def build(p, self):
        simple(p)
        p.vertex("y", start="sum")

    with pytest.raises(LanguageError, match="starts as 'sum', which is not a declared vertex float"):
        program_of(build)


def test_updates_of_edges_are_refused():
    def build(p, self):
        p.edge("message", start=0.0)
        simple(p)
        p.once.over_edges(updates="message")(lambda edge: edge.message + 1.0)

    with pytest.raises(LanguageError, match="updates edges, which is not supported in a stage that runs once"):
        program_of(build)


def test_a_changed_graph_is_refused():
    with pytest.raises(InvalidInput, match="warm runs of such programs are not supported"):
        refuse_changed_graph(trace(Shares()))


def test_stages_that_run_once_may_write_a_result_again():
    def build(p, self):
        p.once.over_vertices(lambda v: {"rate": v.out_degree + 1.0})
        p.once.over_vertices(lambda v: {"rate": 10.0 * v.rate, "other": v.rate})
        p.vertex("x", start="rate")
        p.over_vertices(lambda v: {"x": v.x + v.other})
        p.repeat(1)
        p.output("x", bound=1e-5)

    program = program_of(build)
    found = with_results(program, GRAPH, 1, Inputs({}))
    assert found.properties["rate"].tolist() == [30, 20, 20]
    assert found.properties["other"].tolist() == [3, 2, 2]

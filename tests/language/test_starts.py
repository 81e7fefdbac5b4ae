"""The initial state of a run: inputs, weights, a state; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import InvalidInput, stack, total, where
from tests.language.programs import mean_of_neighbours, numbers, program_of, run


def test_a_run_resumes_from_a_state():
    program = program_of(mean_of_neighbours)
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], name="ring")
    x = numbers(graph, 2)
    at_once = run(program, graph, 2, 5, given=x)
    halfway = run(program, graph, 2, 2, given=x)
    resumed = run(program, graph, 2, 3, {"x": halfway.values("x")}, given=x)
    assert np.array_equal(resumed.values("x"), at_once.values("x"))
    halfway.run(3)
    assert np.array_equal(halfway.values("x"), at_once.values("x"))


INVALID = [
    ({}, None, "input 'given' .* was not given"),
    ({"given": np.zeros((3, 3), np.float32)}, None, r"has shape \(3, 3\); the program needs \(3, 2\)"),
    ({"given": np.full((3, 2), np.nan, np.float32)}, None, "contains NaN"),
    ({"given": np.full((3, 2), "x")}, None, "the program needs float"),
    ({"given": np.zeros((3, 2), np.float32)}, {"x": np.zeros((2, 3))}, r"state 'x' has shape \(2, 3\)"),
    ({"given": np.zeros((3, 2), np.float32)}, {"given": np.zeros((3, 2))}, "not a changing property"),
    ({"given": np.zeros((3, 2), np.float32)}, {"y": np.zeros((3, 2))}, "not a changing property"),
]


@pytest.mark.parametrize(("given_values", "state", "words"), INVALID)
def test_inputs_and_states_that_do_not_fit_are_refused(given_values, state, words):
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], name="ring")
    with pytest.raises(InvalidInput, match=words):
        run(program_of(mean_of_neighbours), graph, 2, state=state, **given_values)


def test_a_bool_input_accepts_only_bools():
    def build(p, self):
        p.vertex("flag", dtype=bool)
        p.vertex("x", start=0.0)
        p.over_vertices(lambda v: {"x": where(v.flag, 1.0, 2.0)})
        p.output("x", bound=1.0)

    graph = Graph.from_edges([0], [1], name="edge")
    assert run(program_of(build), graph, flag=np.array([True, False])).values("x").tolist() == [1, 2]
    with pytest.raises(InvalidInput, match="is float32; the program needs bool"):
        run(program_of(build), graph, flag=np.array([0.3, 0], np.float32))


def test_weights_are_the_graphs_own_and_one_where_it_has_none():
    def build(p, self):
        p.edge("weight")
        p.vertex("x", start=0.0)
        p.over_edges(into="aggr", reduce="sum")(lambda edge: edge.weight)
        p.over_vertices(lambda v: {"x": v.aggr + total(stack(v.degree, v.out_degree))})
        p.output("x", bound=1.0)

    plain = Graph.from_edges([0, 0], [1, 2], name="plain")
    assert run(program_of(build), plain).values("x").tolist() == [2, 2, 2]
    assert run(program_of(build), plain.with_weights([5, 7])).values("x").tolist() == [2, 6, 8]


def test_properties_that_are_built_in_have_the_numbers_of_the_graph():
    def build(p, self):
        names = ("vertices", "edges", "come", "leave", "both")
        for name in names:
            p.vertex(name, start=0.0)
        p.over_vertices(
            lambda v, graph: {
                "vertices": graph.num_vertices + 0.0, "edges": graph.num_edges + 0.0, "come": v.in_degree + 0.0,
                "leave": v.out_degree + 0.0, "both": v.degree + 0.0,
            }
        )  # fmt: skip
        p.repeat(1)
        for name in names:
            p.output(name, bound=0.0)

    graph = Graph.from_edges([0, 0, 0, 3, 2, 1], [1, 2, 3, 0, 0, 2], num_vertices=5, name="six edges")
    found = run(program_of(build), graph)
    met = {name: found.values(name).tolist() for name in ("vertices", "edges", "come", "leave", "both")}
    come = [2, 1, 2, 1, 0]
    assert met == {"vertices": [5] * 5, "edges": [6] * 5, "come": come, "leave": [3, 1, 1, 1, 0], "both": come}

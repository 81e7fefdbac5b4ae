"""With tolerance 0, change-driven propagation equals full propagation after every superstep, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.language import Inputs, K, dot, exp, full, maximum, minimum, outer, total, where
from harness.language.analysis import change_driven
from harness.language.reference import ReferenceRun
from tests.language.interpreter import ChangeDrivenInterpreter
from tests.language.programs import bipartite_graphs, graphs, numbers, program_of

LINEAR = {
    "weighted": lambda src, edge: edge.weight * src.x,
    "shared out": lambda src, edge: src.x / src.out_degree,
    "combined": lambda src, edge: 2 * src.x - src.x / 3 + src.y,
    "chosen by the edge": lambda src, edge: where(edge.weight > 0.5, src.x, 0.0),
    "summed over features": lambda src, edge: full(K, total(src.x)) * edge.weight,
    "by a matrix": lambda src, edge: -(src.x @ edge.table),
    "projected": lambda src, edge: dot(src.c, src.x) * src.c,
}
DIFFERENCE = {
    "square": lambda src, edge: src.x * src.x,
    "bell": lambda src, edge: edge.weight * exp(-abs(src.x)),
    "product of two": lambda src, edge: src.x * src.y,
    "affine": lambda src, edge: src.x + edge.weight,
    "gram": lambda src, edge: outer(src.x, src.x) @ src.c,
    "chosen by the source": lambda src, edge: where(src.lit, src.x, 0.0),
    "constant": lambda src, edge: src.c,
}
STEPS = {
    "mean": lambda v, rate: rate * v.x + (1 - rate) * v.aggr / (1 + v.in_degree),
    "bounded": lambda v, rate: v.aggr / (1 + norm_of(v.aggr)),
    "now and then": lambda v, rate: where(total(abs(v.aggr - v.x)) > 1.5, v.aggr / (2 + norm_of(v.aggr)), v.x),
}


def norm_of(x):
    return total(abs(x))


def sum_program(message, step, *, guarded=False, alternate=False, chained=False):
    def build(p, self):
        p.edge("weight")
        p.edge("table", (K, K))
        p.vertex("c", K)
        p.vertex("x", K, start="c")
        p.vertex("y", K, start=0.5)
        p.vertex("lit", dtype=bool, start=True)

        @p.over_edges(into="aggr", reduce="sum", when=(lambda edge: edge.weight > 0.25) if guarded else None)
        def spread(src, edge):
            return message(src, edge)

        @p.over_vertices(when=(lambda v: total(v.aggr) > 0.5) if guarded else None)
        def move(v):
            return {"x": step(v, self.rate), "lit": total(v.x) < 2.0, "y": v.y * 0.5}

        if chained:

            @p.over_edges(into="aggr", reduce="sum")
            def again(src, edge):
                return edge.weight * src.x

            @p.over_vertices
            def settle(v):
                return {"x": 0.5 * v.x + v.aggr / (4 + norm_of(v.aggr))}

        if alternate:
            p.alternate_sides()
        p.until_settled(self.tolerance, at_most=9)
        p.output("x", bound=1e-6)

    return program_of(build)


def assert_same_after_every_superstep(program, graph, supersteps=7, features=2, **properties):
    full_run = ReferenceRun(program, graph, features)
    full_run.reset(Inputs(properties))
    lazy = ChangeDrivenInterpreter(program, graph, features, Inputs(properties))
    for _ in range(supersteps):
        full_run.superstep()
        lazy.superstep()
        for name in program.properties:
            expected = full_run.values(name)
            np.testing.assert_allclose(lazy.value[name], expected, rtol=1e-9, atol=1e-9, err_msg=name)
    return lazy


def inputs_of(graph):
    return {"c": numbers(graph, 2, seed=1), "table": numbers(graph, 2, 2, seed=2, per="edge")}


@pytest.mark.parametrize("name", [*LINEAR, *DIFFERENCE])
def test_the_form_of_a_sum_is_found(name):
    program = sum_program((LINEAR | DIFFERENCE)[name], STEPS["mean"])
    (delta,) = change_driven(program)
    assert delta.kind == ("linear" if name in LINEAR else "difference")


@given(
    graphs(), st.sampled_from([*LINEAR.values(), *DIFFERENCE.values()]), st.sampled_from([*STEPS.values()]),
    st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=120)
def test_sums_equal_full_recomputation_after_every_superstep(graph, message, step, guarded, chained):
    program = sum_program(message, step, guarded=guarded, chained=chained)
    assert_same_after_every_superstep(program, graph, **inputs_of(graph))


@given(bipartite_graphs(), st.sampled_from([*LINEAR.values(), *DIFFERENCE.values()]))
@settings(max_examples=40)
def test_sums_equal_full_recomputation_under_alternating_sides(graph, message):
    program = sum_program(message, STEPS["mean"], alternate=True)
    assert_same_after_every_superstep(program, graph, **inputs_of(graph))


EXTREMES = {
    "shortest path": ("min", minimum, lambda src, edge: src.d + edge.weight),
    "bottleneck": ("min", minimum, lambda src, edge: maximum(src.d, edge.weight)),
    "stretched": ("min", minimum, lambda src, edge: 2 * src.d / 3 + 1.0),
    "kept back": ("min", minimum, lambda src, edge: where(edge.weight > 0, src.d, float("inf"))),
    "largest label": ("max", maximum, lambda src, edge: src.d),
    "widest path": ("max", maximum, lambda src, edge: minimum(src.d, edge.weight)),
    "longest hop": ("max", maximum, lambda src, edge: src.d - edge.weight),
}


@given(graphs(), st.sampled_from([*EXTREMES]), st.booleans())
@settings(max_examples=80)
def test_extremes_equal_full_recomputation_after_every_superstep(graph, name, capped):
    reducer, closer, message = EXTREMES[name]

    def build(p, self):
        p.edge("weight")
        p.vertex("cap", K)
        p.vertex("d", K, start="cap")

        @p.over_edges(into="best", reduce=reducer)
        def offer(src, edge):
            return message(src, edge)

        @p.over_vertices
        def take(v):
            taken = closer(v.d, v.best)
            return {"d": closer(taken, v.cap) if capped else taken}

        p.until_settled(self.tolerance, at_most=9)
        p.output("d", bound=1e-6)

    program = program_of(build)
    (delta,) = change_driven(program)
    assert delta.kind == "monotone"
    assert_same_after_every_superstep(program, graph, cap=numbers(graph, 2))


def test_settled_vertices_are_not_visited_again():
    from harness.graph import Graph

    path = Graph.from_edges(np.arange(9), np.arange(1, 10), weights=np.ones(9), name="path")

    def build(p, self):
        p.edge("weight")
        p.vertex("far")
        p.vertex("d", start="far")

        @p.over_edges(into="best", reduce="min")
        def offer(src, edge):
            return src.d + edge.weight

        @p.over_vertices
        def take(v):
            return {"d": minimum(v.d, v.best)}

        p.output("d", bound=1e-6)

    start = np.full(10, np.inf, np.float32)
    start[0] = 0.0
    lazy = assert_same_after_every_superstep(program_of(build), path, supersteps=12, features=1, far=start)
    # All edges once, then one edge for each vertex reached: 9 + 8, and none once all is settled.
    assert lazy.edges_visited == 17
    assert lazy.value["d"].tolist() == list(range(10))


def test_unsent_changes_stay_below_the_tolerance():
    from harness.algorithms.pagerank import PageRank
    from harness.graph.generators import rmat
    from harness.language import trace
    from harness.language.validation import relative_error

    graph = rmat(scale=8, edge_factor=8, seed=1)
    algorithm = PageRank()
    program, inputs = trace(algorithm), algorithm.inputs(graph, 4)
    full_run = ReferenceRun(program, graph, 4)
    full_run.reset(inputs)
    lazy = ChangeDrivenInterpreter(program, graph, 4, inputs, tolerance=algorithm.tolerance)
    for _ in range(60):
        full_run.superstep()
        lazy.superstep()
    error = relative_error(lazy.value["rank"], full_run.values("rank")).max()
    assert 0 < error < program.bound
    assert lazy.edges_visited < 60 * graph.num_edges

"""The reference, compared with plain loops: stages, guards, initial states, sides, settling, blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Graph, GraphError
from harness.language import Inputs, InvalidInput, K, maximum, minimum, outer, stack, where
from harness.language import reference as reference_module
from harness.language.reference import ReferenceRun
from tests.language.programs import bipartite_graphs, edges, graphs, mean_of_neighbours, numbers, program_of, run

REDUCERS = {"sum": (sum, 0.0), "min": (min, math.inf), "max": (max, -math.inf), "prod": (math.prod, 1.0)}


def one_superstep(message, reducer, **options):
    def build(p, self):
        p.edge("weight")
        p.edge("vector", K)
        p.edge("table", (K, K))
        p.vertex("x", K)
        p.vertex("s")
        p.vertex("result", K if options.get("shape") is None else options["shape"], start=0.0)
        p.over_edges(into="aggr", reduce=reducer, when=options.get("when"))(message)
        p.over_vertices(lambda v: {"result": v.aggr})
        p.repeat(1)
        p.output("result", bound=1e-6)

    return program_of(build)


def properties(graph, k):
    return {
        "x": numbers(graph, k, seed=1), "s": numbers(graph, seed=2), "vector": numbers(graph, k, seed=3, per="edge"),
        "table": numbers(graph, k, k, seed=4, per="edge"),
    }  # fmt: skip


def reduced(graph, reducer, message, shape=()):
    """Compute by plain loops: ``message(u, v, e)`` over the in-edges of every vertex, feature by feature."""
    function, identity = REDUCERS[reducer]
    result = np.full((graph.num_vertices, *shape), identity)
    for v in range(graph.num_vertices):
        met = [np.asarray(message(u, w, e), np.float64) for u, w, e in edges(graph) if w == v]
        for at in np.ndindex(shape) if met else ():
            result[(v, *at)] = function(float(m[at]) for m in met)
    return result


@given(graphs(), st.sampled_from(["sum", "min", "max"]))
@settings(max_examples=60)
def test_reductions_of_scalars_vectors_and_matrices(graph, reducer):
    given_values = properties(graph, 2)
    x, s, vector, table = (given_values[name].astype(np.float64) for name in ("x", "s", "vector", "table"))
    w = graph.weights.astype(np.float64)
    cases = [
        ((), lambda src, dst, edge: src.s * edge.weight - dst.s, lambda u, v, e: s[u] * w[e] - s[v]),
        (K, lambda src, edge: src.x * edge.vector, lambda u, v, e: x[u] * vector[e]),
        (K, lambda src, edge: src.x @ edge.table, lambda u, v, e: x[u] @ table[e]),
        ((K, K), lambda src, dst: outer(src.x, dst.x), lambda u, v, e: np.outer(x[u], x[v])),
        ((3, K), lambda src, edge: stack(src.x, edge.vector, src.x), lambda u, v, e: np.stack([x[u], vector[e], x[u]])),
    ]
    for shape, message, plain in cases:
        met = run(one_superstep(message, reducer, shape=shape), graph, 2, **given_values).values("result")
        np.testing.assert_allclose(met, reduced(graph, reducer, plain, met.shape[1:]), rtol=1e-12)


@given(graphs())
@settings(max_examples=40)
def test_products_of_scalars_with_zeros_and_signs(graph):
    met = run(one_superstep(lambda edge: edge.weight, "prod", shape=()), graph, 2, **properties(graph, 2))
    expected = reduced(graph, "prod", lambda u, v, e: graph.weights[e])
    np.testing.assert_allclose(met.values("result"), expected, rtol=1e-12)


@given(graphs(), st.sampled_from([*REDUCERS]))
@settings(max_examples=40)
def test_small_blocks_give_the_same(graph, reducer):
    program = one_superstep(lambda src, edge: src.x * edge.weight, reducer)
    whole = run(program, graph, 2, **properties(graph, 2)).values("result")
    block = reference_module.BLOCK_ELEMENTS
    try:
        for reference_module.BLOCK_ELEMENTS in (1, 4, 7):
            assert np.array_equal(run(program, graph, 2, **properties(graph, 2)).values("result"), whole)
    finally:
        reference_module.BLOCK_ELEMENTS = block


@given(graphs(), st.sampled_from(["sum", "min", "max"]))
@settings(max_examples=40)
def test_a_guarded_edge_does_not_take_part(graph, reducer):
    given_values = properties(graph, 2)
    s = given_values["s"].astype(np.float64)
    kept = np.array([graph.weights[e] > s[u] for u, _, e in edges(graph)], bool)
    program = one_superstep(lambda src: src.s, reducer, shape=(), when=lambda src, edge: edge.weight > src.s)
    met = run(program, graph, 2, **given_values).values("result")
    smaller = graph.select_edges(kept)
    np.testing.assert_allclose(met, reduced(smaller, reducer, lambda u, v, e: s[u]))


def test_a_guard_holds_for_the_vertex_stages_directly_after_it():
    def build(p, self):
        p.vertex("given")
        p.vertex("a", start="given")
        p.vertex("b", start=0.0)
        p.vertex("c", start=0.0)
        p.vertex("d", start=0.0)

        @p.over_vertices(when=lambda v: v.a > 0)
        def first(v):
            return {"a": -v.a}  # the guard is tested before this is written

        @p.over_vertices
        def second(v):
            return {"b": v.b + 1}

        @p.over_vertices(when=lambda v: v.a < -1)
        def third(v):
            return {"c": v.c + 1}

        @p.over_vertices
        def fourth(v):
            return {"c": v.c + 10}

        @p.over_graph(into="mass", reduce="sum")
        def weigh(v):
            return v.a

        @p.over_vertices
        def fifth(v):
            return {"d": v.d + 1}

        p.repeat(1)
        p.output("a", bound=1.0)

    graph = Graph.from_edges([0], [1], num_vertices=4, name="four")
    done = run(program_of(build), graph, given=np.array([-5, 0, 1, 3], np.float32))
    assert done.values("a").tolist() == [-5, 0, -1, -3]
    assert done.values("b").tolist() == [0, 0, 1, 1]
    assert done.values("c").tolist() == [0, 0, 0, 11]  # both guards, the second where the first is true
    assert done.values("d").tolist() == [1, 1, 1, 1]
    assert done.values("mass").tolist() == [-9]


def test_a_guarded_edge_update_keeps_the_old_value_and_reverse_reads_the_value_before():
    def build(p, self):
        p.edge("weight")
        p.edge("m", start=1.0)

        @p.over_edges(updates="m", when=lambda edge: edge.weight > 1)
        def update(edge):
            return edge.weight + 10 * edge.reverse.m

        p.repeat(2)
        p.output("m", bound=1.0)

    graph = Graph.from_edges([0, 1, 1, 2, 2], [1, 0, 2, 1, 2], weights=[2, 3, 1, 4, 5], name="pairs")
    m = {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1, (2, 2): 1}
    w = {(0, 1): 2, (1, 0): 3, (1, 2): 1, (2, 1): 4, (2, 2): 5}
    for _ in range(2):
        m = {(u, v): w[u, v] + 10 * m[v, u] if w[u, v] > 1 else old for (u, v), old in m.items()}
    assert run(program_of(build), graph, supersteps=2).values("m").tolist() == [m[u, v] for u, v, _ in edges(graph)]


def test_reverse_without_paired_edges_is_refused_before_the_run():
    def build(p, self):
        p.edge("m", start=1.0)
        p.over_edges(updates="m")(lambda edge: edge.reverse.m)
        p.output("m", bound=1.0)

    graph = Graph.from_edges([0], [1], name="one way")
    with pytest.raises(GraphError, match="have no reverse edge; use graph.with_reverse_edges"):
        ReferenceRun(program_of(build), graph, 1)


def totals(p, self):
    p.vertex("x", K)
    p.vertex("share", K, start=0.0)
    for reducer in ("sum", "min", "max", "prod"):
        p.over_graph(into=f"whole_{reducer}", reduce=reducer)(lambda v: v.x)

    @p.over_vertices
    def divide(v, graph):
        return {"share": v.x / graph.whole_sum * graph.num_vertices + graph.num_edges}

    p.repeat(1)
    p.output("share", bound=1.0)


@given(graphs())
@settings(max_examples=20)
def test_reductions_over_the_graph(graph):
    x = numbers(graph, 2)
    done, y = run(program_of(totals), graph, 2, x=x), x.astype(np.float64)
    for name, expected in (("sum", y.sum(0)), ("min", y.min(0)), ("max", y.max(0)), ("prod", y.prod(0))):
        if name == "prod":
            expected = expected / expected.max()  # of vectors: up to a positive factor
        np.testing.assert_allclose(done.values(f"whole_{name}")[0], expected, rtol=1e-12)
    np.testing.assert_allclose(done.values("share"), y / y.sum(0) * graph.num_vertices + graph.num_edges, rtol=1e-12)


@given(bipartite_graphs(), st.integers(1, 4))
@settings(max_examples=30)
def test_alternating_sides_update_the_left_first(graph, supersteps):
    def build(p, self):
        mean_of_neighbours(p, self)
        p.alternate_sides()

    x, (left, _) = numbers(graph, 2).astype(np.float64), graph.bipartite
    done = run(program_of(build), graph, 2, supersteps, given=x.astype(np.float32))
    for step in range(supersteps):
        fresh = x.copy()
        for v in range(left) if step % 2 == 0 else range(left, graph.num_vertices):
            sources = [u for u, w, _ in edges(graph) if w == v]
            if sources:
                fresh[v] = 0.5 * x[sources].sum(axis=0) / len(sources)
        x = fresh
    np.testing.assert_allclose(done.values("x"), x, rtol=1e-12)


def test_one_quiet_superstep_of_one_side_does_not_settle_a_run():
    def build(p, self):
        mean_of_neighbours(p, self)
        p.alternate_sides()

    graph = Graph.from_edges([0], [1], name="two", symmetrize=True, bipartite=(1, 1))
    reference = ReferenceRun(program_of(build, tolerance=1e-3), graph, 1)
    reference.reset(Inputs({"given": np.array([[1.0], [2.0]], np.float32)}))  # the left has its final value
    statistics = reference.run(50)
    assert statistics.settled
    assert reference.values("x").max() < 1e-2


def test_sides_need_a_bipartite_graph():
    def build(p, self):
        mean_of_neighbours(p, self)
        p.alternate_sides()

    with pytest.raises(InvalidInput, match="graph 'plain' has none"):
        ReferenceRun(program_of(build), Graph.from_edges([0], [1], name="plain"), 1)


@pytest.mark.parametrize(("tolerance", "relative", "supersteps"), [(0.3, False, 3), (0.1, False, 5), (0.3, True, 60)])
def test_a_run_settles_when_nothing_moves_by_more_than_the_tolerance(tolerance, relative, supersteps):
    def build(p, self):
        p.vertex("x", start=2.0)
        p.over_edges(into="aggr", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": v.aggr / 2})  # 2, 1, 0.5, 0.25, ...: moves 1, 0.5, 0.25, ...
        p.until_settled(self.tolerance, relative=relative, at_most=60)
        p.output("x", bound=1.0)

    loop = Graph.from_edges([0], [0], name="loop")
    reference = ReferenceRun(program_of(build, tolerance=tolerance), loop, 1)
    reference.reset(Inputs())
    statistics = reference.run(60)
    assert (len(statistics.supersteps), statistics.settled) == (supersteps, not relative)
    assert all((step.active, step.edges) == (1, 1) for step in statistics.supersteps)


def test_a_superstep_counts_the_sources_that_moved_before_it_and_the_edges_of_all_its_reductions():
    def build(p, self):
        p.vertex("given")
        p.vertex("x", start="given")
        p.over_edges(into="least", reduce="min")(lambda src: src.x)
        p.over_edges(into="most", reduce="max")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": minimum(v.x, v.least) + 0.0 * maximum(v.most, 0.0)})
        p.until_settled(at_most=60)
        p.output("x", bound=0.0)

    path = Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 4, 2], num_vertices=7, name="path")
    reference = ReferenceRun(program_of(build), path, 1)
    for _ in range(2):  # a second run counts from its start
        reference.reset(Inputs({"given": np.array([0, 9, 9, 9, 9, 9, 9], np.float32)}))
        found = [*reference.run(2).supersteps, *reference.run(60).supersteps]
        assert [(one.active, one.edges) for one in found] == [(7, 10), (2, 10), (1, 10), (1, 10)]
        assert reference.values("x").tolist() == [0, 0, 0, 0, 0, 9, 9]


def test_without_a_tolerance_a_run_settles_when_nothing_moves_at_all():
    def build(p, self):
        p.vertex("x", start=5.0)
        p.over_edges(into="least", reduce="min")(lambda src: src.x - 1)
        p.over_vertices(lambda v: {"x": maximum(v.least, 0.0)})  # 5, 4, 3, 2, 1, 0, 0
        p.until_settled(at_most=60)
        p.output("x", bound=0.0)

    program = program_of(build, tolerance=10.0)  # without a named tolerance it has no effect
    reference = ReferenceRun(program, Graph.from_edges([0], [0], name="loop"), 1)
    reference.reset(Inputs())
    statistics = reference.run(60)
    assert (len(statistics.supersteps), statistics.settled, reference.values("x").tolist()) == (6, True, [0.0])


def test_a_change_that_only_graph_reductions_read_keeps_a_run_going():
    def build(p, self):
        p.vertex("clock", start=4.0)
        p.vertex("x", start=0.0)
        p.over_graph(into="time", reduce="max")(lambda v: v.clock)
        p.over_edges(into="aggr", reduce="sum")(lambda src, graph: graph.time)
        p.over_vertices(lambda v: {"x": v.aggr, "clock": where(v.clock > 0, v.clock - 1, v.clock)})
        p.until_settled(self.tolerance, at_most=60)
        p.output("x", bound=1.0)

    reference = ReferenceRun(program_of(build), Graph.from_edges([0], [1], name="edge"), 1)
    reference.reset(Inputs())
    assert len(reference.run(60).supersteps) == 5
    assert reference.values("x").tolist() == [0.0, 0.0]


def test_infinities_are_values_and_nan_never_settles():
    def build(p, self):
        p.edge("weight")
        p.vertex("far")
        p.vertex("d", start="far")
        p.over_edges(into="best", reduce="min")(lambda src, edge: src.d + edge.weight)
        p.over_vertices(lambda v: {"d": minimum(v.d, v.best)})
        p.until_settled(self.tolerance, at_most=20)
        p.output("d", bound=1.0)

    graph = Graph.from_edges([0, 1], [1, 2], weights=[1, 1], num_vertices=4, name="path")
    reference = ReferenceRun(program_of(build), graph, 1)
    reference.reset(Inputs({"far": np.array([0, np.inf, np.inf, np.inf], np.float32)}))
    assert reference.run(20).settled
    assert reference.values("d").tolist() == [0, 1, 2, np.inf]
    reference.reset(Inputs({"far": np.zeros(4, np.float32)}), {"d": np.array([0, np.nan, 1, 1])})
    assert not reference.run(20).settled
    assert np.isnan(reference.values("d")).tolist() == [False, True, True, False]


@pytest.mark.parametrize("vertices", [0, 1, 3])
def test_graphs_without_edges_or_vertices(vertices):
    graph = Graph.from_edges([], [], num_vertices=vertices, name="bare")
    x = numbers(graph, 2)
    done = run(program_of(mean_of_neighbours), graph, 2, 3, given=x)
    assert np.array_equal(done.values("x"), x.astype(np.float64))
    assert done.values("aggr").tolist() == [[0.0, 0.0]] * vertices
    assert run(program_of(totals), graph, 2, x=x).values("share").shape == (vertices, 2)
    product = run(one_superstep(lambda src: src.x, "prod"), graph, 2, **properties(graph, 2))
    assert product.values("result").tolist() == [[1.0, 1.0]] * vertices

"""Whole programs under the reference, compared with enumeration, SciPy and plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csgraph

from harness.graph import Graph
from harness.language import K, eye, maximum, minimum, normalize, outer, solve_spd, where
from harness.language.analysis import change_driven
from tests.language.programs import edges, graphs, numbers, program_of, run


def belief_propagation(*, update_first, hub_start=1.0):
    """Run sum-product; the message u -> v leaves out the message v -> u."""

    def build(p, self):
        p.vertex("phi", K)
        p.edge("psi", (K, K))
        p.edge("msg", K, start=1.0)
        p.vertex("aggr", K, start=hub_start)
        p.vertex("belief", K, start="phi")

        def messages():
            @p.over_edges(updates="msg")
            def message(src, edge):
                return normalize((src.phi * src.aggr.without(edge.reverse.msg)) @ edge.psi)

        if update_first:
            messages()

        @p.over_edges(into="aggr", reduce="prod")
        def gather(edge):
            return edge.msg

        @p.over_vertices
        def believe(v):
            return {"belief": normalize(v.phi * v.aggr)}

        if not update_first:
            messages()
        p.until_settled(self.tolerance, at_most=60)
        p.output("belief", bound=1e-4)

    return program_of(build, tolerance=1e-12)


@st.composite
def trees(draw):
    """Draw a tree of pairs with potentials of 2 or 3 states, some of them zero; each pair's table once, from low to
    high."""
    vertices, k = draw(st.integers(1, 6)), draw(st.integers(2, 3))
    parents = [draw(st.integers(0, v - 1)) for v in range(1, vertices)]
    value = st.sampled_from([0.0, 0.25, 1.0, 2.0])
    table = st.lists(st.floats(0.125, 4.0, width=32), min_size=k * k, max_size=k * k)
    psi = {(u, v): np.array(draw(table)).reshape(k, k) for v, u in enumerate(parents, 1)}
    phi = np.array([draw(st.lists(value, min_size=k, max_size=k)) for _ in range(vertices)])
    phi[:, 0] += 0.5  # some state is possible
    return vertices, k, phi, psi


def marginals(vertices, k, phi, psi):
    found = np.zeros((vertices, k))
    for states in itertools.product(range(k), repeat=vertices):
        weight = np.prod([phi[v, s] for v, s in enumerate(states)])
        weight *= np.prod([table[states[u], states[v]] for (u, v), table in psi.items()])
        for v, s in enumerate(states):
            found[v, s] += weight
    return found / found.sum(axis=1, keepdims=True)


def network(vertices, psi):
    pairs = [*psi, *[(v, u) for u, v in psi]]
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    graph = Graph.from_edges(ends[:, 0], ends[:, 1], num_vertices=vertices, name="tree")
    both = psi | {(v, u): table.T for (u, v), table in psi.items()}
    return graph, [both[u, v] for u, v, _ in edges(graph)]


@given(trees(), st.booleans())
@settings(max_examples=50)
def test_belief_propagation_on_trees_gives_the_exact_marginals(tree, update_first):
    vertices, k, phi, psi = tree
    graph, tables = network(vertices, psi)
    done = run(
        belief_propagation(update_first=update_first), graph, k, 2 * vertices + 2,
        phi=phi.astype(np.float32), psi=np.array(tables, np.float32).reshape(-1, k, k),
    )  # fmt: skip
    np.testing.assert_allclose(done.values("belief"), marginals(vertices, k, phi, psi), atol=1e-9)


def test_belief_propagation_at_a_hub_whose_product_leaves_the_range_of_floats():
    leaves, k = 2000, 2
    psi = {(0, v): np.array([[0.01, 0.02], [0.02, 0.01]]) for v in range(1, leaves + 1)}
    graph, tables = network(leaves + 1, psi)
    phi = np.ones((leaves + 1, k), np.float32)
    phi[1:1002, 0] = 2.0  # 1001 leaves prefer one state, 999 the other
    phi[1002:, 1] = 2.0
    done = run(belief_propagation(update_first=False), graph, k, 4, phi=phi, psi=np.array(tables, np.float32))
    # Each leaf sends (2 * 1 + 1 * 2, 2 * 2 + 1 * 1) = (4, 5) or (5, 4): there are two more of one kind than of the
    # other.
    odds = (5 / 4) ** 2
    np.testing.assert_allclose(done.values("belief")[0], [1 / (1 + odds), odds / (1 + odds)], rtol=1e-5)


def extreme(reducer, closer, message):
    def build(p, self):
        p.edge("weight")
        p.vertex("first", K)
        p.vertex("d", K, start="first")
        p.over_edges(into="best", reduce=reducer)(message)
        p.over_vertices(lambda v: {"d": closer(v.d, v.best)})
        p.until_settled(self.tolerance, at_most=60)
        p.output("d", bound=1e-6)

    return program_of(build)


@given(graphs(max_vertices=8, max_edges=20, positive=True))
@settings(max_examples=60)
def test_shortest_paths_from_two_sources_at_once_against_scipy(graph):
    sources = [0, graph.num_vertices - 1]
    first = np.full((graph.num_vertices, 2), np.inf, np.float32)
    first[sources, [0, 1]] = 0.0
    program = extreme("min", minimum, lambda src, edge: src.d + edge.weight)
    done = run(program, graph, 2, 60, first=first)
    least: dict[tuple[int, int], float] = {}
    for u, v, e in edges(graph):  # SciPy would add up parallel edges
        least[u, v] = min(least.get((u, v), np.inf), float(graph.weights[e]))
    ends = np.array([*least], np.int64).reshape(-1, 2)
    shape = (graph.num_vertices,) * 2
    lengths = coo_array((np.array([*least.values()]), (ends[:, 0], ends[:, 1])), shape=shape).tocsr()
    np.testing.assert_allclose(done.values("d"), csgraph.dijkstra(lengths, indices=sources).T)


@given(graphs(max_vertices=8, symmetric=True))
@settings(max_examples=60)
def test_largest_labels_spread_over_connected_components(graph):
    program = extreme("max", maximum, lambda src: src.d)
    first = np.arange(graph.num_vertices, dtype=np.float32)[:, None]
    done = run(program, graph, 1, 60, first=first)
    adjacency = coo_array(
        (np.ones(graph.num_edges), (graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64))),
        shape=(graph.num_vertices,) * 2,
    )
    _, component = csgraph.connected_components(adjacency, directed=False)
    expected = [max(np.flatnonzero(component == c)) for c in component]
    assert done.values("d")[:, 0].tolist() == expected


@given(graphs(max_vertices=8, max_edges=24, symmetric=True), st.integers(1, 3))
@settings(max_examples=60)
def test_a_core_is_the_result_of_peeling(graph, core):
    def build(p, self):
        p.vertex("alive", start=1.0)
        p.over_edges(into="left", reduce="sum")(lambda src: src.alive)
        p.over_vertices(lambda v: {"alive": where(v.left >= core, v.alive, 0.0)})
        p.until_settled(self.tolerance, at_most=60)
        p.output("alive", bound=1e-6)

    program = program_of(build)
    assert change_driven(program)[0].kind == "linear"
    alive = set(range(graph.num_vertices))
    while True:
        degree = {v: sum(u in alive for u, w, _ in edges(graph) if w == v) for v in alive}
        weak = {v for v in alive if degree[v] < core}
        if not weak:
            break
        alive -= weak
    assert set(np.flatnonzero(run(program, graph, 1, 60).values("alive"))) == alive


@given(graphs(max_vertices=5), st.integers(1, 3))
@settings(max_examples=30)
def test_least_squares_at_every_vertex_against_its_normal_equations(graph, k):
    def build(p, self):
        p.edge("weight")
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")
        p.over_edges(into="b", reduce="sum")(lambda src, edge: edge.weight * src.x)
        p.over_edges(into="a", reduce="sum")(lambda src: outer(src.x, src.x))
        p.over_vertices(lambda v: {"x": solve_spd(v.a + self.rate * eye(K), v.b)})
        p.repeat(2)
        p.output("x", bound=1e-3)

    x0 = numbers(graph, k)
    x = x0.astype(np.float64)
    for _ in range(2):
        fresh = np.zeros_like(x)
        for v in range(graph.num_vertices):
            met = [(x[u], float(graph.weights[e])) for u, w, e in edges(graph) if w == v]
            rows = np.array([r for r, _ in met] + list(np.sqrt(0.5) * np.eye(k))).reshape(-1, k)
            wanted = np.array([t for _, t in met] + [0.0] * k)
            fresh[v] = np.linalg.lstsq(rows, wanted, rcond=None)[0]
        x = fresh
    np.testing.assert_allclose(run(program_of(build), graph, k, 2, x0=x0).values("x"), x, rtol=1e-7, atol=1e-9)


def test_without_of_a_sum_subtracts():
    def build(p, self):
        p.edge("weight")
        p.edge("m", start=0.0)
        p.vertex("x", start=0.0)

        @p.over_edges(into="whole", reduce="sum")
        def gather(edge):
            return edge.weight

        @p.over_edges(updates="m")
        def others(dst, edge):
            return dst.whole.without(edge.weight)

        p.over_vertices(lambda v: {"x": v.whole})
        p.output("m", bound=1e-6)
        p.repeat(1)

    graph = Graph.from_edges([0, 1, 2], [3, 3, 3], weights=[1, 2, 4], name="star")
    assert run(program_of(build), graph).values("m").tolist() == [6, 5, 3]


def test_a_product_may_read_its_own_old_value():
    """Every edge multiplies the *old* aggregates, whatever the order in which destinations are visited."""

    def build(p, self):
        p.vertex("one")
        p.edge("half")
        p.vertex("p", start="one")

        @p.over_edges(into="p", reduce="prod")
        def multiply(src, edge):
            return src.p.without(edge.half)

        p.repeat(1)
        p.output("p", bound=1e-6)

    ring = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], name="ring")
    start = np.array([1, 3, 5, 7], np.float32)
    done = run(program_of(build), ring, one=start, half=np.full(4, 0.5, np.float32))
    np.testing.assert_allclose(done.values("p"), 2 * np.roll(start, 1))


@pytest.mark.parametrize("hub_start", [2.0])
def test_the_start_of_a_product_counts_until_it_is_reduced(hub_start):
    graph, tables = network(2, {(0, 1): np.array([[1.0, 2.0], [3.0, 4.0]])})
    program = belief_propagation(update_first=True, hub_start=hub_start)
    done = run(program, graph, 2, 1, phi=np.ones((2, 2), np.float32), psi=np.array(tables, np.float32))
    np.testing.assert_allclose(done.values("msg"), [[0.4, 0.6], [0.3, 0.7]], rtol=1e-6)

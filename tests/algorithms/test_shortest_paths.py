from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

from harness.algorithms.bfs import BFS
from harness.algorithms.sssp import SSSP
from harness.algorithms.starting_vertices import starting_vertices
from harness.graph import Graph, load_graph
from harness.graph.generators import grid, rmat
from harness.language import InvalidInput, trace
from harness.language.analysis import change_driven
from harness.language.validation import compare
from tests.algorithms.answers import answer, data
from tests.algorithms.multigraphs import adjacency_of, multigraphs, shortest_lengths


def csgraph_distances(graph, sources, lengths):
    """Return ``[V, k]`` by SciPy's Bellman-Ford; edges of length 0 count, unlike in SciPy's sparse matrices."""
    dense = shortest_lengths(graph, lengths)
    sparse = csgraph.csgraph_from_dense(dense, null_value=np.inf)
    return csgraph.bellman_ford(sparse, indices=sources).T


def sources_of(algorithm, graph, features):
    given_start = algorithm.inputs(graph, features).properties["source"]
    assert ((given_start == 0).sum(axis=0) == 1).all()
    assert np.isinf(given_start[given_start != 0]).all()
    return given_start.argmin(axis=0)


@given(multigraphs(), st.integers(1, 4), st.integers(0, 9))
@settings(max_examples=80)
def test_levels_are_those_of_scipy(graph, features, seed):
    algorithm = BFS(seed=seed)
    levels, settled = answer(algorithm, graph, features)
    assert settled
    expected = csgraph_distances(graph, sources_of(algorithm, graph, features), np.ones(graph.num_edges))
    assert np.array_equal(levels, expected)
    assert (adjacency_of(graph).any(axis=1) == (graph.out_degrees > 0)).all()


@given(multigraphs(), st.integers(1, 4), st.integers(0, 9))
@settings(max_examples=80)
def test_distances_are_those_of_scipy(graph, features, seed):
    algorithm = SSSP(seed=seed)
    distances, settled = answer(algorithm, graph, features)
    assert settled
    expected = csgraph_distances(graph, sources_of(algorithm, graph, features), graph.weights)
    assert np.array_equal(distances, expected)  # multiples of 1/8 add up exactly


def test_roads_of_rome_are_those_of_dijkstra():
    graph = load_graph(data("rome99.gr"), duplicates="min")
    algorithm = SSSP(sources="0 17,1000")
    distances, settled = answer(algorithm, graph, 3)
    assert settled
    expected = csgraph.dijkstra(adjacency_of(graph, graph.weights), indices=[0, 17, 1000]).T
    np.testing.assert_allclose(distances, expected, rtol=1e-12)
    met = algorithm.metrics(graph, {"distance": distances})
    assert met == {"reached": 1.0, "farthest": pytest.approx(expected.max())}


def test_levels_of_a_web_from_its_hub():
    graph = rmat(scale=9, edge_factor=6, seed=2)
    hub = int(graph.out_degrees.argmax())
    levels, _ = answer(BFS(sources=str(hub)), graph, 1)
    expected = csgraph.dijkstra(adjacency_of(graph), indices=[hub], unweighted=True).T
    assert np.array_equal(levels, expected)
    assert np.isinf(levels).any()


@pytest.mark.parametrize("algorithm", [BFS(sources="0"), SSSP(sources="0")])
def test_unreachable_vertices_stay_at_infinity_and_out_of_the_farthest(algorithm):
    graph = Graph.from_edges([0, 1, 3], [1, 2, 4], num_vertices=6, weights=[2, 3, 1], name="parts")
    found, _ = answer(algorithm, graph, 1)
    (output,) = trace(algorithm).outputs
    assert np.isinf(found[3:]).all()
    assert algorithm.metrics(graph, {output: found}) == {"reached": 0.5, "farthest": float(found[2, 0])}
    near = found.copy()
    near[4] = 1e30
    assert not compare(trace(algorithm), {output: near}, {output: found}).ok


def test_without_weights_every_edge_has_length_1():
    graph = rmat(scale=6, edge_factor=3, seed=1).with_weights(None)
    levels, _ = answer(BFS(), graph, 4)
    distances, _ = answer(SSSP(), graph, 4)
    assert np.array_equal(levels, distances)


def test_float32_sums_along_long_paths_stay_within_the_bound():
    graph = grid(rows=4, columns=400, removed=0.0, seed=3)
    distances, _ = answer(SSSP(sources="0"), graph, 1)
    rounded = np.where(np.arange(graph.num_vertices) == 0, 0, np.inf).astype(np.float32)
    for _ in range(graph.num_vertices):
        before = rounded.copy()
        np.minimum.at(rounded, graph.csr.neighbours, before[graph.csr.row_of_edge] + graph.weights)
        if np.array_equal(before, rounded):
            break
    found = compare(trace(SSSP()), {"distance": rounded[:, None]}, {"distance": distances})
    assert found.ok, found.detail
    assert found.error > 0


@pytest.mark.parametrize("algorithm", [BFS(), SSSP()])
def test_a_change_driven_engine_pushes_only_new_values(algorithm):
    (delta,) = change_driven(trace(algorithm))
    assert delta.kind == "monotone"


def test_levels_are_exact_and_distances_are_not():
    assert trace(BFS()).bound == 0.0
    assert 0 < trace(SSSP()).bound <= 1e-5


@pytest.mark.parametrize("names", [np.array([30, 7, -2, 7]), np.array(["30", "7", "park", "7"])])
def test_sources_are_found_by_name(names):
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=4, name="four").with_vertex_names(names)
    last = str(names[2])
    assert starting_vertices(f"id:{last} 1,id:30", graph, 3, 0).tolist() == [2, 1, 0]
    for text, reason in (("id:7", "2 vertices of graph 'four'"), ("id:x9", "no vertex of graph 'four'")):
        with pytest.raises(InvalidInput, match=f"{text}: {reason} have this name; give vertex numbers"):
            starting_vertices(text, graph, 1, 0)
    with pytest.raises(InvalidInput, match="the vertices of graph 'four' have no names; give numbers from 0 to 3"):
        starting_vertices("id:30", Graph.from_edges([0], [1], num_vertices=4, name="four"), 1, 0)


def test_sources_depend_only_on_the_seed_and_have_out_edges():
    graph = rmat(scale=8, edge_factor=4, seed=3)
    assert (graph.out_degrees == 0).any()
    first, again, other = (starting_vertices("drawn", graph, 20, s) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(set(first)) == 20
    assert (graph.out_degrees[first] > 0).all()


def test_vertices_repeat_where_there_are_too_few():
    assert starting_vertices("drawn", Graph.from_edges([0], [1], name="pair"), 3, 0).tolist() == [0, 0, 0]
    alone = Graph.from_edges([], [], num_vertices=2, name="alone")
    assert sorted(starting_vertices("drawn", alone, 2, 0)) == [0, 1]


PAIR = Graph.from_edges([0, 1], [1, 0], name="pair")


@pytest.mark.parametrize("algorithm", [BFS, SSSP])
@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ("0 2", "vertex 2 is out of range: graph 'pair' has the vertices 0 to 1"),
        ("-1 0", "'-1' is not a vertex"),
        ("first 0", "'first' is not a vertex; give vertex numbers or id:NAME, separated by blanks, or drawn"),
        ("0", "the number of vertices given is 1, and these features need 2"),
        ("0, 1, 0", "the number of vertices given is 3, and these features need 2"),
    ],
)
def test_sources_that_do_not_fit_are_refused(algorithm, sources, words):
    with pytest.raises(InvalidInput, match=words):
        algorithm(sources=sources).inputs(PAIR, 2)


@pytest.mark.parametrize("least", [-1e-3, -1.0])
def test_any_negative_length_is_refused(least):
    graph = Graph.from_edges([0, 1], [1, 0], num_vertices=2, weights=np.array([1.0, least], np.float32), name="pair")
    with pytest.raises(InvalidInput, match=f"negative weights, down to {least:g}"):
        SSSP().inputs(graph, 1)


def test_negative_lengths_and_empty_graphs_are_refused():
    with pytest.raises(InvalidInput, match="graph 'pair' has negative weights, down to -2"):
        SSSP().inputs(PAIR.with_weights([1, -2]), 1)
    with pytest.raises(InvalidInput, match="'nothing' has no vertices to start from"):
        BFS().inputs(Graph.from_edges([], [], num_vertices=0, name="nothing"), 1)

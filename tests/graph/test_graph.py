"""Graph: building, both directions, reverse edges, parallel edges, identity."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Adjacency, Graph, GraphError, file_maps, identity
from harness.graph.adjacency import as_index
from harness.graph.pages import array_in_pages


@st.composite
def edge_lists(draw, most_vertices=8, most_edges=30):
    """Draw (number of vertices, list of (source, destination, weight)), with self-loops and parallel edges."""
    count = draw(st.integers(1, most_vertices))
    vertex = st.integers(0, count - 1)
    weight = st.floats(-100, 100, width=32)
    return count, draw(st.lists(st.tuples(vertex, vertex, weight), max_size=most_edges))


def graph_of(count, edges, **options):
    sources, destinations, weights = zip(*edges, strict=True) if edges else ((), (), ())
    options = {"name": "test", "duplicates": "keep"} | options
    return Graph.from_edges(
        np.array(sources, dtype=int), np.array(destinations, dtype=int), num_vertices=count, weights=weights, **options
    )


def listed(graph, adjacency=None):
    """Return (row, neighbour) of every edge."""
    adjacency = adjacency or graph.csr
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(adjacency.offsets))
    return list(zip(rows.tolist(), adjacency.neighbours.tolist(), strict=True))


@given(edge_lists())
def test_csr_is_the_stable_sort_of_the_edges(given_edges):
    count, edges = given_edges
    graph = graph_of(count, edges)
    expected = sorted(edges, key=lambda edge: edge[:2])
    assert listed(graph) == [edge[:2] for edge in expected]
    assert graph.weights.tolist() == [edge[2] for edge in expected]
    assert (graph.num_vertices, graph.num_edges) == (count, len(edges))
    graph.validate()


@given(edge_lists())
def test_csc_lists_the_same_edges_by_destination(given_edges):
    graph = graph_of(*given_edges)
    forward = listed(graph)
    backward = [(source, destination) for destination, source in listed(graph, graph.csc)]
    assert [forward[i] for i in graph.csc.edge_ids] == backward
    expected = sorted(range(len(forward)), key=lambda i: (forward[i][1], i))
    assert graph.csc.edge_ids.tolist() == expected
    assert graph.in_weights.tolist() == graph.weights[graph.csc.edge_ids].tolist()


@given(edge_lists())
def test_degrees_and_sums_agree_with_scipy(given_edges):
    count, edges = given_edges
    merged = graph_of(count, edges, duplicates="sum")
    matrix = np.zeros((count, count))
    for u, v, w in edges:
        matrix[u, v] += w
    ours = scipy.sparse.csr_array((merged.weights, merged.csr.neighbours, merged.csr.offsets), shape=(count, count))
    theirs = scipy.sparse.csc_array(
        (merged.in_weights, merged.csc.neighbours, merged.csc.offsets), shape=(count, count)
    )
    np.testing.assert_allclose(ours.toarray(), matrix, atol=1e-3)
    np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    many = nx.MultiDiGraph()
    many.add_nodes_from(range(count))
    many.add_edges_from((u, v) for u, v, _ in edges)
    kept = graph_of(count, edges)
    assert kept.out_degrees.tolist() == [many.out_degree(v) for v in range(count)]
    assert kept.in_degrees.tolist() == [many.in_degree(v) for v in range(count)]


@given(edge_lists(most_vertices=5))
def test_added_reverse_edges_pair_every_edge(given_edges):
    graph = graph_of(*given_edges)
    both = graph.with_reverse_edges()
    both.validate()
    assert both.has_reverse_edges
    edges, reverse = listed(both), both.reverse_edges.tolist()
    assert [reverse[i] for i in reverse] == list(range(both.num_edges))
    assert [(v, u) for u, v in edges] == [edges[i] for i in reverse]
    assert all(reverse[i] == i for i, (u, v) in enumerate(edges) if u == v)
    before, after = listed(graph), edges
    for u, v in set(before) | set(after):
        assert after.count((u, v)) == max(before.count((u, v)), before.count((v, u)))
    assert both.with_reverse_edges() is both


@given(edge_lists(most_vertices=4))
def test_the_reverse_of_parallel_edges_keeps_their_order(given_edges):
    count, edges = given_edges
    graph = graph_of(count, [edge for edge in edges if edge[0] != edge[1]], symmetrize=True)
    np.testing.assert_array_equal(graph.weights, graph.weights[graph.reverse_edges])


def test_edges_without_a_reverse_are_named():
    graph = graph_of(3, [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0)])
    assert not graph.has_reverse_edges
    with pytest.raises(GraphError, match=r"with_reverse_edges"):
        _ = graph.reverse_edges


def test_reverse_edges_bring_their_weight_and_data():
    graph = Graph.from_edges([0, 1], [1, 2], weights=[5, 7], edge_data={"colour": np.array([[1, 2], [3, 4]])}, name="g")
    both = graph.with_reverse_edges()
    assert listed(both) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert both.weights.tolist() == [5, 5, 7, 7]
    assert both.edge_data["colour"].tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert not both.directed


@pytest.mark.parametrize(("policy", "weights"), [("sum", [4, 7]), ("min", [1, 7]), ("keep", [3, 1, 7])])
def test_parallel_edges_follow_the_policy(policy, weights):
    graph = Graph.from_edges([0, 0, 1], [1, 1, 0], weights=[3, 1, 7], duplicates=policy, name="g")
    assert graph.weights.tolist() == weights


def test_parallel_edges_are_an_error_unless_allowed():
    with pytest.raises(GraphError, match=r"edge 0 -> 1 is given more than once \(2 repeated edges\).*duplicates=sum"):
        Graph.from_edges([2, 0, 0, 0], [0, 1, 1, 1], name="g")
    assert Graph.from_edges([0, 0], [1, 1], duplicates="min", name="g").num_edges == 1
    with pytest.raises(GraphError, match="choose one of error, sum, min, keep"):
        Graph.from_edges([0], [1], duplicates="max", name="g")
    with pytest.raises(GraphError, match="merge the data"):
        Graph.from_edges([0, 0], [1, 1], duplicates="min", edge_data={"x": [1, 2]}, name="g")


def test_symmetrize_keeps_self_loops_once():
    graph = Graph.from_edges([0, 1], [1, 1], weights=[2, 3], symmetrize=True, name="g")
    assert listed(graph) == [(0, 1), (1, 0), (1, 1)]
    assert graph.weights.tolist() == [2, 2, 3]
    assert not graph.directed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sources": [0, -1], "destinations": [1, 1]}, "edge 1, -1 -> 1, is outside"),
        ({"sources": [0, 9], "destinations": [1, 1], "num_vertices": 3}, "edge 1, 9 -> 1, is outside the 3 vertices"),
        ({"sources": [0, 1], "destinations": [1]}, "two lists of the same length"),
        ({"sources": [0.5], "destinations": [1.0]}, "vertex ids must be integers"),
        ({"sources": [0], "destinations": [1], "weights": [np.nan]}, "weight of edge 0 is nan"),
        ({"sources": [0], "destinations": [1], "weights": [1e300]}, "weights must be finite as float32"),
        ({"sources": [0], "destinations": [1], "weights": [1, 2]}, "one real number for each of 1 edges"),
        ({"sources": [0], "destinations": [1], "weights": [1j]}, "one real number"),
        ({"sources": [0], "destinations": [1], "labels": [1]}, r"labels has shape \(1,\).*must be 2"),
        ({"sources": [0], "destinations": [1], "vertex_data": {"x": [1]}}, "vertex_data/x has shape"),
        ({"sources": [0], "destinations": [1], "edge_data": {"x": [1, 2]}}, "edge_data 'x' has shape"),
        ({"sources": [0], "destinations": [1], "bipartite": (1, 2)}, "do not add up to its 2 vertices"),
    ],
)
def test_unsuitable_inputs_are_refused(arguments, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_edges(**arguments, name="g")


@pytest.mark.parametrize("count", [0, 5])
def test_a_graph_may_have_no_edges(count):
    graph = Graph.from_edges([], [], num_vertices=count, name="empty")
    graph.validate()
    assert graph.out_degrees.tolist() == graph.in_degrees.tolist() == [0] * count
    assert graph.has_reverse_edges
    assert graph.with_reverse_edges() is graph


def test_arrays_are_read_only_and_of_the_promised_types():
    weights = np.array([1, 2], dtype=np.float32)
    graph = Graph.from_edges([0, 1], [1, 0], weights=weights, labels=[3, -1], name="g")
    dtypes = [
        graph.csr.offsets,
        graph.csr.neighbours,
        graph.csc.edge_ids,
        graph.weights,
        graph.in_weights,
        graph.labels,
    ]
    assert [array.dtype.name for array in dtypes] == ["int64", "uint32", "uint32", "float32", "float32", "int32"]
    assert not any(array.flags.writeable for array in dtypes)
    weights[0] = 100
    assert graph.weights.tolist() == [1, 2]
    changed = graph.with_weights(weights)
    weights[0] = -100
    assert changed.weights.tolist() == [100, 2]
    assert changed.in_weights.tolist() == [2, 100]


def test_blocks_of_large_arrays_are_hashed_in_order(monkeypatch):
    """The hash of a graph with a large array is another one, and finds exchanged blocks."""
    draw = np.random.default_rng(1)
    edges = draw.integers(0, 500, (2, 3000))
    small, again, other = (Graph.from_edges(*edges, name="g", duplicates="keep") for _ in range(3))
    assert small.content_hash == again.content_hash
    monkeypatch.setattr(identity, "LARGE", 12_000)
    monkeypatch.setattr(identity, "BLOCK", 1000)
    assert other.content_hash != small.content_hash
    hashes = {other.content_hash}
    for change in (lambda a: a.__setitem__(0, a[0] ^ 1), lambda a: a.__setitem__(-1, a[-1] ^ 1), exchange_blocks):
        neighbours = other.csr.neighbours.copy()
        change(neighbours)
        hashes.add(Graph(Adjacency(other.csr.offsets, neighbours), name="g").content_hash)
    assert len(hashes) == 4
    same = Graph(Adjacency(other.csr.offsets, other.csr.neighbours.copy()), name="h")
    assert same.content_hash == other.content_hash


def exchange_blocks(values):
    """Exchange two blocks of 1,000 bytes."""
    first = values[:250].copy()
    values[:250] = values[500:750]
    values[500:750] = first


def test_the_content_hash_depends_only_on_content():
    def make(**changes):
        return Graph.from_edges([0, 1], [1, 2], **({"name": "g", "weights": [1, 2]} | changes)).content_hash

    same = make()
    assert make(name="another", meta={"origin": "elsewhere"}) == same
    differing = [
        make(weights=[1, 3]), make(weights=None), make(num_vertices=4), make(labels=[0, 0, 0]), make(directed=False),
        make(vertex_data={"x": [0, 0, 0]}), make(vertex_data={"y": [0, 0, 0]}), make(bipartite=(1, 2)),
        make(edge_data={"x": [0, 0]}), make(symmetrize=True),
    ]  # fmt: skip
    assert len({same, *differing}) == len(differing) + 1
    assert Graph.from_edges([1, 0], [2, 1], weights=[2, 1], name="g").content_hash == same


@pytest.mark.parametrize(
    ("offsets", "neighbours", "more", "message"),
    [
        ([0, 2, 1], [0, 1], {}, "offsets must rise from 0 to the number of edges, 2"),
        ([1, 1, 2], [0, 1], {}, "offsets must rise"),
        ([0, 1, 1], [0, 1], {}, "offsets must rise"),
        ([0, 1, 2], np.array([0, 1], np.int64), {}, "neighbours are int64, not uint32"),
        ([0, 1, 2], [0, 2], {}, "leads to vertex 2, but there are 2 vertices"),
        ([0, 0, 2, 3], [2, 1, 0], {}, "edge 0 and the next are not sorted by destination"),
        ([0, 1, 3, 5], [2, 0, 1, 1, 0], {}, "edge 3 and the next are not sorted by destination"),
        ([0, 1, 1], [1], {"bipartite": (1, 1), "weights": np.array([np.nan])}, "weight of edge 0 is not finite"),
        ([0, 1, 2], [1, 0], {"bipartite": (0, 2)}, "bipartite with 0 vertices on the left"),
        ([0, 1, 2], [0, 5], {}, "leads to vertex 5"),
        ([0, 2, 2], [1, 0], {}, "not sorted"),
        ([0, 1, 1], [1], {"directed": False}, "no reverse edge"),
        ([0, 1, 1], [1], {"bipartite": (2, 0)}, "two vertices of one side"),
        ([0, 1, 1], [1], {"weights": np.array([np.inf])}, "not finite"),
        ([0, 1, 1], [1], {"labels": np.array([-2, 0])}, "labels"),
    ],
)
def test_validate_finds_inconsistencies(offsets, neighbours, more, message):
    ids = neighbours if isinstance(neighbours, np.ndarray) else np.array(neighbours, dtype=np.uint32)
    adjacency = Adjacency(np.array(offsets), ids)
    with pytest.raises(GraphError, match=message):
        Graph(adjacency, name="g", **more).validate()


def test_nbytes_counts_the_arrays_held():
    graph = Graph.from_edges([0, 1], [1, 0], weights=[1, 2], name="g")
    assert graph.nbytes == 3 * 8 + 2 * 4 + 2 * 4
    _ = graph.in_weights
    assert graph.nbytes == 2 * (3 * 8 + 2 * 4 + 2 * 4) + 2 * 4


@pytest.mark.parametrize("loops", [False, True])
def test_the_data_of_an_edge_is_that_of_both_its_directions(loops):
    ends = [*([(1, 1)] if loops else []), (2, 0), (0, 1)]
    u, v = np.array(ends).T
    given = {"edge_data": {"kind": np.arange(len(ends)), "pair": 10 * np.array(ends)}, "weights": np.arange(len(ends))}
    graph = Graph.from_edges(u, v, num_vertices=3, symmetrize=True, name="both", **given)
    graph.validate()
    rows, columns = graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist()
    found = list(zip(rows, columns, graph.edge_data["kind"].tolist(), graph.weights.tolist(), strict=True))
    expected = {(*end, number, float(number)) for number, end in enumerate(ends)}
    assert sorted(found) == sorted({*expected, *((v, u, *weight) for u, v, *weight in expected)})
    assert graph.edge_data["pair"].tolist() == [[10 * part for part in ends[kind]] for _, _, kind, _ in found]


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (Graph.from_edges([0, 1], [1, 2], name="path"), "<Graph 'path': 3 vertices, 2 edges, directed>"),
        (
            Graph.from_edges(
                range(1500), range(1, 1501), name="w", weights=[1] * 1500, symmetrize=True, directed=False
            ),
            "<Graph 'w': 1,501 vertices, 3,000 edges, undirected, weighted>",
        ),
    ],
)
def test_a_graph_is_shown_with_its_sizes(graph, text):
    assert repr(graph) == text


@pytest.mark.parametrize(
    ("dtype", "count", "result", "shared"),
    [
        (np.uint32, 5, np.int32, True), (np.int32, 5, np.int32, True), (np.int64, 5, np.int32, False),
        (np.uint32, 2**31 - 1, np.int32, True), (np.uint32, 2**31, np.int64, False), (np.uint64, 2**31, np.int64, True),
        (np.int64, 2**31, np.int64, True), (np.uint8, 2**40, np.int64, False),
    ],
)  # fmt: skip
def test_ids_become_signed_without_a_copy_where_possible(dtype, count, result, shared):
    ids = np.array([0, 4, 2], dtype)
    index = as_index(ids, count)
    assert (index.dtype, index.tolist()) == (result, [0, 4, 2])
    assert np.shares_memory(ids, index) == shared


@pytest.mark.parametrize("places", [[], [0], [3, 4, 5, 6, 7, 9], [9], list(range(10))])
@pytest.mark.parametrize("at_once", [1, 2, 3, 256])
def test_values_at_places_of_a_mapped_file(tmp_path, monkeypatch, places, at_once):
    monkeypatch.setattr(file_maps, "PLACES_AT_ONCE", at_once)
    values = np.arange(20).reshape(10, 2)
    values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", values.dtype, "r", shape=values.shape)
    for held in (values, mapped):
        found = file_maps.taken_from(held, np.array(places, np.int64))
        assert found.tolist() == values[places].tolist()
        assert file_maps.file_map(found) is None


def test_an_array_of_pages_is_zero_and_too_long_ones_are_refused():
    for length, dtype in ((0, np.int64), (3, np.uint8), (5, np.float32)):
        array = array_in_pages(length, dtype)
        assert (array.dtype, array.tolist()) == (dtype, [0] * length)
    with pytest.raises(MemoryError, match="the host has no 4,611,686,018,427,387,904 bytes for an array"):
        array_in_pages(2**62, np.uint8)


def test_ids_beyond_64_bits_of_offsets_are_refused():
    with pytest.raises(GraphError, match=rf"graph 'far': vertex id {2**62} is too large; number the vertices from 0"):
        Graph.from_edges([0], [2**62], name="far")

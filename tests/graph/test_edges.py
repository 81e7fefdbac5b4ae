"""Lists of edges at their limits: ids, weights, labels, merged and paired parallel edges, inserted pairs."""

import numpy as np
import pytest

from harness.graph import Adjacency, Graph, GraphError, validation
from harness.graph.changes import change_graph
from harness.graph.edges import checked_ids, checked_labels, checked_weights


@pytest.mark.parametrize(
    ("sources", "destinations", "vertices", "stray"),
    [
        ([0, 2], [2, 1], 3, None),
        ([0, 3], [2, 1], 3, "edge 1, 3 -> 1, is outside the 3 vertices"),
        ([0, 2], [3, 1], 3, "edge 0, 0 -> 3, is outside the 3 vertices"),
        ([0, 1], [0, -1], 3, "edge 1, 1 -> -1, is outside the 3 vertices"),
        ([0, -1], [0, 0], None, "edge 1, -1 -> 0, is outside the 1 vertices"),
    ],
)
def test_ids_are_below_the_number_of_vertices(sources, destinations, vertices, stray):
    if stray is None:
        assert checked_ids(sources, destinations, vertices, "g")[2] == vertices
        return
    with pytest.raises(GraphError, match=f"graph 'g': {stray}; ids run from 0 to num_vertices - 1"):
        checked_ids(sources, destinations, vertices, "g")


def test_the_greatest_id_is_one_below_2_to_the_62():
    assert checked_ids([0], [2**62 - 1], None, "g")[2] == 2**62


def test_without_edges_there_are_as_many_vertices_as_given():
    assert [checked_ids([], [], count, "g")[2] for count in (None, 0, 7)] == [0, 0, 7]


@pytest.mark.parametrize("label", [2**31 - 1, -(2**31)])
def test_labels_fit_into_32_bits(label):
    assert checked_labels([0, label], "g").tolist() == [0, label]
    with pytest.raises(GraphError, match=r"labels are int64\[2\]; give integers below 2\^31, -1 for unknown"):
        checked_labels([0, label + (1 if label > 0 else -1)], "g")


def test_a_weight_that_is_not_finite_is_named():
    assert checked_weights([True, False], 2, "g").tolist() == [1.0, 0.0]
    with pytest.raises(GraphError, match=r"the weight of edge 1 is 1e\+39; weights must be finite as float32"):
        checked_weights([1.0, 1e39, np.nan], 3, "g")
    with pytest.raises(GraphError, match=r"weights are float64\[2\]; give one real number for each of 3 edges"):
        checked_weights([1.0, 2.0], 3, "g")


def test_parallel_weights_are_added_in_double_precision():
    """In float32, 1e8 + 1 is 1e8."""
    graph = Graph.from_edges([0, 0, 0], [1, 1, 1], weights=[1e8, 1.0, -1e8], duplicates="sum", name="g")
    assert graph.weights.tolist() == [1.0]
    least = Graph.from_edges([0, 0, 1], [1, 1, 0], weights=[-1.0, -3.0, 2.0], duplicates="min", name="g")
    assert least.weights.tolist() == [-3.0, 2.0]


@pytest.mark.parametrize("duplicates", ["error", "sum", "min"])
def test_data_of_parallel_edges_are_not_merged(duplicates):
    message = (
        r"edge 1 -> 0 is given more than once \(1 repeated edges\); merge the data of parallel edges first, or keep"
    )
    with pytest.raises(GraphError, match=message):
        Graph.from_edges([0, 1, 1], [1, 0, 0], edge_data={"x": [1, 2, 3]}, duplicates=duplicates, name="g")


def test_parallel_edges_given_in_both_directions_pair_with_their_own_reverses():
    graph = Graph.from_edges(
        [1, 0, 1, 2], [0, 1, 0, 2], weights=[5.0, 7.0, 9.0, 4.0], edge_data={"x": [50, 70, 90, 40]}, duplicates="keep",
        symmetrize=True, name="g",
    )  # fmt: skip
    graph.validate()
    assert graph.csr.row_of_edge.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert graph.weights.tolist() == [5.0, 7.0, 9.0] * 2 + [4.0]
    assert graph.edge_data["x"].tolist() == [50, 70, 90] * 2 + [40]
    assert graph.reverse_edges.tolist() == [3, 4, 5, 0, 1, 2, 6]


def test_inserted_edges_lie_anywhere_in_the_graph():
    """Twice as many pairs are drawn as needed; their first half would begin at low vertices only."""
    v = np.arange(1000)
    ring = Graph.from_edges(v, (v + 1) % 1000, name="ring", directed=False)
    assert not ring.directed
    changed = change_graph(ring, 0.4, kind="insert", seed=1)
    assert not changed.directed
    known = set(zip(v.tolist(), ((v + 1) % 1000).tolist(), strict=True))
    ends = zip(changed.csr.row_of_edge.tolist(), changed.csr.neighbours.tolist(), strict=True)
    sources = np.array([u for u, w in ends if (u, w) not in known])
    assert sources.size == 400
    assert abs(sources.mean() - 500) < 4 * 1000 / np.sqrt(12 * 400)
    assert (changed.csr.row_of_edge != changed.csr.neighbours).all()


def test_edges_inserted_between_two_sides_keep_the_sides():
    ratings = Graph.from_edges([0, 1, 2, 0], [3, 4, 3, 4], weights=[1.0] * 4, bipartite=(3, 2), name="r")
    changed = change_graph(ratings, 0.5, kind="insert", seed=3)
    changed.validate()
    assert (changed.bipartite, changed.num_edges) == ((3, 2), 6)
    assert set(changed.csr.row_of_edge.tolist()) <= {0, 1, 2}
    assert set(changed.csr.neighbours.tolist()) <= {3, 4}


@pytest.mark.parametrize(
    ("offsets", "neighbours", "fault"),
    [
        ([0, 1, 2, 2], [1, 2], ""),
        ([0, 2, 1, 2], [1, 2], "CSR offsets must rise from 0 to the number of edges, 2"),
        ([1, 1, 2, 2], [1, 2], "CSR offsets must rise from 0"),
        ([0, 1, 1, 1], [1, 2], "CSR offsets must rise from 0"),
        ([0, 1, 2, 2], [1, 3], "an edge leads to vertex 3, but there are 3 vertices"),
    ],
)
def test_a_structure_rises_and_leads_to_vertices(offsets, neighbours, fault):
    csr = Adjacency(np.array(offsets, np.int64), np.array(neighbours, np.uint32))
    assert validation.structure(csr).startswith(fault)
    assert bool(validation.structure(csr)) is bool(fault)


@pytest.mark.parametrize(
    ("offsets", "neighbours", "fault"),
    [
        ([0, 3, 3, 5], [0, 1, 1, 0, 2], ""),
        ([0, 0, 3, 5], [2, 1, 2, 0, 2], "edge 0 and the next are not sorted by destination"),
        ([0, 3, 3, 5], [0, 1, 2, 2, 0], "edge 3 and the next are not sorted by destination"),
        ([0, 0, 0, 0], [], ""),
    ],
)
def test_each_row_is_sorted(offsets, neighbours, fault):
    assert validation.order(Adjacency(np.array(offsets, np.int64), np.array(neighbours, np.uint32))) == fault


@pytest.mark.parametrize(
    ("weights", "labels", "fault"),
    [
        (None, None, ""), ([1.0, -2.0], [-1, 0], ""), ([1.0, np.inf], None, "the weight of edge 1 is not finite"),
        (None, [0, -2], "labels must be classes 0, 1, ..., or -1 for unknown"), (None, [], ""),
    ],
)  # fmt: skip
def test_weights_are_finite_and_labels_at_least_minus_one(weights, labels, fault):
    given = (None if weights is None else np.array(weights), None if labels is None else np.array(labels, np.int32))
    assert validation.values(*given) == fault


@pytest.mark.parametrize(
    ("neighbours", "sides", "fault"), [([2, 2, 0], (2, 1), False), ([1, 2, 0], (2, 1), True), ([2, 2, 2], (2, 1), True)]
)
def test_edges_of_two_sides_join_them(neighbours, sides, fault):
    csr = Adjacency(np.array([0, 1, 2, 3]), np.array(neighbours, np.uint32))
    found = validation.sides(csr, sides)
    assert found == (
        "it is bipartite with 2 vertices on the left, but an edge joins two vertices of one side" if fault else ""
    )
    assert validation.sides(csr, None) == ""

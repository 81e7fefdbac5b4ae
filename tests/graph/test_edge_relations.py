"""Reverses, selections and parallel edges of random graphs, against lists of Python; lengths of arrays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Adjacency, Graph, GraphError
from harness.graph.edges import both_directions, first_of_parallel, select, with_missing_reverses

VERTICES = 4
ENDS = st.lists(st.tuples(st.integers(0, VERTICES - 1), st.integers(0, VERTICES - 1)), max_size=12)


def csr_of(ends):
    u, v = zip(*ends, strict=True) if ends else ((), ())
    return Graph.from_edges(u, v, num_vertices=VERTICES, duplicates="keep", name="g").csr


def ends_of(csr):
    assert (csr.offsets.dtype, csr.neighbours.dtype) == (np.int64, np.uint32)
    assert len(csr.offsets) == VERTICES + 1
    return list(zip(csr.row_of_edge.tolist(), csr.neighbours.tolist(), strict=True))


@settings(max_examples=25, deadline=None)
@given(ENDS)
def test_every_edge_and_its_reverse(given_ends):
    csr = csr_of(given_ends)
    ends = ends_of(csr)
    both, origin, old = both_directions(csr)
    assert (origin.dtype, old.dtype) == (np.uint32, np.bool_)
    found = list(zip(ends_of(both), origin.tolist(), old.tolist(), strict=True))
    wanted = [(end, place, True) for place, end in enumerate(ends)]
    wanted += [((v, u), place, False) for place, (u, v) in enumerate(ends)]
    assert sorted(found) == sorted(wanted)
    assert [end for end, _, _ in found] == sorted(end for end, _, _ in wanted)
    groups = [(end, not own) for end, _, own in found]
    assert groups == sorted(groups), "an edge precedes the reverses that are parallel to it"


@settings(max_examples=25, deadline=None)
@given(ENDS)
def test_missing_reverses_are_added_with_the_data_of_their_edges(given_ends):
    """Of two vertices, the direction with fewer edges gets as many as the other one has."""
    csr = csr_of(given_ends)
    ends = ends_of(csr)
    if not ends:
        return
    more, origin = with_missing_reverses(csr)
    assert origin.dtype == np.uint32
    number = Counter(ends)
    expected = {(u, v): max(number[u, v], number[v, u]) for end in number for u, v in (end, end[::-1])}
    found = ends_of(more)
    assert Counter(found) == expected
    assert found == sorted(found)
    copied = Counter(origin.tolist())
    for place in range(len(ends)):
        assert 1 <= copied[place] <= 2, "its own edge, and at most one reverse"
    for end, place in zip(found, origin.tolist(), strict=True):
        assert ends[place] in (end, end[::-1])


@settings(max_examples=25, deadline=None)
@given(ENDS, st.integers(0, 2**12 - 1))
def test_selected_edges_and_the_first_of_parallel_ones(given_ends, bits):
    csr = csr_of(given_ends)
    ends = ends_of(csr)
    keep = np.array([bits >> place & 1 for place in range(len(ends))], np.bool_)
    assert ends_of(select(csr, keep, "g")) == [end for end, kept in zip(ends, keep, strict=True) if kept]
    assert first_of_parallel(csr).tolist() == [end not in ends[:place] for place, end in enumerate(ends)]


@pytest.mark.parametrize(
    "keep", [np.ones(2, np.bool_), np.ones(4, np.bool_), np.ones(3, np.int8), np.ones((3, 1), np.bool_)]
)
def test_edges_are_selected_by_one_truth_value_each(keep):
    with pytest.raises(GraphError, match=r"give bool\[3\], one for each edge"):
        select(csr_of([(0, 1), (1, 2), (2, 0)]), keep, "g")


CSR = Adjacency(np.array([0, 1, 3], np.int64), np.array([1, 0, 1], np.uint32))  # 2 vertices, 3 edges


@pytest.mark.parametrize(
    ("place", "length", "kind"),
    [("weights", 3, "edge"), ("labels", 2, "vertex"), ("vertex_data", 2, "vertex"), ("edge_data", 3, "edge")],
)
def test_the_arrays_of_a_graph_have_an_entry_for_each_vertex_or_edge(place, length, kind):
    named = place.endswith("_data")
    for shape in [(length,), (length, 2)] if named else [(length,)]:
        array = np.zeros(shape, np.int32 if place == "labels" else np.float32)
        graph = Graph(CSR, name="g", **{place: {"x": array} if named else array})
        assert sum(array.shape == shape for _, array in graph.arrays()) >= 1
    for wrong in (0, length - 1, length + 1, 5 - length):
        array = np.zeros(wrong, np.int32 if place == "labels" else np.float32)
        with pytest.raises(GraphError, match=rf"first axis must be {length}, one entry per {kind}"):
            Graph(CSR, name="g", **{place: {"x": array} if named else array})


@pytest.mark.parametrize(("sides", "fits"), [((1, 1), True), ((2, 0), True), ((3, -1), False), ((1, 2), False)])
def test_the_sides_of_a_graph_add_up_to_its_vertices(sides, fits):
    if fits:
        assert Graph(CSR, name="g", bipartite=sides).bipartite == sides
        return
    with pytest.raises(GraphError, match="do not add up to its 2 vertices"):
        Graph(CSR, name="g", bipartite=sides)

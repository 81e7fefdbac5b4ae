"""Parts of vertices and owners of destinations, compared with plain loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph.generators import rmat
from harness.lowering.cpu import partition as module
from harness.lowering.cpu.partition import VERTEX_COST, Partition, owned_edges, owner_bounds
from harness.lowering.cpu.policy import DEFAULT
from harness.lowering.edge_windows import windows


def partition(threads):
    """Return the usual division for a number of threads."""
    return Partition(threads, DEFAULT.parts_per_thread, DEFAULT.smallest_part)


def offsets_of(degrees):
    return np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)


@st.composite
def csr(draw):
    """Draw offsets and neighbours of a small CSR with sorted rows and parallel edges."""
    vertices = draw(st.integers(0, 300))
    degrees = draw(st.lists(st.integers(0, 6), min_size=vertices, max_size=vertices))
    seed = draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.integers(0, vertices, degree)) for degree in degrees]
    neighbours = np.concatenate([*rows, np.zeros(0, np.int64)]).astype(draw(st.sampled_from([np.uint32, np.uint64])))
    return offsets_of(degrees), neighbours


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 20), st.data())
def test_windows_are_as_long_as_their_edges_allow(degrees, most, data):
    first = data.draw(st.integers(0, len(degrees)))
    last = data.draw(st.integers(first, len(degrees)))
    found = windows(offsets_of(degrees), first, last, most)
    assert [vertex for start, stop in found for vertex in range(start, stop)] == list(range(first, last))
    for start, stop in found:
        assert sum(degrees[start:stop]) <= most or stop == start + 1
        assert stop == last or sum(degrees[start : stop + 1]) > most


@pytest.mark.parametrize(
    ("vertices", "edges", "parts"),
    [(0, 0, 1), (4, 91, 1), (4, 92, 1), (50, 99, 1), (50, 100, 2), (0, 299, 2), (0, 300, 3), (10**6, 10**6, 12)],
)
def test_there_are_as_many_parts_as_have_the_smallest_size(vertices, edges, parts):
    assert VERTEX_COST == 2
    assert Partition(threads=3, parts_per_thread=4, smallest_part=100).count(vertices, edges) == parts
    assert Partition(threads=1, parts_per_thread=0, smallest_part=100).count(vertices, edges) == 1


@given(st.lists(st.integers(0, 50), max_size=200), st.data())
def test_bounds_cover_every_vertex_once(degrees, data):
    first = data.draw(st.integers(0, len(degrees)))
    last = data.draw(st.integers(first, len(degrees)))
    threads = data.draw(st.integers(1, 5))
    bounds = partition(threads).bounds(offsets_of(degrees), first, last)
    assert bounds.dtype == np.int64
    assert bounds[0] == first
    assert bounds[-1] == last
    assert (np.diff(bounds) >= 0).all()
    assert len(bounds) >= 2


@given(st.integers(1, 4), st.integers(0, 100))
def test_parts_are_balanced(threads, seed):
    """No part costs more than its share and one vertex."""
    degrees = np.random.default_rng(seed).integers(0, 40, 4000)
    offsets = offsets_of(degrees)
    bounds = partition(threads).bounds(offsets, 0, len(degrees))
    parts = len(bounds) - 1
    assert threads <= parts <= threads * DEFAULT.parts_per_thread
    cost = np.diff(offsets[bounds]) + VERTEX_COST * np.diff(bounds)
    share = (offsets[-1] + VERTEX_COST * len(degrees)) / parts
    assert cost.max() <= share + 2 * (degrees.max() + VERTEX_COST)


def test_a_small_graph_is_one_part():
    assert partition(8).bounds(offsets_of([3] * 20), 0, 20).tolist() == [0, 20]
    assert partition(8).bounds(offsets_of([]), 0, 0).tolist() == [0, 0]


@given(st.lists(st.integers(0, 400), max_size=400), st.integers(1, 5))
def test_owners_cover_all_destinations_on_cache_lines(degrees, owners):
    bounds = owner_bounds(offsets_of(degrees), owners)
    assert len(bounds) == owners + 1
    assert bounds[0] == 0
    assert bounds[-1] == len(degrees)
    assert (np.diff(bounds) >= 0).all()
    assert all(bound % 64 == 0 or bound == len(degrees) for bound in bounds)


@pytest.mark.parametrize("owners", [2, 3, 8])
def test_owners_get_about_equal_edges(owners):
    graph = rmat(scale=12, edge_factor=8)
    bounds = owner_bounds(graph.csc.offsets, owners)
    edges = np.diff(graph.csc.offsets[bounds])
    assert edges.max() <= graph.num_edges / owners + 64 * graph.in_degrees.max()
    assert edges.min() > 0


@given(csr(), st.integers(1, 5), st.data())
def test_every_edge_has_one_owner(graph, owners, data):
    offsets, neighbours = graph
    vertices = len(offsets) - 1
    inner = data.draw(st.lists(st.integers(0, vertices), min_size=owners - 1, max_size=owners - 1))
    bounds = np.array([0, *sorted(inner), vertices], np.int64)
    cuts = owned_edges(offsets, neighbours, bounds)
    assert cuts.shape == ((owners + 1) * vertices,)
    for owner in range(owners):
        for u in range(vertices):
            start, stop = cuts.reshape(vertices, owners + 1)[u, owner : owner + 2]
            owned = [e for e in range(offsets[u], offsets[u + 1]) if bounds[owner] <= neighbours[e] < bounds[owner + 1]]
            assert list(range(start, stop)) == owned


@pytest.mark.parametrize("most", [1, 40, 10**6])
@pytest.mark.parametrize("owners", [1, 2, 5])
def test_edges_are_cut_at_the_bounds_of_their_destinations(owners, most, monkeypatch):
    """The same for one graph, window by window, by the function before it is compiled."""
    monkeypatch.setattr(module, "EDGES_AT_ONCE", most)
    monkeypatch.setattr(module, "_split", module._split.py_func)
    rng, vertices = np.random.default_rng(owners), 50
    degrees = rng.choice([0, 1, 4, 30], vertices)
    rows = [np.sort(rng.integers(0, vertices, degree)) for degree in degrees]
    bounds = np.linspace(0, vertices, owners + 1).astype(np.int64)
    cuts = owned_edges(offsets_of(degrees), np.concatenate(rows), bounds).reshape(vertices, owners + 1)
    assert np.array_equal(cuts[:, 0], offsets_of(degrees)[:-1])
    counts = [[np.count_nonzero((row >= a) & (row < b)) for a, b in itertools.pairwise(bounds)] for row in rows]
    assert np.array_equal(np.diff(cuts, axis=1), counts)

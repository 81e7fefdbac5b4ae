"""Hubs are summed in runs: where runs end, and the accuracy for small changes and many equal messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Graph
from harness.lowering.cpu.hubs import HUB, RUN, hub_runs
from harness.lowering.cpu.partition import owner_bounds


def star(leaves, others=10):
    """Return some vertices with edges to vertex 0, and others with edges to vertex 1."""
    sources = np.concatenate([np.arange(leaves), np.arange(others)])
    destinations = np.concatenate([np.zeros(leaves, int), np.ones(others, int)])
    return Graph.from_edges(sources, destinations, num_vertices=max(leaves, others) + 1, name="star")


@pytest.mark.parametrize(("leaves", "hubs"), [(HUB, 0), (HUB + 1, 1), (5 * RUN, 1)])
def test_only_vertices_of_many_in_edges_are_hubs(leaves, hubs):
    graph = star(leaves)
    assert len(hub_runs(graph, owner_bounds(graph.csc.offsets, 2)).hubs) == hubs


@given(st.integers(1, 4), st.lists(st.integers(0, 3 * HUB), min_size=1, max_size=6), st.integers(0, 2**32))
def test_a_hub_receives_at_most_one_run_between_flushes(owners, degrees, seed):
    draw = np.random.default_rng(seed)
    sources = [draw.integers(0, 2000, degree) for degree in degrees]
    destinations = np.repeat(np.arange(len(degrees)) * 100, degrees)
    graph = Graph.from_edges(np.concatenate(sources), destinations, num_vertices=2000, name="hubs", duplicates="keep")
    bounds = owner_bounds(graph.csc.offsets, owners)
    runs = hub_runs(graph, bounds)
    assert list(runs.hubs) == [v for v in range(2000) if graph.in_degrees[v] > HUB]
    for t in range(owners):
        mine = slice(runs.run_bounds[t], runs.run_bounds[t + 1])
        ends, flushed = runs.ends[mine], runs.run_hubs[mine]
        assert ends[-1] == 2000
        assert flushed[-1] == -1
        assert np.all(np.diff(ends) >= 0)
        for number in range(runs.hub_bounds[t], runs.hub_bounds[t + 1]):
            hub = runs.hubs[number]
            assert bounds[t] <= hub < bounds[t + 1]
            heard = graph.csc.neighbours[graph.csc.offsets[hub] : graph.csc.offsets[hub + 1]]
            cuts = np.concatenate([[0], ends[flushed == number], [2000]])
            most = np.histogram(heard, cuts)[0].max()
            parallel = np.bincount(heard).max()  # edges of one source are never separated
            assert most <= RUN + parallel

"""Hubs are summed in runs: where runs end, and the accuracy for small changes and many equal messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Graph
from harness.language import Inputs
from harness.lowering.cpu.hubs import HUB, RUN, hub_runs
from harness.lowering.cpu.partition import owner_bounds
from tests.engines.problems import STRATEGIES, prepared, small
from tests.engines.programs import traced


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


def test_runs_are_the_same_without_a_csc():
    draw = np.random.default_rng(3)
    destinations = np.repeat([0, 40, 1999, 7], [5 * HUB + 3, HUB + 1, 2 * RUN * 3, 20])
    edges = draw.integers(0, 2000, len(destinations)), destinations
    graph, known = (Graph.from_edges(*edges, num_vertices=2000, name="hubs", duplicates="keep") for _ in range(2))
    bounds = owner_bounds(known.csc.offsets, 3)
    found, wanted = hub_runs(graph, bounds), hub_runs(known, bounds)
    assert "csc" not in graph.__dict__
    assert len(found.hubs) == 3
    for name in ("hubs", "hub_bounds", "run_bounds", "ends", "run_hubs"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def received(p, self):
    """Sum one number of every source."""
    p.vertex("x")
    p.vertex("y", start=0.0)
    p.over_edges(into="got", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"y": v.got})
    p.repeat(1)
    p.output("y", bound=1e-5)


@pytest.mark.parametrize("strategy", ["push-all", "tigr"])
def test_a_hub_is_summed_in_runs(strategy):
    """Added one by one, 100,000 float32 terms of 0.1 have a relative error of 1.4e-4."""
    program, graph = traced(received, "received"), small("great hub")
    x = np.full(graph.num_vertices, 0.1, np.float32)
    one_by_one = np.cumsum(x[1:], dtype=np.float32)[-1]
    exact = np.sum(x[1:], dtype=np.float64)
    assert abs(one_by_one - exact) > 1e-4 * exact
    engine = prepared(*STRATEGIES[strategy], program, graph, 1)
    engine.reset(Inputs({"x": x}, {}))
    engine.run(1)
    assert abs(engine.values("y")[0] - exact) < 1e-5 * exact
    engine.close()

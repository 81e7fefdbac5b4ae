"""The edges that a bottom-up pull of a search is expected to read, and the share from which it replaces a push."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.expected_reads import expected_reads, searches, share_of_search
from engines.onyx.policy import DEFAULT
from engines.onyx.resolve import resolve
from engines.onyx.schedule import OnyxSchedule
from harness.facts import Degrees, DeviceFacts, GraphFacts
from harness.graph.generators import grid, rmat
from harness.lowering.setting import LoweredProgram
from tests.engines.problems import program

GRAPH = rmat(scale=10, edge_factor=8, seed=5, symmetric=True)


def reads_of(graph, features, share, seed=0):
    """Return the edges read until every feature has found a source that moved, if sources are drawn at random."""
    rng, total = np.random.default_rng(seed), 0
    for degree in filter(None, graph.in_degrees):
        found = rng.random((int(degree), features)) < share / features
        ends = np.where(found.any(axis=0), found.argmax(axis=0) + 1, degree)
        total += int(ends.max(initial=0))
    return total


@pytest.mark.parametrize("features", [1, 4])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.9])
def test_the_estimate_is_the_mean_of_random_searches(features, share):
    found = [reads_of(GRAPH, features, share, seed) for seed in range(5)]
    assert expected_reads(GRAPH.facts, features, share) == pytest.approx(np.mean(found), rel=0.05)


def test_a_pull_without_movers_reads_all_edges():
    assert expected_reads(GRAPH.facts, 3, 0.0) == pytest.approx(GRAPH.num_edges)


@pytest.mark.parametrize("features", [1, 16])
def test_at_the_share_a_push_takes_as_long_as_a_pull(features):
    facts = GRAPH.facts
    share = share_of_search(facts, features, 0.3, 0.1)
    pulled = 0.3 * (expected_reads(facts, features, share) + 0.1 * facts.num_vertices)
    assert share * facts.num_edges == pytest.approx(pulled, rel=0.02)
    assert share < share_of_search(facts, features, 0.5, 0.1)
    assert share < share_of_search(facts, 4 * features, 0.3, 0.1) <= 0.3


def test_a_graph_without_counts_has_average_degrees():
    facts = GraphFacts(1000, 8000, 8)
    counted = GraphFacts(1000, 8000, 8, Degrees(((8, 1000),)))
    assert expected_reads(facts, 2, 0.1) == expected_reads(counted, 2, 0.1)
    assert share_of_search(GraphFacts(0, 0, 0), 1, 0.3, 0.1) <= 0.3


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bfs", True), ("sssp", False), ("components", False), ("kcore", False), ("pagerank", False)],
)
def test_only_levels_are_as_good_as_each_other(name, expected):
    assert searches(LoweredProgram.of(program(name)).program) is expected


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("bfs", {}, None), ("bfs", {"bottom_up": False}, 0.3), ("bfs", {"dense_share": 0.2}, 0.2), ("sssp", {}, 0.3),
        ("label_propagation", {}, 0.1),
    ],
)  # fmt: skip
def test_the_share_of_a_search_is_that_of_its_graph(name, options, expected):
    schedule, device = OnyxSchedule(direction="adaptive", change_driven=True, **options), DeviceFacts("cuda")
    for graph in (GRAPH, grid(rows=30, columns=30)):
        found = resolve(schedule, LoweredProgram.of(program(name)).program, 1, graph.facts, device)
        own = share_of_search(graph.facts, 1, DEFAULT.adaptive_shares[False], DEFAULT.scanned_vertex)
        assert found.dense_share == (own if expected is None else expected)

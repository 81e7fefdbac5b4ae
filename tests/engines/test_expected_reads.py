"""The edges that a bottom-up pull of a search is expected to read, and the share from which it replaces a push."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.expected_reads import expected_reads, searches, share_of_pulls
from engines.onyx.policy import DEFAULT
from engines.onyx.resolve import resolve
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device
from harness.facts import Degrees, DeviceFacts, GraphFacts
from harness.graph.generators import grid, rmat
from harness.lowering.setting import LoweredProgram
from tests.engines.problems import program

GRAPH = rmat(scale=10, edge_factor=8, seed=5, symmetric=True)


def lowered(name):
    return LoweredProgram.of(program(name)).program


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
    facts, bfs, edge, vertex = GRAPH.facts, lowered("bfs"), 0.25, 2.0
    share = share_of_pulls(bfs, facts, features, edge, vertex)
    pulled = edge * expected_reads(facts, features, share) + vertex * facts.num_vertices
    assert share * facts.num_edges == pytest.approx(pulled, rel=0.02)
    assert share < share_of_pulls(bfs, facts, features, edge, 3.0)
    assert share < share_of_pulls(bfs, facts, 4 * features, edge, vertex)


def test_other_pulls_are_expected_to_read_all_edges():
    facts, sssp = GRAPH.facts, lowered("sssp")
    vertices = facts.num_vertices / facts.num_edges
    assert share_of_pulls(sssp, facts, 3, 0.25, 2.0) == pytest.approx(0.25 + 2.0 * vertices, abs=1e-4)
    assert share_of_pulls(sssp, facts, 3, 0.9, 20.0) == 1.0


def test_a_graph_without_counts_has_average_degrees():
    facts = GraphFacts(1000, 8000, 8)
    counted = GraphFacts(1000, 8000, 8, Degrees(((8, 1000),)))
    assert expected_reads(facts, 2, 0.1) == expected_reads(counted, 2, 0.1)
    assert share_of_pulls(lowered("bfs"), GraphFacts(0, 0, 0), 1, 0.3, 0.1) <= 1.0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bfs", True), ("sssp", False), ("components", False), ("kcore", False), ("pagerank", False)],
)
def test_only_levels_are_as_good_as_each_other(name, expected):
    assert searches(lowered(name)) is expected


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("bfs", {}, None), ("bfs", {"bottom_up": False}, 0.3), ("bfs", {"dense_share": 0.2}, 0.2), ("sssp", {}, None),
        ("label_propagation", {}, 0.1),
    ],
)  # fmt: skip
def test_the_share_of_bottom_up_pulls_is_that_of_the_graph(name, options, expected):
    schedule, device = OnyxSchedule(direction="adaptive", change_driven=True, **options), DeviceFacts("cuda")
    for graph in (GRAPH, grid(rows=30, columns=30)):
        found = resolve(schedule, lowered(name), 1, graph.facts, device)
        own = share_of_pulls(lowered(name), graph.facts, 1, *DEFAULT.bottom_up_costs)
        assert found.dense_share == (own if expected is None else expected)
        assert found.share_by == (None if "dense_share" in options else "fitted")


@pytest.mark.parametrize(("options", "explained"), [({}, True), ({"dense_share": 0.2}, False)])
def test_explain_names_the_costs_by_which_the_share_changes(options, explained):
    engine = OnyxCudaEngine(OnyxSchedule(direction="adaptive", change_driven=True, **options))
    engine.generate(program("bfs"), GRAPH, 1, Device("cuda"))
    assert ("the next one is expected to read as many edges (0.22 times" in engine.explain()) is explained
    assert (engine.planned.extension.end == "end_expecting") is explained

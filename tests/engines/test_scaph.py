"""The Scaph style on the CPU: answers, what is read, the queue, and memory within the budget."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engines.outofmemory.scaph.extraction import useful_edges
from harness.algorithms.bfs import BFS
from harness.algorithms.sssp import SSSP
from harness.contract import Device, EngineFailure, No, ScheduleError
from harness.graph import Graph
from harness.graph.cache import store
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.measured_streaming import FEATURES, SUPERSTEPS
from tests.engines.problems import ALGORITHMS, new_engine, prepared, problem, program
from tests.engines.test_edges_in_files import regular
from tests.processes import HANGS_S

SMALL = {"window_mb": 0.004}
SYNCHRONOUS = [{}, {"values": "low"}, {"values": "high"}, {"values": "low", "low": "stream"}, {"alpha": 0.0}]
QUEUED = [
    {"rounds": 2}, {"rounds": 4, "slots": 6}, {"rounds": 3, "values": "high", "slots": 3},
    {"values": "low", "low_rounds": 9}, {"rounds": 2, "low_rounds": 3}, {"low": "stream", "low_rounds": 2, "slots": 2},
]  # fmt: skip


def compared(engine, name, graph, inputs, features, supersteps):
    """Run an engine and the reference; return the comparison of their answers and the statistics of the engine."""
    traced, run = program(name), ReferenceRun(program(name), graph, features)
    for one in (run, engine):
        one.reset(inputs)
    expected, taken = run.run(supersteps), engine.run(supersteps)
    outputs = traced.outputs
    found = compare(traced, {n: engine.values(n) for n in outputs}, {n: run.values(n) for n in outputs})
    return found, expected, taken


@pytest.mark.short_run(rows=8)
@pytest.mark.parametrize(("name", "features"), [("bfs", 1), ("sssp", 3), ("pagerank", 3), ("kcore", 1)])
@pytest.mark.parametrize("options", SYNCHRONOUS, ids=str)
def test_synchronous_supersteps_are_right(options, name, features):
    graph, inputs = problem(name, "rmat", features)
    engine = prepared("scaph", {**SMALL, **options}, program(name), graph, features)
    found, expected, taken = compared(engine, name, graph, inputs, features, 8)
    assert found.ok, found.detail
    assert len(taken.supersteps) == len(expected.supersteps)
    moved = taken.transfers.moved
    assert (moved["copied"] == 0) == (options.get("values") == "low" and options.get("low") != "stream")
    whole = options.get("values") == "high" or options.get("low") == "stream" or options.get("alpha") == 0
    assert (moved["extracted"] == 0) == whole
    edge_bytes = engine.prepared.planned.windows.edge_bytes
    assert taken.transfers.visited == edge_bytes * taken.edges
    engine.close()


@pytest.mark.short_run(rows=12)
@pytest.mark.parametrize(("name", "features"), [("bfs", 1), ("sssp", 3), ("components", 1)])
@pytest.mark.parametrize("graph_name", ["rmat", "grid", "chain"])
@pytest.mark.parametrize("options", QUEUED, ids=str)
def test_queued_subgraphs_settle_at_the_answer(options, graph_name, name, features):
    graph, inputs = problem(name, graph_name, features)
    size = {"window_mb": 0.004 if graph_name == "rmat" else 0.0002}
    engine = prepared("scaph", {**size, **options}, program(name), graph, features)
    assert not engine.stepwise
    found, expected, taken = compared(engine, name, graph, inputs, features, 400)
    assert found.ok, found.detail
    assert expected.settled
    assert (taken.settled, taken.supersteps) == (True, [])
    first = {n: engine.values(n) for n in program(name).outputs}, taken.transfers
    engine.reset(inputs)
    again = engine.run(400)
    assert again.transfers == first[1], "equal runs are equal"
    assert all(np.array_equal(engine.values(n), values) for n, values in first[0].items())
    engine.close()


def test_the_queue_reads_less_than_a_round_each():
    """In a mesh a subgraph activates itself again, so that several rounds move fewer bytes than one."""
    name, mesh = "sssp", grid(rows=40, columns=40, removed=0.0)
    inputs = ALGORITHMS[name].inputs(mesh, 1)
    moved = {}
    for rounds in (1, 4):
        options = {"window_mb": 0.008, "values": "high", "rounds": rounds, "slots": 4}
        engine = prepared("scaph", options, program(name), mesh, 1)
        engine.reset(inputs)
        transfers = engine.run(400).transfers
        moved[rounds] = transfers.moved["copied"]
        assert (transfers.subgraphs["again"] > 0) == (rounds > 1)
        engine.close()
    assert moved[4] < moved[1] / 1.3


def test_rows_in_memory_are_processed_until_they_are_still():
    """Vertex 0 reaches 1 by 9 and 2 by 1; the rows of 1 and 2 are read, and 2 reaches 1 by 2 in all.

    With two rounds the row of 1 is processed again before the row of 3 is read. Otherwise it is read again, with that
    of 3 (and that of 2 between them), and the row of 3 once more.
    """
    pairs = np.array([(0, 1), (0, 2), (2, 1), (1, 3), (3, 4)])
    graph = Graph.from_edges(*pairs.T, num_vertices=5, name="again", weights=np.array([9.0, 1.0, 1.0, 1.0, 1.0]))
    found = {}
    for times in (1, 2):
        options = {"window_mb": 1.0, "values": "low", "rounds": 2, "low_rounds": times}
        engine = prepared("scaph", options, program("sssp"), graph, 1)
        engine.reset(SSSP(sources="0").inputs(graph, 1))
        found[times] = engine.run(400).transfers
        np.testing.assert_array_equal(engine.values("distance")[:, 0], [0, 2, 1, 3, 4])
        engine.close()
    assert [one.subgraphs["again"] for one in found.values()] == [0, 1]
    assert [one.visited for one in found.values()] == [8 * (2 + 2 + 2 + 1), 8 * (2 + 2 + 1 + 1)]
    assert [one.moved["extracted"] for one in found.values()] == [8 * (2 + 2 + 3 + 1), 8 * (2 + 2 + 1)]


def test_what_is_read_by_hand():
    """Four rows of 10 edges in two subgraphs of 20; a search from vertex 0 reaches 1, and then nothing new."""
    sources = np.repeat(np.arange(4), 10)
    targets = np.array([1, 0, 2, 3])[sources]
    graph = Graph.from_edges(sources, targets, num_vertices=4, name="four rows", duplicates="keep")
    found = {}
    for options in ({"values": "low"}, {"values": "high"}, {}, {"values": "low", "order": "zigzag"}):
        engine = prepared("scaph", {"window_mb": 20 * 4 / 1e6, **options}, program("bfs"), graph, 1)
        engine.reset(BFS(sources="0").inputs(graph, 1))
        assert engine.run(1).transfers.visited == 4 * 10, "vertex 0 is the source"
        found[str(options)] = engine.run(1).transfers
        engine.close()
    low, high, measured, kept = found.values()
    assert {one.visited for one in found.values()} == {4 * 10}, "vertex 1 was reached"
    assert low.moved == {"copied": 0, "extracted": 4 * 10}
    assert high.moved == {"copied": 4 * 20, "extracted": 0}
    assert measured.moved == low.moved, "half of the subgraph is not more than alpha"
    assert kept.moved == low.moved, "a slot with one of two rows does not hold the subgraph"
    assert (low.subgraphs["low"], high.subgraphs["high"]) == (1, 1), "the other subgraph is not read"


@pytest.mark.parametrize(
    ("options", "name", "reason"),
    [
        ({"rounds": 2}, "pagerank", "is a sum, of which every message counts once; give rounds=1"),
        ({"low_rounds": 3}, "pagerank", "low_rounds=3 processes subgraphs asynchronously, but share is a sum"),
        ({}, "belief_propagation", "updates an edge property"),
        ({"low": "zero_copy"}, "bfs", "low=zero_copy has no meaning on the CPU"),
        ({"rule": "chosen"}, "bfs", "rule=chosen has no meaning on the CPU"),
        ({"extract_threads": 2}, "bfs", "option extract_threads has no meaning on the CPU"),
        ({"access": "tiled"}, "bfs", "option access has no meaning on the CPU"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(options, name, reason):
    graph, _ = problem(name, "picture" if name.startswith("belief") else "rmat", 3)
    answer = new_engine("scaph", options).supports(program(name), graph, 3, Device(threads=1))
    assert isinstance(answer, No)
    assert reason in answer.reason


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(ScheduleError, match="with rounds=2 give at least 3"):
        new_engine("scaph", {"rounds": 2, "slots": 2})
    with pytest.raises(
        ScheduleError, match="low_rounds=2 applies to rows .* in memory, and values=high has none of them"
    ):
        new_engine("scaph", {"low_rounds": 2, "values": "high"})
    with pytest.raises(ScheduleError, match="low_rounds=2 applies to rows .* low=zero_copy reads them"):
        new_engine("scaph", {"low_rounds": 2, "low": "zero_copy"})
    with pytest.raises(ScheduleError, match="rule=throughput needs the bytes of vertices that will become active"):
        new_engine("scaph", {"rule": "throughput"})
    with pytest.raises(ScheduleError, match="rule=chosen classifies values=measured"):
        new_engine("scaph", {"rule": "chosen", "values": "low"})
    with pytest.raises(ScheduleError):
        new_engine("scaph", {"edges": "mapped"})


def test_the_plan_prices_its_slots():
    graph, _ = problem("sssp", "rmat", 1)
    needed = {
        slots: new_engine("scaph", {"window_mb": 0.004, "slots": slots})
        .supports(program("sssp"), graph, 1, Device(threads=1))
        .bytes_needed
        for slots in (2, 5)
    }
    edges = int(0.004e6) // 8
    assert needed[5] - needed[2] == 3 * edges * 8


def test_a_file_that_ends_too_early_is_named(monkeypatch):
    graph = rmat(scale=8, edge_factor=8, seed=3, max_weight=4)
    engine = prepared("scaph", {**SMALL, "rounds": 2}, program("sssp"), graph, 1)
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
    from harness.lowering.cpu import edge_places

    monkeypatch.setattr(edge_places.os, "preadv", lambda *_: 0)
    with pytest.raises(EngineFailure, match="the file ends at byte"):
        engine.run(100)
    engine.close()


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text(),
    reason="every part of the memory is in huge pages, so that more is resident than is used",
)
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_peak_memory_stays_within_the_slots_and_the_state(rounds):
    """Slots and state are a sixth of the file; graphs, inputs and tables add some megabytes of small parts."""
    graph = regular(1 << 15, 128)
    folders = [str(store(one)) for one in (graph, regular(512, 8))]
    options = {"window_mb": 1.0, "slots": 3, "rounds": rounds}
    command = [sys.executable, "-m", "tests.engines.measured_streaming", *folders, "scaph", json.dumps(options)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert ended.returncode == 0, ended.stderr
    found, file = json.loads(ended.stdout), 2 * 4 * graph.num_edges
    peak = found["peak"] - found["before"]
    print(f"peak {peak:,}, needed {found['bytes_needed']:,}, file {file:,}")
    assert 3e6 <= found["bytes_needed"] < file / 5
    assert peak <= file / 3
    run = prepared("gunrock", {}, program("sssp"), graph, FEATURES)
    run.reset(SSSP().inputs(graph, FEATURES))
    run.run(SUPERSTEPS if rounds == 1 else 1000)
    distances = run.values("distance")
    assert found["total"] == float(distances[np.isfinite(distances)].sum(dtype=np.float64))


def test_useful_edges_of_no_vertex_are_none():
    assert useful_edges(np.array([0, 3, 5]), np.zeros(0, int)) == 0


@pytest.mark.short_run(rows=9)
@pytest.mark.parametrize("options", [{"rounds": 2}, {"rounds": 3}, {"rounds": 2, "order": "value"}], ids=str)
@pytest.mark.parametrize("late", [127, 128, 199])
def test_a_vertex_that_is_reached_after_its_subgraph_was_chosen_sends_later(late, options):
    """Vertices 1 and 65 are active; 1 is of the first subgraph, and reaches a vertex of the second, in any block of
    flags, which alone is active afterwards."""
    pairs = [(0, 1), (0, 65), (1, late), (2, 3), (65, 0), (late, 250), (late, 251), (251, 252)]
    source, target = np.array(pairs).T
    graph = Graph.from_edges(
        source, target, num_vertices=300, weights=np.ones(len(pairs), np.float32), name="late", duplicates="keep"
    )
    sssp = SSSP(sources="0")
    engine = prepared("scaph", {"window_mb": 32e-6, "values": "low", **options}, trace(sssp), graph, 1)
    run, inputs = ReferenceRun(trace(sssp), graph, 1), sssp.inputs(graph, 1)
    for one in (engine, run):
        one.reset(inputs)
        assert one.run(50).settled
    np.testing.assert_array_equal(engine.values("distance"), run.values("distance"))
    engine.close()

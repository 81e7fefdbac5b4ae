"""The queue of the Scaph style on an emulated device: answers, bytes, and subgraphs that wait."""

from __future__ import annotations

import numpy as np
import pytest

from engines.outofmemory.scaph.cuda_packed_rows import HOLD, PLACED, RESTORE
from engines.outofmemory.scaph.cuda_queue import CudaSuperstep
from engines.outofmemory.scaph.cuda_staging import PackedRows
from engines.outofmemory.scaph.cuda_subgraphs import SubgraphStreamer
from harness.algorithms.sssp import SSSP
from harness.emulation.compiler import Kernel
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.loop import CudaRun
from tests.engines.problems import ALGORITHMS, problem, program

QUEUED = [
    {"rounds": 2}, {"rounds": 4, "slots": 6}, {"rounds": 3, "values": "high", "slots": 3}, {"rounds": 3, "alpha": 0.3},
    {"rounds": 2, "values": "low"}, {"low_rounds": 9, "values": "low"}, {"rounds": 2, "low_rounds": 3, "slots": 3},
    {"low_rounds": 2, "low": "stream", "slots": 2}, {"rounds": 3, "low": "zero_copy"},
    {"rounds": 2, "low": "stream", "alpha": 0.8}, {"rounds": 3, "order": "zigzag", "alpha": 0.6, "beta": 0.4},
]  # fmt: skip


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("name", "features"), [("bfs", 1), ("sssp", 3), ("components", 1)])
@pytest.mark.parametrize("graph_name", ["rmat", "grid", "chain", "scattered", "no edges"])
@pytest.mark.parametrize("options", QUEUED, ids=str)
def test_queued_subgraphs_settle_at_the_answer(options, graph_name, name, features, run_scaph):
    graph, inputs = problem(name, graph_name, features)
    size = 0.004 if graph_name == "rmat" else 0.0002
    engine = run_scaph(program(name), graph, features, window_mb=size, **options)
    assert not engine.stepwise
    expected = settled(program(name), graph, inputs, features)
    first = None
    for _ in range(2):
        engine.reset(inputs)
        taken = engine.run(400)
        assert (taken.settled, taken.supersteps) == (True, [])
        found = compare(program(name), {n: engine.values(n) for n in expected}, expected)
        assert found.ok, found.detail
        first = first or taken.transfers
        assert taken.transfers == first, "equal runs are equal"
    assert sum(engine.run(400).transfers.moved.values()) == 0, "it has settled"


def settled(traced, graph, inputs, features):
    """Return the outputs of the reference once it has settled."""
    run = ReferenceRun(traced, graph, features)
    run.reset(inputs)
    assert run.run(400).settled
    return {name: run.values(name) for name in traced.outputs}


@pytest.mark.short_run(rows=1)
def test_the_queue_reads_less_than_a_round_each(run_scaph):
    """In a mesh a subgraph activates itself again, so that several rounds move fewer bytes than one."""
    mesh = grid(rows=24, columns=24, removed=0.0)
    inputs, moved = ALGORITHMS["sssp"].inputs(mesh, 1), {}
    for rounds in (1, 4):
        engine = run_scaph(program("sssp"), mesh, 1, window_mb=0.003, values="high", rounds=rounds, slots=4)
        engine.reset(inputs)
        transfers = engine.run(400).transfers
        moved[rounds] = transfers.moved["copied"]
        assert (transfers.subgraphs["again"] > 0) == (rounds > 1)
        assert transfers.visited >= 8 * mesh.num_edges
    assert moved[4] < moved[1] / 1.3


def two_subgraphs(run_scaph, pairs=((0, 1), (0, 3), (1, 2), (2, 4), (3, 5)), **options):
    """Return an engine before a search from vertex 0 in two subgraphs, with zeros in the slots of the device."""
    graph = Graph.from_edges(*np.array(pairs).T, num_vertices=6, name="late", weights=np.ones(len(pairs)))
    engine = run_scaph(program("sssp"), graph, 1, window_mb=3 * 8e-6, **options)
    engine.reset(SSSP(sources="0").inputs(graph, 1))
    for slot in engine.executor.streamer.slots:
        slot.fill(0)
    engine.executor.wait()
    return engine


@pytest.mark.parametrize("waits", [True, False])
def test_the_queue_waits_for_copies(waits, run_scaph, monkeypatch):
    """The emulated copy is made when it is waited for. Without that a slot has zeros, or rows of another subgraph."""
    engine, superstep = two_subgraphs(run_scaph, values="high", rounds=2), CudaRun.superstep

    def first(run, number):
        superstep(run, number)  # it is synchronous, with waits of its own
        for slot in engine.executor.streamer.slots:
            slot.fill(0)
        if not waits:
            monkeypatch.setattr(SubgraphStreamer, "wait_for", lambda *_: None)

    monkeypatch.setattr(CudaRun, "superstep", first)
    assert engine.run(100).transfers.subgraphs["high"] > 2
    wanted = [0, 1, 2, 1, 3, 2] if waits else [0, 1, np.inf, 1, np.inf, np.inf]
    np.testing.assert_array_equal(engine.values("distance")[:, 0], wanted)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("options", [{"alpha": 1.0, "beta": 1.0}, {"values": "low"}], ids=str)
def test_rows_that_were_not_packed_wait(options, held, run_scaph, monkeypatch):
    """Vertex 2 becomes active after the row of vertex 3, in its subgraph, was packed: it waits for its own row.

    Without that it sends an empty row, and vertex 4 is not reached. A buffer has no room for the rows of 1 and 3.
    """
    pairs = (0, 1), (0, 3), (1, 2), (1, 0), (1, 3), (2, 4), (3, 5), (3, 0)
    engine = two_subgraphs(run_scaph, pairs, rounds=2, **options)
    if not held:
        over = PackedRows.over

        def without(rows, function, *given):
            if function != HOLD:
                over(rows, function, *given)

        monkeypatch.setattr(PackedRows, "over", without)
    taken = engine.run(100)
    assert taken.transfers.subgraphs["low"] == (5 if held else 4), "the subgraph of the row that waits again, later"
    wanted = [0, 1, 2, 1, 3 if held else np.inf, 2]
    np.testing.assert_array_equal(engine.values("distance")[:, 0], wanted)


def test_a_subgraph_of_low_value_in_a_slot_is_not_packed(run_scaph, monkeypatch):
    """It is processed up to ``low_rounds`` times, as packed rows are, and not queued, as one of high value is."""
    graph, found = rmat(scale=7, edge_factor=8, seed=1, max_weight=4), []
    options = {"rounds": 4, "low_rounds": 9, "order": "zigzag", "slots": 4}
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.002, **options)
    fetch = CudaSuperstep.fetch

    def noted(step, number, slot):
        resident, high = step.calls.push.resident(number), fetch(step, number, slot)
        found.append((resident, step._high[number], high, step._chosen[number].means))
        return high

    monkeypatch.setattr(CudaSuperstep, "fetch", noted)
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
    assert engine.run(400).transfers.subgraphs["resident"] > 0
    assert all(high == returned for _, high, returned, _ in found)
    assert {(high, means) for resident, high, _, means in found if resident} >= {(False, "resident")}
    assert all(means == "copied" for resident, _, _, means in found if not resident)


def test_rows_in_memory_are_processed_until_they_are_still(run_scaph):
    """As on the CPU: the row of 1 is processed again, and the row of 3, which becomes active, is not in memory yet.

    A vertex that waits for its row does not count, or it would be found active in each of the rounds.
    """
    pairs = np.array([(0, 1), (0, 2), (2, 1), (1, 3), (3, 4)])
    graph = Graph.from_edges(*pairs.T, num_vertices=5, name="again", weights=np.array([9.0, 1.0, 1.0, 1.0, 1.0]))
    found = {}
    for times in (1, 2, 50):
        engine = run_scaph(program("sssp"), graph, 1, window_mb=1.0, values="low", rounds=2, low_rounds=times)
        engine.reset(SSSP(sources="0").inputs(graph, 1))
        found[times] = engine.run(400).transfers
        np.testing.assert_array_equal(engine.values("distance")[:, 0], [0, 2, 1, 3, 4])
        engine.close()
    assert [one.subgraphs["again"] for one in found.values()] == [0, 1, 1]
    assert [one.visited for one in found.values()] == [8 * (2 + 2 + 2 + 1), *2 * [8 * (2 + 2 + 1 + 1)]]


def test_a_buffer_of_packed_rows_is_free_after_their_last_round(run_scaph, monkeypatch):
    """The event after which the buffer may be overwritten is recorded after all kernels that read its table."""
    engine, used = two_subgraphs(run_scaph, values="low", low_rounds=3), {}
    over, release = PackedRows.over, PackedRows.release

    def noted_over(rows, function, packed, *arrays):
        used.setdefault(id(packed), [packed]).append(function)
        over(rows, function, packed, *arrays)

    def noted_release(rows, packed):
        used.setdefault(id(packed), [packed]).append("free")
        release(rows, packed)

    monkeypatch.setattr(PackedRows, "over", noted_over)
    monkeypatch.setattr(PackedRows, "release", noted_release)
    engine.run(100)
    assert any(RESTORE in uses for _, *uses in used.values())
    assert all(uses[-1] == "free" for _, *uses in used.values())


@pytest.mark.parametrize("values", ["high", "low"])
def test_kernels_of_the_queue_are_counted(values, run_scaph, monkeypatch):
    """The kernels of every subgraph that is processed, and those that count active vertices and end a superstep.

    Of the first superstep, which is synchronous, the kernel that counts is left out; so are those of packed rows.
    """
    engine, run, names = two_subgraphs(run_scaph, values=values, rounds=2), Kernel._run, []

    def noted(kernel, *given):
        names.append(kernel.name)
        run(kernel, *given)

    monkeypatch.setattr(Kernel, "_run", noted)
    statistics = engine.run(100)
    packing = {PLACED, HOLD, RESTORE}
    assert (packing & set(names) == set()) == (values == "high")
    counted = [name for name in names if name not in packing]
    assert engine.operations(statistics).launches == len(counted) - 1
    assert engine.operations(engine.run(100)).launches == 0, "it has settled"
    engine.close()

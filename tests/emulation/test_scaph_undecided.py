"""Supersteps of the Scaph style that read active rows in place without a decision, on an emulated device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.outofmemory.scaph import cuda_executor
from engines.outofmemory.scaph.cuda_undecided import SAMPLES, DecidedSuperstep, Decisions
from engines.outofmemory.scaph.values import Rates
from harness.graph.generators import grid, rmat
from harness.language import trace
from tests.emulation.device import emulate
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, check_every_superstep

CHOSEN = {"rule": "chosen", "low": "zero_copy", "window_mb": 0.002}
NEVER_COPIED = Rates(1.0, 100.0)


def test_a_decision_is_omitted_if_it_takes_longer_than_it_saves():
    """100 edges of 8 bytes in two arrays, and a sector of 32 bytes for each of 5 rows in both: 1,120 bytes."""
    news = {"frontier": 100, "active": 5, "rebuilding": 0}
    decisions = Decisions(Rates(copied=1120.0, other=560.0), edge_bytes=8, arrays=2, edges=141, vertices=5)
    decisions.update(news, 1)
    assert not decisions.omitted, "its time is not known"
    decisions.seconds = 0.99
    decisions.update(news, 1)
    assert not decisions.omitted, "2 seconds in place, 1 by copies"
    decisions.seconds = 1.0
    decisions.update(news, 1)
    assert decisions.omitted
    decisions.update({**news, "rebuilding": 1}, 1)
    assert not decisions.omitted, "all 1,128 bytes are read"
    decisions.update({**news, "frontier": 141}, 1)
    assert not decisions.omitted, "no more bytes than there are"
    decisions.seconds = 1.008
    decisions.update({**news, "frontier": 141}, 1)
    assert decisions.omitted
    ends = replace(decisions, subgraph_bytes=280, seconds=0.5)
    ends.update(news, 1)
    assert ends.omitted, "the first copy and the end take 0.25 seconds each"
    ends.seconds = 0.49
    ends.update(news, 1)
    assert not ends.omitted
    decisions.update(news, 1)
    assert decisions.fields() == {}
    assert not decisions.omitted, "a run begins"
    decisions.add(0.5)
    decisions.add(0.7)
    assert (decisions.seconds, decisions.samples) == (0.5, 2)
    same = Decisions(Rates(5.0, 5.0), 8, 2, 9, 9, seconds=1e-9)
    same.update({**news, "frontier": 10**12}, 1)
    assert same.omitted, "copies save nothing"
    none = Decisions(Rates(0.0, 0.0), 8, 2, 0, 9, seconds=1e-9)
    none.update(news, 1)
    assert none.omitted, "a graph without edges"


@pytest.fixture
def prepared(run_scaph, monkeypatch):
    """Return a function that prepares an engine that copies no subgraph, or the one with decisions of ``seconds``."""

    def made(name, graph, features, seconds, **options):
        monkeypatch.setattr(cuda_executor, "measured_rates", lambda *_: NEVER_COPIED)
        monkeypatch.setattr(
            cuda_executor, "Decisions", lambda *given: replace(Decisions(*given), seconds=seconds, samples=SAMPLES)
        )
        return run_scaph(trace(algorithms()[name]), graph, features, **CHOSEN, **options)

    return made


@pytest.mark.parametrize(("name", "features"), [("bfs", 1), ("sssp", 3), ("components", 1), ("pagerank", 2)])
def test_supersteps_without_decisions_are_those_with_decisions(name, features, prepared, monkeypatch):
    algorithm, queued = algorithms()[name], []
    graph = algorithm.prepare_graph(grid(rows=9, columns=30))
    inputs, found, launch = algorithm.inputs(graph, features), [], DecidedSuperstep.launch

    def noted(superstep):
        launch(superstep)
        queued.append(superstep._recorded is not None)

    monkeypatch.setattr(DecidedSuperstep, "launch", noted)
    for seconds in (-1e9, 1e9):  # decisions that are always made, and never
        engine = prepared(name, graph, features, seconds)
        engine.reset(inputs)
        steps = [engine.run(1) for _ in range(6)]
        engine.reset(inputs)
        whole = engine.run(40)
        outputs = [engine.values(output) for output in engine.planned.program.outputs]
        found.append(([*steps, whole], outputs))
        assert any(queued) == (seconds > 0)
        engine.close()
    (decided, wanted), (omitted, values) = found
    assert [one.supersteps for one in decided] == [one.supersteps for one in omitted]
    for one, other in zip(decided, omitted, strict=True):
        assert one.transfers.visited == other.transfers.visited
        assert (one.transfers.moved.keys(), other.transfers.moved) == ({"copied", "extracted", "zero_copy"}, {}), (
            "what supersteps without decisions move is not known"
        )
    for one, other in zip(wanted, values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_decisions_are_not_omitted_if_kernels_read_different_arrays(prepared):
    """Of the kernels of ALS one reads ratings, and the other does not."""
    algorithm = algorithms()["als"]
    graph = algorithm.prepare_graph(rmat(5, 6, max_weight=4))
    engine = prepared("als", graph, 3, 1e9)
    assert engine.executor.streamer.decisions is None
    engine.close()


@pytest.mark.parametrize("options", [{"order": "zigzag"}, {"counters": True}, {"rounds": 3}], ids=str)
def test_decisions_are_not_omitted_if_only_they_know_what_slots_or_logs_have(options, prepared):
    engine = prepared("sssp", algorithms()["sssp"].prepare_graph(rmat(5, 6, max_weight=4)), 1, 1e9, **options)
    assert engine.executor.streamer.decisions is None
    engine.reset(algorithms()["sssp"].inputs(engine.executor.store.graph, 1))
    assert engine.run(1000).transfers.moved["zero_copy"] > 0
    engine.close()


@pytest.mark.parametrize(("name", "racing"), [("bfs", False), ("sssp", True), ("pagerank", False)])
def test_every_superstep_is_right(name, racing, prepared, monkeypatch):
    device = emulate(monkeypatch, racing=racing)
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=6, seed=1, max_weight=4))
    prepared(name, graph, 3, 1e9).close()  # the decisions of the next engine are omitted
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", CHOSEN))
    check_every_superstep("scaph", trace(algorithm), graph, algorithm.inputs(graph, 3), 3, device, 5)

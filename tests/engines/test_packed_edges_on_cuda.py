"""Packed ids of streamed edges on a CUDA device: answers, and bytes over its link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.contract import Phases
from harness.graph.generators import grid, rmat
from tests.emulation.test_streamed_edges import hubs_and_middle
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.link_bytes import link_bytes
from tests.engines.problems import ALGORITHMS, program
from tests.engines.test_mapped_edges_on_cuda import STREAMING, check, place_edges

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["pagerank", "sssp", "components"])
@pytest.mark.parametrize("schedule", STREAMING)
def test_every_superstep_is_right(schedule, name, device, monkeypatch):
    place_edges(schedule, monkeypatch, edges="streamed", window_mb=0.0081, codes="packed")
    check(schedule, name, device)


@pytest.mark.parametrize("name", ["pagerank", "sssp", "components"])
@pytest.mark.parametrize("options", [{"values": "low", "low": "stream"}, {"values": "high", "order": "zigzag"}])
def test_every_superstep_of_subgraphs_is_right(options, name, device, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", {**options, "window_mb": 0.0081, "codes": "packed"}))
    check("scaph", name, device)


def test_owners_of_long_rows_wait_for_unpacked_ids(device, monkeypatch):
    """Kernels of hubs and middle vertices run on streams of their own, beside those of the other vertices."""
    lists = replace(OnyxCudaEngine.policy, hub_edges=(1000, 1000), middle_edges=8, middle_share=0)
    monkeypatch.setattr(OnyxCudaEngine, "policy", lists)
    graph, answers = hubs_and_middle(20_000), []
    for options in ({}, {"edges": "streamed", "window_mb": 0.081, "codes": "packed"}):
        chosen = {"change_driven": False, "balance": "warp", "direction": "pull", **options}
        monkeypatch.setitem(SCHEDULES, "hubs", ("onyx", chosen))
        engine = cuda_engine("hubs")
        engine.prepare(program("pagerank"), graph, 3, device, Phases())
        assert {"hubs", "middle"} <= {buffer.name for buffer in engine.planned.buffers}
        for _ in range(10 if options else 1):
            engine.reset(ALGORITHMS["pagerank"].inputs(graph, 3))
            engine.run(10)
            answers.append([engine.values(name) for name in program("pagerank").outputs])
        engine.close()
    for later in answers[1:]:
        for one, other in zip(answers[0], later, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("made", [lambda: grid(rows=1000, columns=1000), lambda: rmat(18, 32, seed=1)])
def test_packed_bytes_cross_the_link(made, device, monkeypatch):
    """Answers are equal, and the bytes of the link are those that are counted, with some commands."""
    graph = made()
    (plain, before), (packed, after) = (crossing(codes, graph, device, monkeypatch) for codes in ("plain", "packed"))
    for one, other in zip(plain, packed, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert after < 0.75 * before


def crossing(codes, graph, device, monkeypatch):
    """Return the answer of PageRank after ten supersteps, and the bytes that crossed the link."""
    options = {"change_driven": False, "balance": "warp", "direction": "pull", "edges": "streamed", "window_mb": 4}
    monkeypatch.setitem(SCHEDULES, "windows", ("onyx", {**options, "codes": codes}))
    engine, found = cuda_engine("windows"), []
    engine.prepare(program("pagerank"), graph, 1, device, Phases())
    engine.reset(ALGORITHMS["pagerank"].inputs(graph, 1))
    crossed = link_bytes(device.index, lambda: found.append(engine.run(10)))
    moved = found[0].transfers.moved["copied"]
    assert moved <= crossed < 1.15 * moved + 5e6
    answer = [engine.values(name) for name in program("pagerank").outputs]
    engine.close()
    return answer, crossed

"""Graphs that were made by rows on a CUDA device: registered in place, and with more than 2^32 edges."""

from __future__ import annotations

import gc

import numpy as np
import psutil
import pytest

from harness.algorithms.bfs import BFS
from harness.contract import Phases, Yes
from harness.graph.generators import rmat_rows, urand_rows
from harness.language import trace
from harness.language.reference import ReferenceRun
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine

pytestmark = pytest.mark.gpu
PUSH = {"direction": "push", "balance": "warp"}
CASES = {
    "aligned": ("emogi", {}),
    "naive": ("emogi", {"access": "naive"}),
    "tiled": ("emogi", {"access": "tiled", "counters": True}),
    "managed": ("emogi", {"edges": "managed"}),
    "resident": ("emogi", {"edges": "resident"}),
    "scaph": ("scaph", {}),
    "scaph reads in place": ("scaph", {"low": "zero_copy"}),
    "scaph queue": ("scaph", {"rounds": 3}),
    "onyx streamed": ("onyx", {**PUSH, "edges": "streamed"}),
}
LARGE = 1 << 17, 32768, 33000  # vertices, and edges of each: 17.2 GB
HOST_BYTES = 40 << 30


def levels(case, graph, source, device, monkeypatch):
    """Return the levels of a breadth-first search, and the statistics of the run; check that no CSC is built."""
    monkeypatch.setitem(SCHEDULES, "many edges", CASES[case])
    engine, algorithm = cuda_engine("many edges"), BFS(sources=str(source))
    program = trace(algorithm)
    assert isinstance(engine.supports(program, graph, 1, device), Yes)
    engine.prepare(program, graph, 1, device, Phases())
    engine.reset(algorithm.inputs(graph, 1))
    statistics = engine.run(1000)
    assert statistics.settled
    found = np.array(engine.values("level"))[:, 0]
    of_edges = engine.executor.arrays["out_neighbours"]
    in_place = of_edges.data.ptr == graph.csr.neighbours.ctypes.data
    engine.close()
    del of_edges, engine
    gc.collect()
    assert "csc" not in graph.__dict__
    return found, statistics, in_place


@pytest.mark.parametrize("case", CASES)
def test_edges_are_registered_where_they_are(case, device, monkeypatch):
    graph = rmat_rows(scale=12, edge_factor=20)
    source = int(graph.out_degrees.argmax())
    for _ in range(2):  # registered again after they were released
        found, _, in_place = levels(case, graph, source, device, monkeypatch)
        assert in_place == (case not in ("managed", "resident"))
    program = trace(BFS(sources=str(source)))
    run = ReferenceRun(program, graph, 1)
    run.reset(BFS(sources=str(source)).inputs(graph, 1))
    run.run(1000)
    np.testing.assert_array_equal(found, run.values("level")[:, 0])


@pytest.fixture(scope="module")
def large():
    """Return a graph of more than 2^32 edges."""
    if psutil.virtual_memory().available < HOST_BYTES:
        pytest.skip(f"the host has less than {HOST_BYTES >> 30} GiB of free memory")
    graph = urand_rows(*LARGE)
    assert graph.num_edges > 1 << 32
    return graph


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_more_than_32_bits_count(case, large, device, monkeypatch):
    """The last row, whose edges are beyond 2^32, has the vertices of level 1; all others are at level 2."""
    source = large.num_vertices - 1
    found, statistics, _ = levels(case, large, source, device, monkeypatch)
    start = int(large.csr.offsets[source])
    assert start > 1 << 32
    wanted = np.full(large.num_vertices, 2.0)
    wanted[large.csr.neighbours[start:]] = 1
    wanted[source] = 0
    np.testing.assert_array_equal(found, wanted)
    if statistics.supersteps:
        assert sum(step.edges for step in statistics.supersteps) >= large.num_edges

"""More than 2^32 edges on an emulated device: kernels, windows and packed rows with positions of 64 bits.

The rows of a small graph are numbered from an edge beyond 2^32 on. The array of neighbours begins so far before its
memory that only its last elements exist: a position that is cut off reads memory that does not belong to the process,
or other edges.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.contract import Phases, Yes
from harness.graph import Adjacency, Graph
from harness.graph.generators import rmat, rmat_rows
from harness.language import trace
from harness.language.sampled import Sample
from harness.lowering.cuda import edge_places
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.test_cuda import algorithms

FIRST = (1 << 32) + 5 * 64  # the number of the first edge that exists
MAPPED, STREAMED = {"edges": "mapped"}, {"edges": "streamed", "window_mb": 0.004}
PUSH = {"direction": "push", "balance": "warp"}
CASES = {
    **{f"emogi {one}": ("emogi", {**MAPPED, "access": one}) for one in ("naive", "merged", "aligned", "chunk")},
    "emogi list": ("emogi", {**MAPPED, "frontier": "list"}),
    "emogi tiled": ("emogi", {**MAPPED, "access": "tiled", "counters": True}),
    "emogi counters": ("emogi", {**MAPPED, "counters": True}),
    "scaph": ("scaph", {"window_mb": 0.004}),
    "scaph copies": ("scaph", {"window_mb": 0.004, "values": "high"}),
    "scaph reads in place": ("scaph", {"window_mb": 0.004, "values": "low", "low": "zero_copy"}),
    "scaph queue": ("scaph", {"window_mb": 0.004, "rounds": 3}),
    "onyx push": ("onyx", {**PUSH, **MAPPED}),
    "onyx streamed push": ("onyx", {**PUSH, **STREAMED}),
    "onyx streamed push of everything": ("onyx", {**PUSH, **STREAMED, "change_driven": False}),
}  # fmt: skip


def device_array(values, address, length):
    """Return an array of the emulated device at an address."""
    cuda = sys.modules["cupy"].cuda
    memory = cuda.UnownedMemory(address, length * values.itemsize, values, 0)
    return sys.modules["cupy"].ndarray(length, values.dtype, cuda.MemoryPointer(memory, 0))


def numbered_from(first, graph):
    """Return a graph with the rows of another one, whose edges are numbered from ``first`` on."""
    neighbours, length = graph.csr.neighbours, first + graph.num_edges
    far = device_array(neighbours, neighbours.ctypes.data - first * neighbours.itemsize, length)
    made = Graph(Adjacency(graph.csr.offsets + first, far.view(np.ndarray)), name="far")
    made.__dict__["_counted"] = graph.in_offsets  # a count would read all edges
    made.__dict__["facts"] = graph.facts
    return made


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("case", CASES)
def test_rows_beyond_32_bits_give_the_answers_of_the_same_rows_at_the_beginning(case, emulated, monkeypatch):
    monkeypatch.setattr(
        edge_places, "pinned_values", lambda values: device_array(values, values.ctypes.data, values.size)
    )
    monkeypatch.setitem(SCHEDULES, "far", CASES[case])
    monkeypatch.setattr("harness.lowering.cuda.setting.CudaSetting.many_edges", True)
    algorithm, near = algorithms()["bfs"], rmat(scale=7, edge_factor=6, seed=3)
    program, found = trace(algorithm), []
    for graph in (near, numbered_from(FIRST, near)):
        engine = cuda_engine("far")
        engine.prepare(program, graph, 1, emulated, Phases())
        assert "typedef long long EdgeId;" in engine.planned.source
        engine.reset(algorithm.inputs(near, 1))
        taken = engine.run(100)
        assert taken.settled
        found.append((engine.values("level"), [step.edges for step in taken.supersteps], taken.transfers))
        engine.close()
        assert "csc" not in graph.__dict__, "a push needs no CSC"
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.isfinite(found[0][0]).mean() > 0.3
    assert found[0][1:] == found[1][1:]


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("name", ["bfs", "sssp", "pagerank"])
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("emogi", MAPPED), ("emogi", {"edges": "resident"}), ("scaph", {}), ("gunrock", MAPPED), ("tigr", MAPPED),
        ("onyx", {**PUSH, **STREAMED, "window_mb": 0.1}), ("onyx", {**PUSH, "edges": "resident"}),
    ],
)  # fmt: skip
def test_a_push_and_its_check_on_a_sample_need_no_csc(engine, options, name, emulated, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "made by rows", (engine, options))
    csc = Graph.__dict__["csc"]
    monkeypatch.setattr(Graph, "csc", property(lambda self: pytest.fail("a CSC")))
    algorithm, graph = algorithms()[name], rmat_rows(scale=7, edge_factor=8, max_weight=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 1)
    chosen = Sample.draw(program, graph)
    made = cuda_engine("made by rows")
    assert isinstance(made.supports(program, graph, 1, emulated), Yes)
    made.prepare(program, graph, 1, emulated, Phases())
    made.reset(inputs)
    made.run(1)
    after = {output: made.rows(output, chosen.results(output)) for output in program.outputs}
    monkeypatch.setattr(Graph, "csc", csc)  # the sample's own graph has one
    reduced = chosen.reduced(graph, inputs, 1, None)
    assert chosen.compared(inputs, 1, None, after, reduced=reduced).ok
    made.close()

"""Edge arrays in page-locked host memory that a CUDA device reads in place."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from harness.contract import Phases
from harness.device import host_memory
from harness.graph.generators import rmat
from harness.language import trace
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.link_bytes import link_bytes
from tests.engines.test_cuda import algorithms, check_every_superstep

pytestmark = pytest.mark.gpu
ENGINES = ("pull", "pull-edges", "changes-pull", "changes-push-edges", "gunrock", "gunrock-merge-path", "tigr", "simdx")


STREAMING = ("pull", "pull-loops", "push", "push-edges", "changes-pull", "changes-pull-sparse", "changes-push-edges")


def place_edges(schedule, monkeypatch, **place):
    """Make engines of a schedule keep edge arrays in memory of the host."""
    kind, options = SCHEDULES[schedule]
    monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, **place}))


@pytest.mark.parametrize("name", ["label_propagation", "pagerank", "sssp", "components"])
@pytest.mark.parametrize("schedule", ENGINES)
def test_every_superstep_is_right(schedule, name, device, monkeypatch):
    place_edges(schedule, monkeypatch, edges="mapped")
    check(schedule, name, device)


def check(schedule, name, device):
    """Compare every superstep of an algorithm on a random graph with the reference."""
    algorithm, features = algorithms()[name], 8
    program = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=9, edge_factor=8, seed=4, max_weight=4))
    check_every_superstep(schedule, program, graph, algorithm.inputs(graph, features), features, device, 6)


@pytest.mark.parametrize("name", ["label_propagation", "pagerank", "sssp", "components"])
@pytest.mark.parametrize("schedule", STREAMING)
def test_every_superstep_of_streamed_edges_is_right(schedule, name, device, monkeypatch):
    place_edges(schedule, monkeypatch, edges="streamed", window_mb=0.008)
    check(schedule, name, device)


@pytest.mark.parametrize("advice", ["read_mostly", "accessed_by", "prefetch", "none"])
@pytest.mark.parametrize("schedule", ["pull-edges", "gunrock"])
def test_every_superstep_of_managed_edges_is_right(schedule, advice, device, monkeypatch):
    place_edges(schedule, monkeypatch, edges="managed", advice=advice)
    check(schedule, "sssp", device)


def test_streamed_edges_take_six_windows_of_the_device(device, monkeypatch):
    import cupy

    place_edges("changes-pull", monkeypatch, edges="streamed", window_mb=1)
    program, graph = trace(algorithms()["pagerank"]), rmat(scale=16, edge_factor=64)
    engine, pool = cuda_engine("changes-pull"), cupy.get_default_memory_pool()
    before = pool.used_bytes()
    engine.prepare(program, graph, 1, device, Phases())
    engine.reset(algorithms()["pagerank"].inputs(graph, 1))
    engine.run(10)
    plan, held = engine.planned, pool.used_bytes() - before
    engine.close()
    assert pool.used_bytes() == before
    assert 6e6 <= plan.windows.nbytes < 6.2e6 < plan.host_bytes
    assert held == pytest.approx(plan.bytes_needed, rel=0.05)


@pytest.mark.parametrize("schedule", ["pull", "tigr"])
def test_mapped_edges_take_no_memory_of_the_device(schedule, device, monkeypatch):
    import cupy

    program, graph, pool = (
        trace(algorithms()["pagerank"]),
        rmat(scale=16, edge_factor=16),
        cupy.get_default_memory_pool(),
    )
    held = {}
    for edges in ("resident", "mapped"):
        kind, options = SCHEDULES[schedule]
        monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, "edges": edges}))
        engine, before = cuda_engine(schedule), pool.used_bytes()
        engine.prepare(program, graph, 1, device, Phases())
        engine.reset(algorithms()["pagerank"].inputs(graph, 1))
        engine.run(2)
        held[edges] = pool.used_bytes() - before
        host_bytes = engine.planned.host_bytes
        engine.close()
        assert pool.used_bytes() == before
    assert host_bytes >= 4 * graph.num_edges
    assert held["resident"] - held["mapped"] == pytest.approx(host_bytes, rel=0.01)


@pytest.mark.parametrize("failing", [0, 2])
def test_a_failed_registration_leaves_the_device_usable(failing, device, monkeypatch):
    import cupy

    runtime, register, ranges = cupy.cuda.runtime, cupy.cuda.runtime.hostRegister, []

    def registered(pointer, size, flags):
        if len(ranges) == failing:
            register(0 if not ranges else ranges[0], size, flags)  # no such memory, or registered already
        register(pointer, size, flags)
        ranges.append(pointer)

    monkeypatch.setattr(host_memory, "RANGE_BYTES", 1 << 21)
    monkeypatch.setattr(runtime, "hostRegister", registered)
    with pytest.raises(MemoryError, match="cannot lock"):
        host_memory.pinned_array(1 << 21, np.uint32)
    monkeypatch.undo()
    assert len(ranges) == failing
    for pointer in ranges:
        with pytest.raises(runtime.CUDARuntimeError):  # it is not registered any more
            runtime.hostUnregister(pointer)
    array = host_memory.pinned_array(1 << 16, np.uint32)
    array[:4].set(np.arange(4, dtype=np.uint32))
    assert int(array.sum()) == 6, "a kernel reads it in place"


@pytest.mark.parametrize("advice", ["read_mostly", "accessed_by", "prefetch", "none"])
def test_managed_pages_that_were_moved_to_the_host_are_read_over_the_link_again(advice, device):
    import cupy

    from harness.device.managed_memory import ManagedMemory, managed_array

    nbytes = 1 << 28
    memory = ManagedMemory(nbytes, advice)
    array = managed_array(memory, nbytes // 4, np.uint32)
    array.set(np.ones(nbytes // 4, np.uint32))
    total, stream = cupy.zeros(1, np.int64), cupy.cuda.Stream(non_blocking=True)

    def read():
        with stream:
            memory.fetch(stream.ptr)
            total[:] = array.sum(dtype=np.int64)
        stream.synchronize()

    read()  # compiles
    for _ in range(2):
        memory.keep()
        assert last_prefetch(memory) == HOST
        assert link_bytes(device.index, read) > 0.9 * nbytes
        assert int(total[0]) == nbytes // 4
        if advice == "prefetch":
            assert last_prefetch(memory) == device.index
        if advice != "accessed_by":  # which leaves the pages where they are
            assert link_bytes(device.index, read) < 0.2 * nbytes


HOST, LAST_PREFETCH_LOCATION = -1, 4  # CU_DEVICE_CPU, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION


def last_prefetch(memory):
    """Return the place to which all pages were moved last by a call, as the driver knows it."""
    place, library = ctypes.c_int(-99), ctypes.CDLL("libcuda.so.1")
    arguments = (ctypes.c_uint64(memory.pointer), ctypes.c_size_t(memory.nbytes))
    status = library.cuMemRangeGetAttribute(
        ctypes.byref(place), ctypes.c_size_t(4), ctypes.c_int(LAST_PREFETCH_LOCATION), *arguments
    )  # fmt: skip
    assert status == 0
    return place.value


@pytest.mark.parametrize("advice", ["read_mostly", "none", "prefetch"])
def test_every_run_of_managed_edges_moves_the_pages_again(advice, device, monkeypatch):
    place_edges("pull", monkeypatch, edges="managed", advice=advice)
    algorithm = algorithms()["pagerank"]
    program, graph = trace(algorithm), rmat(scale=20, edge_factor=32, seed=3)
    engine, inputs = cuda_engine("pull"), algorithm.inputs(graph, 1)
    engine.prepare(program, graph, 1, device, Phases())
    nbytes = sum(buffer.nbytes for buffer in engine.planned.buffers if buffer.of_edges)
    for _ in range(3):
        engine.reset(inputs)
        assert link_bytes(device.index, lambda: engine.run(2)) > 0.8 * nbytes
        assert link_bytes(device.index, lambda: engine.run(2)) < 0.3 * nbytes  # the same run goes on
    engine.close()

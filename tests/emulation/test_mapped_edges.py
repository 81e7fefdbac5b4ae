"""Edge arrays in page-locked host memory: same answers, the right arrays, and no registration left behind."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from harness.contract import Device, EngineFailure, Phases
from harness.device import host_memory
from harness.edge_places import Place
from harness.emulation.arrays import RuntimeFailure
from harness.graph import Adjacency, Graph
from harness.graph.generators import rmat_rows
from harness.graph.pages import array_in_pages
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.device_store import DeviceStore
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, plan_of
from tests.engines.programs import edges_and_loops, inputs_for, program_named

FEATURES, SUPERSTEPS = 3, 4
# Between them they read weights by either order, reverse edges, and rows.
CASES = [
    ("pull", "aggregate_rewritten"),
    ("pull-edges", "several_reductions"),
    ("changes-push-edges", "shortest_paths"),
    ("gunrock", "shortest_paths"),
    ("tigr", "several_reductions"),
    ("simdx", "several_reductions"),
]


@pytest.fixture
def registered(emulated):
    """Return the registered memory of the emulated device: bytes by address."""
    return sys.modules["cupy"].cuda.runtime.registered


@pytest.fixture
def mapped(monkeypatch):
    """Return a function that makes an engine whose edges are mapped."""

    def made(schedule):
        kind, options = SCHEDULES[schedule]
        monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, "edges": "mapped"}))
        return cuda_engine(schedule)

    return made


def answers(engine, program, graph, device):
    """Return the outputs after some supersteps, without closing the engine."""
    engine.prepare(program, graph, FEATURES, device, Phases())
    engine.reset(inputs_for(program, graph, FEATURES))
    engine.run(SUPERSTEPS)
    return {name: engine.values(name) for name in program.outputs}


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("schedule", "name"), CASES)
def test_mapped_edges_give_the_answers_of_resident_ones(schedule, name, emulated, registered, mapped, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    program, graph = program_named(name), edges_and_loops.__wrapped__()  # whose stores no other test uses
    resident = cuda_engine(schedule)
    wanted = answers(resident, program, graph, emulated)
    resident.close()
    assert not registered
    engine = mapped(schedule)
    found = answers(engine, program, graph, emulated)
    for output, values in wanted.items():
        np.testing.assert_array_equal(found[output], values)
    plan = engine.planned
    of_edges = {buffer.name for buffer in plan.buffers if buffer.of_edges}
    in_place = {key for key, one in engine.executor.arrays.items() if one.__array_interface__["data"][0] in registered}
    assert of_edges == in_place
    assert not of_edges.isdisjoint({"in_neighbours", "out_neighbours"})
    assert required == [resident.planned.bytes_needed, plan.bytes_needed]
    assert plan.bytes_needed + plan.host_bytes == resident.planned.bytes_needed
    assert engine.resolved_options()["edges"] == "mapped"
    assert f"edge arrays mapped: {plan.host_bytes:,} bytes of page-locked host memory" in engine.explain()
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert not registered
    finally:
        gc.enable()


def test_places_have_stores_of_their_own():
    graph = edges_and_loops()
    stores = [DeviceStore.of(graph, place) for place in (Place.RESIDENT, Place.MAPPED)]
    assert stores[0] is not stores[1]
    assert DeviceStore.of(graph, Place.MAPPED) is stores[1]


@pytest.mark.parametrize("failing", [0, 2])
def test_a_failed_registration_leaves_nothing_registered(failing, emulated, registered, monkeypatch):
    runtime, ranges = sys.modules["cupy"].cuda.runtime, []

    def register(pointer, size, flags):
        if len(ranges) == failing:
            raise RuntimeFailure("cudaErrorMemoryAllocation: out of memory")
        ranges.append((pointer, size))
        registered[pointer] = size

    monkeypatch.setattr(host_memory, "RANGE_BYTES", 4096)
    monkeypatch.setattr(runtime, "hostRegister", register)
    with pytest.raises(MemoryError, match="cannot lock 12,300 bytes of host memory.*cudaErrorMemoryAllocation"):
        host_memory.pinned_array(12_300 // 4, np.uint32)
    assert len(ranges) == failing
    assert not registered


def test_large_memory_is_registered_in_ranges(emulated, registered, monkeypatch):
    monkeypatch.setattr(host_memory, "RANGE_BYTES", 4096)
    array = host_memory.pinned_array(2500, np.uint32)
    start = array.__array_interface__["data"][0]
    assert registered == {start: 4096, start + 4096: 4096, start + 8192: 10_000 - 8192}
    array[:7].set(np.arange(7, dtype=np.uint32))
    np.testing.assert_array_equal(array[:9].get(), [0, 1, 2, 3, 4, 5, 6, 0, 0])
    part = weakref.ref(array)
    kept = array[3:5]
    del array
    assert registered, "a slice keeps the memory"
    np.testing.assert_array_equal(kept.get(), [3, 4])
    del kept
    assert part() is None
    assert not registered


def test_pinned_pages_are_not_inherited_by_forked_processes(emulated):
    assert forks_without(host_memory.on_host(host_memory.pinned_array(1 << 16, np.uint32)))


def test_values_in_pages_of_their_own_are_registered_in_place(emulated, registered):
    values = array_in_pages(5000, np.uint32)
    values[:] = np.arange(5000)
    frozen = Graph(Adjacency(np.array([0, 5000]), values), name="pages").csr.neighbours
    array, again = (host_memory.pinned_values(frozen) for _ in range(2))
    assert registered == {values.ctypes.data: values.nbytes}, "once"
    assert array.data.ptr == again.data.ptr == values.ctypes.data
    np.testing.assert_array_equal(array.get(), np.arange(5000))
    assert forks_without(values)
    del array
    assert registered
    del again
    assert not registered
    assert not forks_without(values)
    assert values[4999] == 4999, "the pages still belong to the array"
    array = host_memory.pinned_values(frozen)
    del values, frozen
    np.testing.assert_array_equal(array.get(), np.arange(5000))


def test_other_values_are_copied(emulated, registered):
    for values in (np.arange(100, dtype=np.uint32), array_in_pages(100, np.uint32)[1:], np.zeros(0, np.uint32)):
        array = host_memory.pinned_values(values)
        assert array.data.ptr != values.ctypes.data
        assert len(registered) == 1
        np.testing.assert_array_equal(array.get(), values)
        del array
    assert not registered


def test_a_failed_registration_in_place_leaves_the_values(emulated, registered, monkeypatch):
    def register(pointer, size, flags):
        if registered:
            raise RuntimeFailure("cudaErrorMemoryAllocation: out of memory")
        registered[pointer] = size

    monkeypatch.setattr(host_memory, "RANGE_BYTES", 4096)
    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "hostRegister", register)
    values = array_in_pages(3000, np.uint32)
    values[:] = 7
    with pytest.raises(MemoryError, match="cannot lock 12,000 bytes"):
        host_memory.pinned_values(values)
    assert not registered
    assert not forks_without(values)
    assert (values == 7).all()


def test_a_graph_in_pages_of_its_own_is_not_copied(emulated, registered, mapped):
    graph = rmat_rows(scale=6, edge_factor=8)
    program = program_named("shortest_paths")
    engine = mapped("changes-push-edges")
    answers(engine, program, graph, emulated)
    assert engine.executor.arrays["out_neighbours"].data.ptr == graph.csr.neighbours.ctypes.data
    assert graph.csr.neighbours.ctypes.data in registered
    engine.close()
    assert not registered


def forks_without(values):
    """Return whether the pages of an array are left out of forked processes."""
    areas = re.findall(
        r"^(\w+)-(\w+) .*?^VmFlags: (.*?)$", Path("/proc/self/smaps").read_text(), re.MULTILINE | re.DOTALL
    )
    at = values.ctypes.data
    (flags,) = [flags.split() for low, high, flags in areas if int(low, 16) <= at < int(high, 16)]
    return "dc" in flags


def test_a_device_that_cannot_read_host_memory_is_refused(emulated, monkeypatch):
    monkeypatch.setattr(type(sys.modules["cupy"].cuda.runtime), "deviceGetAttribute", lambda *_: 0)
    with pytest.raises(EngineFailure, match="run with edges=resident"):
        host_memory.pinned_array(4, np.uint32)


def test_the_plan_prices_mapped_edges(mapped):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    engine = mapped("pull")
    plan = plan_of(engine, program, graph, FEATURES)
    answer = engine.supports(program, graph, FEATURES, Device("cuda"))
    assert (answer.bytes_needed, answer.host_bytes) == (plan.bytes_needed, plan.host_bytes)
    assert plan.host_bytes == sum(buffer.nbytes for buffer in plan.buffers if buffer.of_edges) >= 4 * graph.num_edges

"""Edge arrays in page-locked host memory: same answers, the right arrays, and no registration left behind."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from harness.contract import EngineFailure, Phases
from harness.device import host_memory
from harness.edge_places import Place
from harness.emulation.arrays import RuntimeFailure
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
    runtime, pieces = sys.modules["cupy"].cuda.runtime, []

    def register(pointer, size, flags):
        if len(pieces) == failing:
            raise RuntimeFailure("cudaErrorMemoryAllocation: out of memory")
        pieces.append((pointer, size))
        registered[pointer] = size

    monkeypatch.setattr(host_memory, "PIECE", 4096)
    monkeypatch.setattr(runtime, "hostRegister", register)
    with pytest.raises(MemoryError, match="cannot lock 12,300 bytes of host memory.*cudaErrorMemoryAllocation"):
        host_memory.pinned_array(12_300 // 4, np.uint32)
    assert len(pieces) == failing
    assert not registered


def test_large_memory_is_registered_in_pieces(emulated, registered, monkeypatch):
    monkeypatch.setattr(host_memory, "PIECE", 4096)
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
    array = host_memory.pinned_array(1 << 16, np.uint32)
    areas = re.findall(
        r"^(\w+)-(\w+) .*?^VmFlags: (.*?)$", Path("/proc/self/smaps").read_text(), re.MULTILINE | re.DOTALL
    )
    (flags,) = [flags.split() for low, high, flags in areas if int(low, 16) <= array.data.ptr < int(high, 16)]
    assert "dc" in flags, "not copied at a fork"


def test_a_device_that_cannot_read_host_memory_is_refused(emulated, monkeypatch):
    monkeypatch.setattr(type(sys.modules["cupy"].cuda.runtime), "deviceGetAttribute", lambda *_: 0)
    with pytest.raises(EngineFailure, match="run with edges=resident"):
        host_memory.pinned_array(4, np.uint32)


def test_the_plan_prices_mapped_edges(mapped):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    engine = mapped("pull")
    plan = plan_of(engine, program, graph, FEATURES)
    answer = engine.supports(program, graph, FEATURES, None)
    assert (answer.bytes_needed, answer.host_bytes) == (plan.bytes_needed, plan.host_bytes)
    assert plan.host_bytes == sum(buffer.nbytes for buffer in plan.buffers if buffer.of_edges) >= 4 * graph.num_edges

"""Edge arrays in managed memory: same answers, the advice, cold pages, and no more than the device has free."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from harness.contract import Phases
from harness.device import managed_memory
from harness.lowering.cuda import executor as cuda
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.programs import edges_and_loops, inputs_for, program_named

FEATURES, SUPERSTEPS = 3, 4
ADVICE = {None: 1, "read_mostly": 1, "accessed_by": 5, "prefetch": None, "none": None}


@pytest.fixture
def runtime(emulated):
    """Return the runtime of the emulated device."""
    return sys.modules["cupy"].cuda.runtime


def answers(engine, program, graph, device):
    """Return the outputs after some supersteps, without closing the engine."""
    engine.prepare(program, graph, FEATURES, device, Phases())
    engine.reset(inputs_for(program, graph, FEATURES))
    engine.run(SUPERSTEPS)
    return {name: engine.values(name) for name in program.outputs}


@pytest.mark.parametrize("advice", ADVICE)
def test_managed_edges_give_the_answers_of_resident_ones(advice, emulated, runtime, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    program, graph = program_named("aggregate_rewritten"), edges_and_loops.__wrapped__()
    resident = cuda_engine("pull")
    wanted = answers(resident, program, graph, emulated)
    resident.close()
    kind, options = SCHEDULES["pull"]
    monkeypatch.setitem(SCHEDULES, "pull", (kind, {**options, "edges": "managed", "advice": advice}))
    engine = cuda_engine("pull")
    found = answers(engine, program, graph, emulated)
    assert all(np.array_equal(found[name], values) for name, values in wanted.items())
    plan = engine.planned
    of_edges = {buffer.name: buffer.nbytes for buffer in plan.buffers if buffer.of_edges}
    assert {array.data.ptr for name, array in engine.executor.arrays.items() if name in of_edges} == set(
        runtime.managed
    )
    given = [one for one in runtime.advised if one[1] in (1, 5)]
    wanted_advice = [(size, ADVICE[advice]) for size in of_edges.values() if ADVICE[advice]]
    if advice in (None, "read_mostly"):  # it is given again when the pages are on the host
        wanted_advice += [(memory.nbytes, 1) for memory in runtime.managed.values()]
    assert sorted(given) == sorted(wanted_advice)
    assert required == [resident.planned.bytes_needed] * 2
    assert (plan.bytes_needed, plan.host_bytes) == (resident.planned.bytes_needed, 0)
    assert engine.resolved_options()["advice"] == (advice or "read_mostly")
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert not runtime.managed
    finally:
        gc.enable()


@pytest.mark.parametrize("advice", [advice for advice in ADVICE if advice])
def test_pages_are_on_the_host_when_a_run_begins(advice, emulated, runtime, monkeypatch):
    program, graph = program_named("aggregate_rewritten"), edges_and_loops.__wrapped__()
    kind, options = SCHEDULES["pull"]
    monkeypatch.setitem(SCHEDULES, "pull", (kind, {**options, "edges": "managed", "advice": advice}))
    engine = cuda_engine("pull")
    engine.prepare(program, graph, FEATURES, emulated, Phases())
    wanted = runtime.HOST | (runtime.READ_MOSTLY if advice == "read_mostly" else 0)
    for _ in range(2):
        engine.reset(inputs_for(program, graph, FEATURES))
        assert runtime.managed
        assert all((pages == wanted).all() for pages in runtime.pages.values())
        runtime.advised.clear()
        for _ in range(2):  # pages are moved once, when the run begins
            engine.run(1)
            moved = sorted(memory.nbytes for memory in runtime.managed.values()) if advice == "prefetch" else []
            assert sorted(size for size, use in runtime.advised if use == "prefetch") == moved
        everything_read(runtime)
    assert any((pages & runtime.DEVICE).any() for pages in runtime.pages.values())
    engine.close()


def everything_read(runtime):
    """Let the device read all managed memory, as kernels do."""
    for pointer, memory in runtime.managed.items():
        runtime.read(pointer, memory.nbytes, runtime.DEVICE)


@pytest.mark.parametrize("advice", ["read_mostly", "none"])
@pytest.mark.parametrize(("share", "kept"), [(0.0, 0), (0.25, 100), (0.26, 104), (0.999, 400), (1.0, 400)])
def test_pages_behind_a_share_are_moved_to_the_host(share, kept, advice, runtime, monkeypatch):
    monkeypatch.setattr(managed_memory, "BLOCK", 4)
    memory = managed_memory.ManagedMemory(400, advice)
    managed_memory.managed_array(memory, 100, np.uint32).set(np.arange(100, dtype=np.uint32))
    for _ in range(2):
        everything_read(runtime)
        runtime.advised.clear()
        memory.keep(share)
        [pages] = runtime.pages.values()
        assert (pages[:kept] & runtime.DEVICE).all()
        assert (pages[kept:] & ~runtime.READ_MOSTLY == runtime.HOST).all()
        assert bool((pages & runtime.READ_MOSTLY).all()) == (advice == "read_mostly")
        copied = sum(size for size, use in runtime.advised if use == "to the host")
        assert copied == (0 if advice == "read_mostly" else 400 - kept)


def test_no_more_is_allocated_than_the_device_has_free(runtime, monkeypatch):
    monkeypatch.setattr(type(runtime), "memGetInfo", staticmethod(lambda: (399, 1000)))
    with pytest.raises(MemoryError, match="400 bytes of managed memory for edge arrays, and the device has 399 free"):
        managed_memory.ManagedMemory(400, "none")
    assert not runtime.managed

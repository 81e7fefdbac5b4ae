"""Edge arrays in managed memory: same answers, the advice, and no more than the device has free."""

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
ADVICE = {None: 1, "read_mostly": 1, "accessed_by": 5, "prefetch": "prefetch", "none": None}


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
    wanted_advice = [] if advice == "none" else sorted((size, ADVICE[advice]) for size in of_edges.values())
    assert sorted(runtime.advised) == wanted_advice
    assert required == [resident.planned.bytes_needed] * 2
    assert (plan.bytes_needed, plan.host_bytes) == (resident.planned.bytes_needed, 0)
    assert engine.resolved_options()["advice"] == (advice or "read_mostly")
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert not runtime.managed
    finally:
        gc.enable()


def test_no_more_is_allocated_than_the_device_has_free(runtime, monkeypatch):
    monkeypatch.setattr(type(runtime), "memGetInfo", staticmethod(lambda: (399, 1000)))
    with pytest.raises(MemoryError, match="400 bytes of managed memory for edge arrays, and the device has 399 free"):
        managed_memory.managed_array(100, np.uint32, "none")
    assert not runtime.managed

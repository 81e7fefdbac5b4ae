"""Substitute an emulated device for a CUDA device and CuPy for the duration of a test."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.policy import Policy
from harness.contract import Device
from harness.device.compilation import Compiled
from harness.emulation.arrays import Runtime, cupy_of
from harness.emulation.compiler import Module, library
from tests.emulation.racing import RacingModule
from tests.engines.cuda_schedules import SCHEDULES

# The device is small and processes small pieces of work, so that loops over pieces repeat on small graphs as well.
POLICY = Policy(tile=64, blocks_of_reduction=2, edges_of_team=2, measured_edges=0)
ATTRIBUTES = {"MultiProcessorCount": 1, "MaxRegistersPerMultiprocessor": 65536}
THREADS = 64  # of a block, if the schedule leaves it to the engine
SIZES = {
    "harness.lowering.cuda.launches.MOST_BLOCKS": 3,
    "harness.lowering.cuda.launches.FEW_THREADS": 2 * THREADS,
    "harness.lowering.cuda.thread_planner.PARTS": 3,
    "harness.lowering.cuda.thread_planner.BLOCK": THREADS,
    "engines.pushbaseline.gunrock.cuda_plan.BLOCKS": 3,
    "engines.pullbaseline.simdx.cuda_plan.BLOCKS": 3,
    "engines.lonestar.cuda_plan.BLOCK": THREADS,
    "engines.pullbaseline.simdx.cuda_plan.THREADS": THREADS,
}


class ManagedRuntime(Runtime):
    """The substitute for CUDA's runtime with managed memory: ``managed`` by address; ``advised``: bytes and advice."""

    cudaMemAdviseSetReadMostly, cudaMemAdviseSetAccessedBy = 1, 5  # noqa: N815  CUDA's names

    def __init__(self):
        super().__init__()
        self.managed, self.advised = {}, []

    def mallocManaged(self, size):
        memory = np.zeros(size, np.uint8)
        self.managed[memory.ctypes.data] = memory
        return memory.ctypes.data

    def free(self, pointer):
        del self.managed[pointer]

    def memAdvise(self, pointer, size, advice, device):
        self.advised.append((size, advice))

    def memPrefetchAsync(self, pointer, size, device, stream):
        self.advised.append((size, "prefetch"))


def emulate(monkeypatch: pytest.MonkeyPatch, *, racing: bool = False) -> Device:
    """Make CUDA engines compile for and run on the emulated device; ``racing``: launches fail if threads race."""

    def compiled_module(source: str, headers: Mapping[str, str], *_: object) -> Compiled:
        return Compiled(str(library(source, headers, racing=racing)).encode(), "")

    cupy = cupy_of(RacingModule if racing else Module)
    cupy.cuda.runtime = ManagedRuntime()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    executor = importlib.import_module("harness.lowering.cuda.executor")
    opened = SimpleNamespace(attributes=ATTRIBUTES)
    monkeypatch.setattr(executor, "open_device", lambda _: opened)
    monkeypatch.setattr(executor, "architecture", lambda _: "sm_90")
    monkeypatch.setattr(executor, "compiled_module", compiled_module)
    monkeypatch.setattr(executor, "require_memory", lambda _: None)
    monkeypatch.setattr(executor, "allow_shared_memory", lambda *_: None)
    residency = importlib.import_module("harness.lowering.cuda.residency")
    monkeypatch.setattr(residency, "registers_of", lambda _: 32)
    launcher = importlib.import_module("harness.lowering.cuda.launcher")
    lonestar = importlib.import_module("engines.lonestar.cuda_executor")
    for module in (residency, launcher, lonestar):
        monkeypatch.setattr(module, "blocks_of_multiprocessor", lambda *_: 1)
    for name, (kind, options) in SCHEDULES.items():
        if kind == "onyx":
            monkeypatch.setitem(SCHEDULES, name, (kind, {"block_size": THREADS, **options}))
    monkeypatch.setattr(OnyxCudaEngine, "policy", POLICY)
    for name, size in SIZES.items():
        module, _, constant = name.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), constant, size)
    return Device("cuda", 0)

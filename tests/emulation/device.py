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
from harness.emulation.arrays import Runtime, Stream, cupy_of
from harness.emulation.compiler import Module, library
from tests.emulation.racing import RacingModule
from tests.engines.cuda_schedules import SCHEDULES

# The device is small and processes few items at once, so that loops over items repeat on small graphs as well.
POLICY = Policy(tile=64, blocks_of_reduction=2, edges_of_lane_group=2, measured_edges=0, split_degree=6, part_edges=4)
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
    """The substitute for CUDA's runtime with managed memory, whose pages are where CUDA's documentation says.

    ``managed``: the memory by its address. ``advised``: bytes and advice of the calls. ``pages``: bits of every byte of
    the memory: where copies of it are, and its advice.
    """

    cudaMemAdviseSetReadMostly, cudaMemAdviseUnsetReadMostly, cudaMemAdviseSetAccessedBy = 1, 2, 5  # noqa: N815
    cudaMemAdviseUnsetPreferredLocation = 4  # noqa: N815
    HOST, DEVICE, READ_MOSTLY, PREFERS_HOST = 1, 2, 4, 8

    def __init__(self):
        super().__init__()
        self.managed, self.advised, self.pages = {}, [], {}

    def mallocManaged(self, size):
        memory = np.zeros(size, np.uint8)
        pointer = memory.ctypes.data
        self.managed[pointer], self.pages[pointer] = memory, np.full(size, self.HOST, np.int16)
        return pointer

    def free(self, pointer):
        del self.managed[pointer], self.pages[pointer]

    def range_of(self, pointer, size):
        """Return the bits of some bytes."""
        base = max(one for one in self.pages if one <= pointer)
        found = self.pages[base][pointer - base :][:size]
        assert len(found) == size, "beyond the memory"
        return found

    def memAdvise(self, pointer, size, advice, device):
        self.advised.append((size, advice))
        pages = self.range_of(pointer, size)
        if advice == self.cudaMemAdviseSetReadMostly:
            pages |= self.READ_MOSTLY
        elif advice == self.cudaMemAdviseUnsetReadMostly:
            both = (pages & 3) == self.HOST | self.DEVICE
            stays = np.where(pages & self.PREFERS_HOST, self.HOST, self.DEVICE)  # otherwise any copy
            pages[:] = np.where(both, pages & ~3 | stays, pages) & ~self.READ_MOSTLY
        elif advice == self.cudaMemAdviseUnsetPreferredLocation:
            pages &= ~self.PREFERS_HOST

    def prefer_host(self, pointer, size, device):
        self.range_of(pointer, size)[:] |= self.PREFERS_HOST

    def memPrefetchAsync(self, pointer, size, device, stream):
        assert stream in Stream.known, "a stream of a run does not wait for the default stream"
        self.advised.append((size, "prefetch"))
        self.read(pointer, size, self.DEVICE)

    def read(self, pointer, size, place):
        """Move pages to a place that reads them, or copy them. Return the bytes that were moved or copied."""
        pages = self.range_of(pointer, size)
        moved = int(np.count_nonzero(pages & place == 0))
        pages[:] = np.where(pages & self.READ_MOSTLY, pages | place, pages & ~3 | place)
        return moved

    def prefetch_to_host(self, pointer, size, device):
        self.advised.append((self.read(pointer, size, self.HOST), "to the host"))


def emulate(monkeypatch: pytest.MonkeyPatch, *, racing: bool = False, blocks: int = 1) -> Device:
    """Make CUDA engines compile for and run on the emulated device.

    ``racing``: launches fail if threads race. ``blocks``: that are resident at once, and run at the same time.
    """

    def compiled_module(source: str, headers: Mapping[str, str], *_: object) -> Compiled:
        return Compiled(str(library(source, headers, racing=racing, concurrent=blocks > 1)).encode(), "")

    cupy = cupy_of(RacingModule if racing else Module)
    cupy.cuda.runtime = ManagedRuntime()
    for name in ("prefetch_to_host", "prefer_host"):
        monkeypatch.setattr(f"harness.device.managed_memory.{name}", getattr(cupy.cuda.runtime, name))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    executor = importlib.import_module("harness.lowering.cuda.executor")
    opened = SimpleNamespace(attributes={**ATTRIBUTES, "MultiProcessorCount": blocks})
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

"""Reasons why a cell cannot run here: its engine, its device or its memory."""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING

from harness.campaign.cell import Cell
from harness.contract import Device, EngineSpec, Unsupported, Yes
from harness.plain_text import message_of

if TYPE_CHECKING:
    from harness.campaign.problem import Problem


class DoesNotFit(Unsupported):
    """An engine's plan needs more memory than there is; the message says how much."""


def refusal(spec: EngineSpec, cell: Cell) -> str:
    """Return why the engine cannot run the cell, judged by its description only; empty if it can."""
    missing = [module for module in spec.requires if importlib.util.find_spec(module) is None]
    if missing:
        remedy = f"; install it with: {spec.install}" if spec.install else ""
        return f"engine {spec.name!r} needs the Python module {missing[0]!r}, which is not installed{remedy}"
    if cell.device.kind not in spec.devices:
        return f"engine {spec.name!r} does not run on {cell.device.kind} (it runs on: {', '.join(spec.devices)})"
    return ""


def whole_run_refusal(answer: Yes, cell: Cell, problem: Problem) -> str:
    """Return why a plan that solves the whole problem cannot run the cell; empty if it can.

    ``answer``: of a :class:`~harness.campaign.guarded_engine.GuardedEngine`, which says whether the plan is stepwise.
    """
    if answer.stepwise:
        return ""
    what = f"engine {cell.engine!r} solves the whole problem"
    if cell.warm is not None:
        return f"{what} from the program's own initial state, so it cannot run warm"
    if problem.max_supersteps < problem.program.max_supersteps:
        return f"{what}, so it cannot stop after {problem.max_supersteps} supersteps"
    return ""


def uncounted(answer: Yes, cell: Cell) -> str:
    """Return why memory transactions, which the cell requests, are not counted for a plan; empty if they may be."""
    if answer.stepwise or cell.memory == "off":
        return ""
    return f"memory transactions are counted for a superstep, and engine {cell.engine!r} solves the whole problem"


def one_phase_only(cell: Cell) -> str:
    """Return what a cell requests that exists only for programs of one phase; empty if there is nothing."""
    if cell.warm is not None:
        return "warm runs need a program of one phase"
    return "memory transactions are counted for programs of one phase" if cell.memory != "off" else ""


def device_refusal(device: Device) -> str:
    """Return why the device is unavailable; empty if it is available.

    Call it in the cell's own process, since it opens the driver.
    """
    from harness.device.driver import cuda_unavailable

    return cuda_unavailable(device.index) if device.kind == "cuda" else ""


def profiler_refusal(cell: Cell) -> str:
    """Return why the requested counters cannot be read; empty if they can, or are not requested."""
    from harness.transactions.profiler import ProfilerError, find_profiler

    if cell.memory != "counters":
        return ""
    try:
        find_profiler()
    except ProfilerError as error:
        return str(error)
    return ""


def memory_refusal(
    answer: Yes, device: Device, memory_bytes: int, device_bytes: int | None = None, *, absent: bool = False
) -> str:
    """Return why the memory that an engine needs does not fit the device or the cell's limit; empty if it does.

    ``device_bytes``: the limit on a GPU; None: all of its memory. ``absent``: the GPU is not in this machine, so that
    only the limits are known.
    """
    needed, host = answer.bytes_needed, answer.host_bytes
    if device.kind == "cuda":
        from harness.device.driver import describe

        has = math.inf if absent else describe(device.index).memory
        if device_bytes is not None and device_bytes < min(needed, has):
            reason = f"the engine needs {needed:,} bytes on the GPU, and the limit is {device_bytes:,}"
            return f"{reason}; raise limits.device_memory_gb or take a smaller graph"
        if needed > has:
            return f"the engine needs {needed:,} bytes, and the GPU has {has:,}; take a smaller graph or fewer features"
        if host <= memory_bytes:
            return ""
        reason = f"the engine needs {host:,} bytes of page-locked host memory, and the limit is {memory_bytes:,}"
        return f"{reason}; raise limits.memory_gb or take a smaller graph"
    if needed + host <= memory_bytes:
        return ""
    reason = f"the engine needs {needed + host:,} bytes, and the limit is {memory_bytes:,}"
    return f"{reason}; raise limits.memory_gb or take a smaller graph"


# Names of the error in CUDA's runtime, driver and libraries, in the messages of any library that passes it on.
_OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "_STATUS_ALLOC_FAILED", "CUDA out of memory")


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on the host or on a device."""
    return isinstance(error, MemoryError) or any(name in message_of(error) for name in _OUT_OF_MEMORY)

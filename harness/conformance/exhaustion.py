"""A separate process in which an engine gets less memory than it needs: ``... exhaustion REQUEST``."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.conformance.matrix import Question
from harness.conformance.subject import Subject, Unsupported, expected
from harness.conformance.workload import workload
from harness.contract import Device, Phases
from harness.language.validation import compare
from harness.plugins import load_plugins

# A vertex property of 32 features takes 26 MB; the margin is for Python's own allocations until the error is raised.
SMALL, LARGE = (200, 600), (200_000, 400_000)
MARGIN = 8_000_000
SUPERSTEPS = 2
# On a GPU the limit is that of CuPy's pool and is set by the parent, for the whole process.
LIMIT_OF_CUPY = {"CUPY_GPU_MEMORY_LIMIT": "60000000"}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Run an engine out of memory; return a description and whether the behaviour is right."""
    subject = Subject(load_plugins().engine(request["name"]), request["options"], Device(request["device"]))
    try:
        small, large = (workload(subject, *size) for size in (SMALL, LARGE))
    except Unsupported as reason:
        return {"ok": True, "met": f"not tried: {reason}"}
    is_right(subject, small)  # also compiles and starts threads, which the memory limit must not affect
    compile_for(subject, large)
    engine = subject.new()
    engine.supports(large.program, large.graph, large.features, subject.device)
    met = "the run needed no more than the available memory"
    try:
        with less_memory(subject.device):
            engine.prepare(large.program, large.graph, large.features, subject.device, Phases())
            engine.reset(large.inputs)
            engine.run(SUPERSTEPS)
            for name in large.program.outputs:
                engine.values(name)
    except MemoryError as error:
        met = type(error).__name__
    except Exception as error:  # noqa: BLE001  the suite reports any other exception
        return {"ok": False, "met": f"{type(error).__name__} instead of MemoryError: {error}"}
    engine.close()
    right = is_right(subject, small)
    return {"ok": right, "met": f"{met}, and the next run is {'right' if right else 'wrong'}"}


def compile_for(subject: Subject, problem: Question) -> None:
    """Prepare an engine and close it: a schedule may take other kernels on larger graphs, and a compiler that runs out
    of memory ends the process."""
    if subject.device.kind != "cpu":
        return
    engine = subject.new()
    engine.prepare(problem.program, problem.graph, problem.features, subject.device, Phases())
    engine.close()
    del engine
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # return what is free, so that the limit counts it


def is_right(subject: Subject, problem: Question) -> bool:
    """Return whether a run of the same program, number of features and types as the large one is right."""
    stepwise = subject.stepwise(problem.program, problem.graph, problem.features)
    supersteps = SUPERSTEPS if stepwise else problem.program.max_supersteps
    case = problem.program, problem.graph, problem.features, problem.inputs, supersteps
    return compare(problem.program, subject.answer(*case), expected(*case)).ok


@contextlib.contextmanager
def less_memory(device: Device) -> Iterator[None]:
    """Limit the memory to slightly more than the process has; see LIMIT_OF_CUPY."""
    if device.kind != "cpu":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + MARGIN, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def data_bytes() -> int:
    """Return the process's current memory as counted by RLIMIT_DATA, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no line VmData; the limit needs Linux")


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))  # noqa: T201

"""Processor time of cold compilations by Numba and by a C++ compiler."""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.cache import CACHE_VARIABLE
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.module_source import compiled as compiled_by_numba
from tests.benchmarks.one_renderer.superstep import Superstep, compiled


def numba_seconds(warm_up: Kernel, kernels: Sequence[Kernel], folder: str) -> list[float]:
    """Return the processor seconds in which Numba compiles each kernel, after another one. The cache is empty."""
    os.environ[CACHE_VARIABLE] = folder
    compiled_by_numba(warm_up)
    seconds = []
    for kernel in kernels:
        start = time.process_time()
        compiled_by_numba(kernel)
        seconds.append(time.process_time() - start)
    return seconds


def cpp_seconds(source: str, compiler: list[str]) -> float:
    """Return the processor seconds of the C++ compiler for a kernel. The caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        compiled(source, Path(folder), compiler, caches)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compile_times(
    warm_up: Kernel, supersteps: Sequence[Superstep], compiler: list[str], count: int = 3
) -> list[tuple[float, float]]:
    """Return the median processor seconds of a cold compilation of each kernel by Numba and by the C++ compiler.

    Every repetition of Numba is a process of its own, which has compiled ``warm_up`` before.
    """
    kernels = [next(k for k in one.executor.plan.kernels if k.name == one.name) for one in supersteps]
    numba, cpp = [], []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
            numba.append(pool.apply(numba_seconds, (warm_up, kernels, folder)))
        cpp.append([cpp_seconds(one.rendered.source, compiler) for one in supersteps])
    medians = ([statistics.median(column) for column in zip(*table, strict=True)] for table in (numba, cpp))
    return list(zip(*medians, strict=True))

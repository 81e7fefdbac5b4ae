"""Figures of a CUDA device that ``order=auto`` estimates with, and the rates of figure 9: measured in about 0.2 s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from engines.lonestar.cpu_probe import SORTED, sorting
from harness.api.cuda import architecture, compiled, open_device
from harness.api.figures import fastest_on

SOURCE = Path(__file__).with_name("probe.cu")
KERNELS = ("updates", "free_locks", "same_atomics", "same_locks", "barriers", "copied")
SHORT, LONG, ROWS = 32, 256, 4096  # features of the two chains of updates; rows in the second-level cache
UPDATES, LOCKS, ATOMICS, BARRIERS = 1 << 12, 1 << 12, 1 << 9, 200  # in a sample
MEMORY = 1 << 28  # bytes of each of two arrays
THREADS, SAMPLES = 256, 3
WARPS = 32  # of a multiprocessor at work on updates: half of those that it holds, as rows take registers


def cuda_figures(index: int) -> dict[str, float]:
    """Measure a device. The figures are those of :func:`.cpu_probe.cpu_figures`.

    ``step``, ``feature``, ``lock``: of one lane group, each after the one before, in the second-level cache, whose
    bytes are ``cache``. ``barrier``: of a block on each multiprocessor. ``parallel``: lane groups at work. ``sort``: of
    the host, which orders the edges. Raises DeviceUnavailable, CompilationFailed, MemoryError.
    """
    code = compiled(SOURCE.read_text(encoding="utf-8"), {}, architecture(index)).code
    device = open_device(index)
    import cupy

    module = cupy.cuda.function.Module()
    module.load(code)
    kernels = {name: module.get_function(name) for name in KERNELS}
    multiprocessors = int(device.attributes["MultiProcessorCount"])
    with cupy.cuda.using_allocator(None), cupy.cuda.Stream(non_blocking=True) as stream:

        def seconds(work: Callable[[], object]) -> float:
            return fastest_on(stream, work, SAMPLES)

        def update(features: int) -> float:
            rows = cupy.full(ROWS * features, 0.05, np.float32)
            arguments = (rows, np.int32(features), np.int32(ROWS), np.int32(UPDATES))
            return seconds(lambda: kernels["updates"]((1,), (32,), arguments)) / UPDATES

        short, long = update(SHORT), update(LONG)
        feature = max(0.0, (long - short) / (LONG - SHORT))
        locks = cupy.zeros(1 << 16, np.uint32)
        free = (locks, np.int32(locks.size), np.int32(LOCKS))
        lock = seconds(lambda: kernels["free_locks"]((1,), (1,), free)) / LOCKS
        words = cupy.zeros(64, np.uint32)
        grid, block = (multiprocessors,), (THREADS,)
        adding = (words, words[32:], np.int32(ATOMICS))
        adds = multiprocessors * THREADS * ATOMICS / seconds(lambda: kernels["same_atomics"](grid, block, adding))
        taken, one = cupy.zeros(1, np.uint64), cupy.zeros(1, np.uint32)
        contended = seconds(lambda: kernels["same_locks"](grid, block, (one, taken, np.int32(ATOMICS))))
        locked = int(taken.get()[0]) / (1 + SAMPLES) / contended

        def wait() -> None:
            words.fill(0)
            kernels["barriers"](grid, block, (words, np.int32(BARRIERS)), enable_cooperative_groups=True)

        barrier = seconds(wait) / BARRIERS
        size = min(MEMORY, int(device.mem_info[1]) // 16)
        source, target = cupy.zeros(size // 4, np.float32), cupy.zeros(size // 4, np.float32)
        many = (8 * multiprocessors,)
        bandwidth = 2 * size / seconds(lambda: kernels["copied"](many, block, (source, target, np.int64(size // 16))))
    numbers = np.random.default_rng(0).integers(0, 1 << 30, SORTED)
    return {
        "step": max(short - SHORT * feature, 1e-10), "feature": feature, "lock": lock, "barrier": barrier,
        "bandwidth": bandwidth, "cache": float(device.attributes["L2CacheSize"]),
        "near_cache": float(device.attributes["L2CacheSize"]),  # rows are read past the caches of multiprocessors
        "sort": sorting(numbers) / SORTED, "same_atomics": adds, "same_locks": locked,
        "parallel": float(WARPS * multiprocessors),
    }  # fmt: skip

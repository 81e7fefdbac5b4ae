"""Figures of a CUDA device by which a push and a pull are estimated: seconds of an edge, measured in about 0.5 s."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engines.onyx.direction_costs import FLOAT, LONG, SHORT, WORKS
from harness.api.cuda import architecture, compiled, open_device
from harness.api.figures import fastest_on

SOURCE = Path(__file__).with_name("probe.cu")
KERNELS = (*(f"{work}_{features}" for work in WORKS for features in (SHORT, LONG)), "copied", "nothing")
NEAR, FAR = (1 << 17, 1 << 21), (1 << 22, 1 << 24)  # vertices and edges; LONG floats for each take 8 and 256 MiB
DEGREE = 16  # of probe.cu: edges of an owner, or of a source
SKEW = 3  # ends are the numbers of vertices to this power, as on the CPU
LARGEST = 1e6  # values, from which each pass sends lower ones
THREADS, BLOCKS = 256, 8  # of a block; for each multiprocessor
LAUNCHES, SAMPLES = 200, 3


def sizes(memory: int) -> dict[str, tuple[int, int]]:
    """Return vertices and edges by place, for a device with ``memory`` bytes. Every owner has a row of its own."""
    vertices = min(FAR[0], max(NEAR[0], memory // (32 * FLOAT * LONG)))
    return {"near": NEAR, "far": (vertices, min(FAR[1], DEGREE * vertices))}


def cuda_figures(index: int) -> dict[str, float]:
    """Measure a device: the figures of :class:`engines.onyx.direction_costs.Costs`, for the whole device.

    ``cache`` are the bytes of the second-level cache. On a device with less than 8 GB of free memory fewer far rows are
    measured. Raises DeviceUnavailable, CompilationFailed, MemoryError.
    """
    code = compiled(SOURCE.read_text(encoding="utf-8"), {}, architecture(index)).code
    device = open_device(index)
    import cupy

    module = cupy.cuda.function.Module()
    module.load(code)
    kernels = {name: module.get_function(name) for name in KERNELS}
    grid = (BLOCKS * int(device.attributes["MultiProcessorCount"]),)
    found = {"cache": float(device.attributes["L2CacheSize"])}
    random, passes = np.random.default_rng(0), itertools.count()

    def launch(kernel: Any, arguments: tuple[Any, ...]) -> None:
        kernel(grid, (THREADS,), (*arguments, np.float32(2 * next(passes))))

    with cupy.cuda.using_allocator(None), cupy.cuda.Stream(non_blocking=True) as stream:
        for place, (vertices, edges) in sizes(int(device.mem_info[1])).items():
            names = random.permutation(vertices).astype(np.int32)
            ends = cupy.asarray(names[(vertices * random.random(edges) ** SKEW).astype(np.int64)])
            x = cupy.asarray(random.random(vertices * LONG, np.float32) + np.float32(LARGEST))
            y, flags = cupy.full(vertices * LONG, LARGEST, np.float32), cupy.zeros(vertices, np.uint8)
            stream.synchronize()
            for work in WORKS:
                for features in (SHORT, LONG) if place == "near" else (LONG,):
                    y.fill(LARGEST)
                    launched = partial(launch, kernels[f"{work}_{features}"], (ends, x, y, flags, np.int64(edges)))
                    found[f"{work}_{place}_{features}"] = fastest_on(stream, launched, SAMPLES) / edges
        count = np.int64(vertices * LONG // 4)
        seconds = fastest_on(stream, lambda: kernels["copied"](grid, (THREADS,), (x, y, count)), SAMPLES)
        found["stream"] = 2 * FLOAT * LONG * vertices / seconds
        empty = lambda: [kernels["nothing"]((1,), (32,), ()) for _ in range(LAUNCHES)]  # noqa: E731
        found["launch"] = fastest_on(stream, empty, SAMPLES) / LAUNCHES
    return found

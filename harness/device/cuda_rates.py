"""The maximum rates of a CUDA device: bytes per second by level, atomic additions per second, seconds of a launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from harness.device.compilation import compiled
from harness.device.cuda import architecture, open_device
from harness.device.stream_times import fastest_on

SOURCE = Path(__file__).with_name("rates.cu")
MEMORY = 1 << 29  # bytes of both arrays in memory; of a smaller device, an eighth
# Samples take about a millisecond, so that launches, which they include, take less than a hundredth.
_PASSED = 1 << 32  # bytes that a sample in the second-level cache moves
_PASSES = 8  # over memory
_ADDED = 1 << 29  # additions of a sample
_LAUNCHES = 200  # empty ones, in one CUDA graph
_SAMPLES = 5
_THREADS, _BLOCKS = 256, 8  # of a block; for each multiprocessor
_TEXTURE = 1 << 16  # bytes of a first-level cache beyond the shared memory that it gives to blocks, at most


def cuda_rates(index: int) -> dict[str, Any]:
    """Measure the rates (see ``harness.records.floor.Rates``) of a device: about 0.1 s, after compiling.

    A rate of bytes is that of a copy, read and written, or of reads if these are faster. Each is that of the fastest
    sample: other work only lowers it. The arrays are not taken from CuPy's pool. Raises DeviceUnavailable, MemoryError.
    """
    code = compiled(SOURCE.read_text(encoding="utf-8"), {}, architecture(index)).code
    device = open_device(index)
    import cupy

    module = cupy.cuda.function.Module()
    module.load(code)
    kernels = {name: module.get_function(name) for name in ("read", "copy", "add", "add4", "nothing")}
    attributes = device.attributes
    multiprocessors, cache = int(attributes["MultiProcessorCount"]), int(attributes["L2CacheSize"])
    size = min(MEMORY, int(device.mem_info[1]) // 8) // 2
    first = int(attributes["MaxSharedMemoryPerMultiprocessor"]) + _TEXTURE
    registers = 4 * int(attributes["MaxRegistersPerMultiprocessor"])
    with cupy.cuda.using_allocator(None), cupy.cuda.Stream(non_blocking=True) as stream:
        source, target = cupy.zeros(size // 4, np.float32), cupy.zeros(size // 4, np.float32)

        def launched(name: str, *arguments: Any) -> None:
            kernels[name]((_BLOCKS * multiprocessors,), (_THREADS,), arguments)

        def bytes_rate(part: int, repeats: int) -> float:
            count = np.int64(part // 16)
            copied = fastest_on(stream, lambda: launched("copy", source, target, count, np.int32(repeats)), _SAMPLES)
            read = fastest_on(stream, lambda: launched("read", source, target, count, np.int32(repeats)), _SAMPLES)
            return max(2 * part / copied, part / read) * repeats

        def adds_rate(name: str, width: int) -> float:
            floats = min(cache, size) // 4 // 4
            repeats = max(1, _ADDED // floats)
            seconds = fastest_on(
                stream, lambda: launched(name, target, np.int64(floats // width), np.int32(repeats)), _SAMPLES
            )
            return float(floats * repeats / seconds)

        within = max(1 << 20, min(cache // 4, size))
        remote, near = bytes_rate(size, _PASSES), bytes_rate(within, max(1, _PASSED // within))
        adds, wide = adds_rate("add", 1), adds_rate("add4", 4)
        launch = _launch(kernels["nothing"], stream)
    return {
        "levels": [(0, max(near, remote)), (cache, remote)], "on_chip": multiprocessors * (first + registers),
        "adds": adds, "wide_adds": wide, "launch": launch,
    }  # fmt: skip


def _launch(kernel: Any, stream: Any) -> float:
    """Return the seconds of an empty kernel, one of many in a CUDA graph."""
    stream.begin_capture()
    for _ in range(_LAUNCHES):
        kernel((1,), (32,), ())
    return fastest_on(stream, stream.end_capture().launch, _SAMPLES) / _LAUNCHES

"""The rates of the link between the host and a CUDA device: copies, and reads in place by the bytes of a request."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.device.compilation import compiled
from harness.device.cuda import architecture, open_device
from harness.device.host_memory import PinnedMemory
from harness.device.stream_times import fastest_on

SOURCE = Path(__file__).with_name("link.cu")
NBYTES = 1 << 27  # of host memory that a sample reads: more than the caches of a device have
PART = 1 << 25  # of one copy
LINE, WORD = 128, 4  # bytes
REQUESTS = (32, 64, 96, 128)  # bytes of a request over the link (Min et al. 2020, sec. 3.3)
_SAMPLES = 3
_THREADS, _BLOCKS = 256, 8  # of a block; for each multiprocessor


def link_rates(index: int) -> dict[str, Any]:
    """Measure the link of a device: about 0.1 s, after compiling.

    ``copy``: bytes a second of copies of 32 MB from page-locked memory. ``in_place``: bytes a second that kernels read
    in place in requests of 32, 64, 96 and 128 bytes, each from the start of a line of 128 bytes. Only requested bytes
    count. Each is the rate of the fastest sample: other work only lowers it. ``pinning``: seconds of registering the
    memory. Raises DeviceUnavailable, MemoryError, CompilationFailed.
    """
    code = compiled(SOURCE.read_text(encoding="utf-8"), {}, architecture(index)).code
    device = open_device(index)
    import cupy

    module = cupy.cuda.function.Module()
    module.load(code)
    read = module.get_function("read_in_place")
    began = time.perf_counter()
    source = PinnedMemory(NBYTES)
    pinning = time.perf_counter() - began
    blocks, lines = _BLOCKS * int(device.attributes["MultiProcessorCount"]), NBYTES // LINE
    runtime = cupy.cuda.runtime
    with cupy.cuda.using_allocator(None), cupy.cuda.Stream(non_blocking=True) as stream:
        target = cupy.zeros(PART, np.uint8)
        to = int(target.data.ptr)

        def copy() -> None:
            for first in range(0, NBYTES, PART):
                runtime.memcpyAsync(to, source.pointer + first, PART, runtime.memcpyHostToDevice, stream.ptr)

        def seconds_in_place(nbytes: int) -> float:
            arguments = (np.uint64(source.pointer), np.int64(lines), np.uint32(nbytes // WORD), np.uint64(to))
            return fastest_on(stream, lambda: read((blocks,), (_THREADS,), arguments), _SAMPLES)

        copied = NBYTES / fastest_on(stream, copy, _SAMPLES)
        in_place = {str(nbytes): nbytes * lines / seconds_in_place(nbytes) for nbytes in REQUESTS}
    return {"copy": copied, "in_place": in_place, "pinning": pinning}

"""Which of a process's kernels a profiler counts, and what parts one counted run from the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_run(boundary: str) -> Iterator[None]:
    """Have a profiler that was started with ``--profile-from-start off`` count the kernels in here, and then an empty
    kernel of the name ``boundary``."""
    import cupy

    empty = cupy.RawKernel(f'extern "C" __global__ void {boundary}() {{}}', boundary)
    empty.compile()
    cupy.cuda.Device().synchronize()
    cupy.cuda.profiler.start()
    try:
        yield
        empty((1,), (1,), ())
        cupy.cuda.Device().synchronize()
    finally:
        cupy.cuda.profiler.stop()

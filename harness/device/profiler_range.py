"""Select the kernels that a profiler counts, and mark the end of each counted run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_run(boundary: str) -> Iterator[None]:
    """Profile the kernels launched in the block, followed by an empty kernel called ``boundary``.

    The profiler must have been started with ``--profile-from-start off``.
    """
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

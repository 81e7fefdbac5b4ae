"""Compile the kernels of a plan in several processes, since Numba compiles one function of a process at a time.

Forked processes leave the machine code in the cache of :mod:`harness.lowering.cpu.modules`, from which this process
loads it. What a process fails to compile, this one compiles, and raises the error.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.module_source import compiled, without_machine_code


def compile_beside(kernels: Sequence[Kernel], processes: int) -> None:
    """Compile kernels that are not in the cache, in at most ``processes`` processes at the same time.

    Does nothing for a single kernel, and if Numba keeps machine code elsewhere (``NUMBA_CACHE_DIR``). Does nothing in a
    process with several threads, for example of OpenMP after kernels have run: a forked process may wait for them for
    ever.
    """
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    if processes < 2 or elsewhere or not _single_threaded():
        return
    missing = without_machine_code(kernels)
    if len(missing) < 2:
        return
    shares = in_shares(missing, min(processes, len(missing)))
    children: list[int] = []
    try:
        with contextlib.suppress(OSError):  # no further process may be started
            for share in shares[1:]:
                children.append(_compiling(share))
        for kernel in shares[0]:
            compiled(kernel)
    finally:
        for child in children:
            os.waitpid(child, 0)


def _single_threaded() -> bool:
    """Return whether this process has one thread, those of libraries included; False if it is not known."""
    tasks = Path("/proc/self/task")
    return tasks.is_dir() and len(list(tasks.iterdir())) == 1


def in_shares(kernels: Sequence[Kernel], count: int) -> list[list[Kernel]]:
    """Distribute kernels over ``count`` shares of similar length of source, the longest kernels first."""
    shares: list[list[Kernel]] = [[] for _ in range(count)]
    lengths = [0] * count
    for kernel in sorted(kernels, key=lambda one: len(one.source), reverse=True):
        least = lengths.index(min(lengths))
        shares[least].append(kernel)
        lengths[least] += len(kernel.source)
    return shares


def _compiling(kernels: Sequence[Kernel]) -> int:
    """Return the number of a new process that compiles kernels."""
    process = os.fork()
    if process:
        return process
    try:
        with contextlib.suppress(BaseException):  # the other process meets the same error and raises it
            for kernel in kernels:
                compiled(kernel)
    finally:
        os._exit(0)

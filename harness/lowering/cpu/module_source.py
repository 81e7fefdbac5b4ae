"""Generate the source of modules from kernels, and compile it to functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.lowering.cpu.canonical import canonical
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.modules import load_module, module_name, with_machine_code

HEADER = '''"""Generated: {title}."""

import numpy as np
from numba import boolean, float32, float64, int32, int64, njit, types, uint32, uint64

from harness.lowering.cpu.batches import batch_room, batched, next_batch
from harness.lowering.cpu.flags import (
    clear_flagged, flagged_in, lowest_bit, next_block, place_of, raise_flag, take_flags,
)
from harness.lowering.cpu.locks import give_way, publish, published, try_lock, unlock
from harness.lowering.cpu.parallel_for import launch, launch_dynamic
from harness.lowering.cpu.rows import (
    absolute, at, atomic_max, atomic_min, dot, exp, extract, floor, fma, insert, log, maximum, minimum, not_unrolled,
    prefetch, prefetch_row, reduce_all, reduce_any, reduce_max, reduce_min, reduce_sum, row_ops, sqrt, store, where,
)
from harness.lowering.cpu.small_matrix import matrix_ops

READ_ONLY_INT64 = types.Array(int64, 1, "C", readonly=True)
READ_ONLY_UINT32 = types.Array(uint32, 1, "C", readonly=True)
READ_ONLY_UINT64 = types.Array(uint64, 1, "C", readonly=True)
'''
_TITLE, _STEM = "a kernel", "kernel"
MAKERS = {"row_ops": ("load", "zero", "splat", "unit"), "matrix_ops": ("solve_spd", "inverse")}


def without_machine_code(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels that this process has to compile, since neither it nor another has done so; each once."""
    present = with_machine_code()
    named = {module_name(_module_of(kernel)[0], _STEM): kernel for kernel in kernels}
    return [kernel for name, kernel in named.items() if name not in present]


def compiled(kernel: Kernel) -> Callable[..., int]:
    """Return the function that runs a kernel.

    The kernel has a module of its own with :func:`canonical` names, so that programs, schedules and numbers of features
    that need the same kernel compile it once. The function takes the number of parts, the number of threads and the
    kernel's arguments; it returns the number of parts that failed.
    """
    source, names = _module_of(kernel)
    module = load_module(source, _STEM)
    function: Callable[..., int] = getattr(module, names[f"run_{kernel.name}"])
    return function


def _module_of(kernel: Kernel) -> tuple[str, Mapping[str, str]]:
    """Return the source of the module of one kernel, and the new names of what it names itself."""
    source, names = canonical(kernel.source)
    return _module(_TITLE, [source], kernel.made), names


def module_source(title: str, kernels: Sequence[Kernel]) -> str:
    """Return the source of a module of several kernels."""
    return _module(title, [kernel.source for kernel in kernels], (one for kernel in kernels for one in kernel.made))


def _module(title: str, sources: Sequence[str], made: Iterable[tuple[str, int]]) -> str:
    header, wanted = HEADER.format(title=title), sorted(set(made), key=lambda one: (one[1], one[0]))
    for maker, names in MAKERS.items():
        header += "".join(f"_{name}{size} = {maker}({size}).{name}\n" for name, size in wanted if name in names)
    return header + "\n\n" + "\n\n".join(sources)

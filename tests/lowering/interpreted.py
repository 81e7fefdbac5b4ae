"""Generated kernels of the CPU, run as Python: rows are NumPy arrays, and every access has to be within its array.

Nothing is compiled, so that many programs and schedules can be run on small graphs. Scalars and rows of floats are
float32 as in machine code; integers are Python's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.lowering.cpu import executor, movement

BLOCK, BATCH = 64, 64


class Kind:
    """A type of Numba: part of a signature, or a conversion."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.convert = convert

    def __call__(self, *given: Any) -> Any:
        return None if not given or isinstance(given[0], Kind) else self.convert(given[0])

    def __getitem__(self, _: object) -> Kind:
        return self


def njit(*_: object, **__: object) -> Callable[[Any], Any]:
    """Return a decorator that leaves a function as it is."""
    return lambda function: function


def within(array: Any, start: int, count: int = 1) -> slice:
    """Return a slice; fail if it is not within the array."""
    inside = 0 <= start <= len(array) - count
    assert inside, f"{start} .. {start + count} of {len(array)}"
    return slice(int(start), int(start) + count)


def at(array: Any, index: int) -> Any:
    """Return an element; Python's int or bool, or float32."""
    value = array[within(array, index)][0]
    return value if array.dtype == np.float32 else value.item()


def load(size: int) -> Callable[..., Any]:
    """Return the function that loads a row of ``size``."""
    return lambda array, start: array[within(array, start, size)].copy()


def store(array: Any, start: int, row: Any) -> None:
    """Write a row of the array's own kind."""
    assert np.asarray(row).dtype == array.dtype, (array.dtype, row)
    array[within(array, start, len(row))] = row


def unit(size: int, lane: int) -> Any:
    """Return a row with 1 in a lane."""
    return (np.arange(size) == lane).astype(np.float32)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Compute a * b + c with one rounding."""
    found = np.float64(a) * np.float64(b) + np.float64(c)
    return found.astype(np.float32)


def where(mask: Any, a: Any, b: Any) -> Any:
    """Select lanes, or a whole row."""
    return np.where(mask, a, b).astype(np.float32)


def extract(row: Any, lane: int) -> Any:
    """Return a lane."""
    return row[within(row, lane)][0]


def insert(row: Any, lane: int, scalar: Any) -> Any:
    """Return a row with another scalar in a lane."""
    found = row.copy()
    found[within(row, lane)] = scalar
    return found


def extreme(function: Callable[[Any, Any], Any]) -> Callable[..., None]:
    """Return the update of an element, or of as many as a row has."""

    def update(array: Any, start: int, value: Any) -> None:
        chosen = within(array, start, np.size(value))
        array[chosen] = function(array[chosen], value)

    return update


def matrix_at(array: Any, start: int, stride: int, size: int) -> Any:
    """Return a view of a matrix."""
    assert stride >= size
    within(array, start, (size - 1) * stride + size)
    return np.lib.stride_tricks.as_strided(array[int(start) :], (size, size), (4 * stride, 4))


def solve_spd(size: int) -> Callable[..., None]:
    """Return the solution of a system whose matrix is read above its diagonal only; the matrix is lost."""

    def solve(array: Any, start: int, stride: int, right: Any, first: int) -> None:
        view = matrix_at(array, start, stride, size)
        upper = np.triu(view).astype(np.float64)
        solved = np.linalg.solve(upper + np.triu(upper, 1).T, right[within(right, first, size)].astype(np.float64))
        view[:] = np.nan
        right[within(right, first, size)] = solved

    return solve


def inverse(size: int) -> Callable[..., None]:
    """Return the inversion of a matrix in its place."""

    def invert(array: Any, start: int, stride: int) -> None:
        view = matrix_at(array, start, stride, size)
        view[:] = np.linalg.inv(view.astype(np.float64))

    return invert


# flags ----------------------------------------------------------------------------------------------------------------
def raise_flag(flags: Any, blocks: Any, v: int) -> None:
    """Set a flag on both levels."""
    flags[within(flags, v)] = True
    blocks[within(blocks, int(v) // BLOCK)] = True


def next_block(blocks: Any, block: int, last: int) -> int:
    """Return the first block that may have a flag."""
    while block < last and not blocks[block]:
        block += 1
    return int(block)


def flagged_in(flags: Any, block: int, first: int, last: int) -> Any:
    """Return the flags of a block as bits."""
    inside = range(max(block * BLOCK, first), min((block + 1) * BLOCK, last))
    return np.uint64(sum(1 << (v % BLOCK) for v in inside if flags[v]))


def clear_flagged(flags: Any, blocks: Any, first: int, last: int) -> None:
    """Clear the flags of vertices."""
    flags[first:last] = False
    blocks[-(-first // BLOCK) : last // BLOCK] = False


def take_flags(flags: Any, blocks: Any, block: int, first: int, last: int) -> Any:
    """Return the flags of a block as bits, and clear them."""
    found = flagged_in(flags, block, first, last)
    clear_flagged(flags, blocks, max(block * BLOCK, first), min((block + 1) * BLOCK, last))
    return found


def next_batch(flags: Any, blocks: Any, batch: list[int], head: int, stop: int, take: bool) -> tuple[int, int, bool]:
    """Fill a batch with the flagged vertices of whole blocks; all batches prefetch."""
    batch.clear()
    block = head // BLOCK
    while len(batch) < BATCH and block * BLOCK < stop:
        bits = int(take_flags(flags, blocks, block, head, stop) if take else flagged_in(flags, block, head, stop))
        batch += [block * BLOCK + bit for bit in range(BLOCK) if bits >> bit & 1]
        block += 1
    return len(batch), min(block * BLOCK, stop), True


# kernels --------------------------------------------------------------------------------------------------------------
def launch(part: Callable[..., None], parts: int, threads: int, arguments: tuple[Any, ...]) -> int:
    """Run all parts, the last one first: none of them may depend on another."""
    for t in reversed(range(parts)):
        part(t, t * threads // parts, *arguments)
    return 0


INTEGER, FLOAT = Kind(int), Kind(np.float32)
ANY = SimpleNamespace(Array=lambda *_, **__: INTEGER)
MADE = {
    "load": load, "zero": lambda size: lambda: np.zeros(size, np.float32),
    "splat": lambda size: lambda value: np.full(size, value, np.float32),
    "unit": lambda size: lambda lane: unit(size, lane), "solve_spd": solve_spd, "inverse": inverse,
}  # fmt: skip
NAMES = {
    "np": np, "math": math, "njit": njit, "int64": INTEGER, "int32": INTEGER, "uint32": INTEGER, "uint64": INTEGER,
    "float32": FLOAT, "float64": Kind(np.float64), "boolean": Kind(bool), "types": ANY, "at": at, "store": store,
    **dict.fromkeys(("READ_ONLY_INT64", "READ_ONLY_UINT32", "READ_ONLY_UINT64"), INTEGER),
    **dict.fromkeys(("prefetch", "prefetch_row", "not_unrolled"), lambda *_: None),
    "fma": fma, "where": where, "extract": extract, "insert": insert, "minimum": np.minimum, "maximum": np.maximum,
    "absolute": np.abs, "sqrt": np.sqrt, "floor": np.floor, "exp": np.exp, "log": np.log, "dot": np.dot,
    "reduce_sum": np.sum, "reduce_min": np.min, "reduce_max": np.max, "reduce_any": np.any, "reduce_all": np.all,
    "atomic_max": extreme(np.maximum), "atomic_min": extreme(np.minimum),
    "place_of": lambda array: array, "lowest_bit": lambda word: (int(word) & -int(word)).bit_length() - 1,
    "raise_flag": raise_flag, "next_block": next_block, "flagged_in": flagged_in, "take_flags": take_flags,
    "clear_flagged": clear_flagged, "batch_room": list, "next_batch": next_batch,
    "batched": lambda batch, i: batch[i], "launch": launch, "launch_dynamic": launch,
}  # fmt: skip


def interpreted(kernel: Any) -> Callable[..., int]:
    """Return the function that runs a kernel, as ``compiled`` does."""
    made = {f"_{name}{size}": MADE[name](size) for name, size in kernel.made}
    names = {**NAMES, **made}
    exec(compile(kernel.source, kernel.name, "exec"), names)

    def run(*given: Any) -> int:
        with np.errstate(all="ignore"):
            failed: int = names[f"run_{kernel.name}"](*given)
        return failed

    return run


def interpret(monkeypatch: Any) -> None:
    """Make executors run kernels as Python for a test."""
    for module in (executor, movement):
        monkeypatch.setattr(module, "compiled", interpreted)
    monkeypatch.setattr(executor, "compile_beside", lambda *_: None)

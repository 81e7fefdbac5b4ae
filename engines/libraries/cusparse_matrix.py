"""Products of a CSR matrix and dense features with cuSPARSE's generic routines, in every way that cuSPARSE offers.

The fastest way depends on the matrix and on the number of features, by up to a factor of three. :class:`Choices` times
all ways on the given matrix and keeps the fastest.

Importing this module loads cuSPARSE, which may be missing on a machine without a GPU.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

import cupy
import numpy as np
from cupy.cuda import cusparse
from cupy.cuda.device import get_cusparse_handle

from engines.libraries.cusparse_ways import Order, Way, all_ways, medians, queued_calls
from harness.api import Unsupported

Array: TypeAlias = Any  # cupy.ndarray
T = TypeVar("T", bound=Hashable)

# Constants of cusparse.h and library_types.h that CuPy does not define.
_FLOAT32 = 0  # CUDA_R_32F
_ORDERS: dict[Order, int] = {"column": 1, "row": 2}  # CUSPARSE_ORDER_COL, CUSPARSE_ORDER_ROW
_MATRIX_ALGORITHMS = {1: 4, 2: 6, 3: 12}  # CUSPARSE_SPMM_CSR_ALG1, 2, 3
_VECTOR_ALGORITHMS = {1: 2, 2: 3}  # CUSPARSE_SPMV_CSR_ALG1, 2
_PLAIN = cusparse.CUSPARSE_OPERATION_NON_TRANSPOSE
_ONE, _ZERO = np.array(1.0, np.float32), np.array(0.0, np.float32)


class PreprocessUnavailable(RuntimeError):
    """cuSPARSE does not have the routine, or refused to analyse the matrix."""


class WrongProduct(RuntimeError):
    """A way of cuSPARSE does not give the product."""


UNSUPPORTED = (cusparse.CuSparseError, PreprocessUnavailable, WrongProduct, cupy.cuda.memory.OutOfMemoryError)
# Below this number of entries only the plainest ways are tried. Such products take no longer than their launch, and
# cuSPARSE of CUDA 13.0 accessed invalid addresses in one of the other ways for a graph of one vertex (H100).
FEW_ENTRIES = 1 << 14
REFERENCE = Way("SpMM", 2)  # the products of the other ways are compared with its products


# The rows of the operand that a way needs set to 0 during the product, among those that no entry multiplies.
Guard: TypeAlias = Literal["none", "first", "all"]


@dataclass
class _Ready:
    """The state that cuSPARSE keeps for one way and width: a matrix descriptor and a workspace."""

    matrix: int
    buffer: Array


class CsrMatrix:
    """A CSR matrix on the device, float32 ``[rows, columns]``.

    ``columns`` and ``offsets`` are int32 or int64 arrays on the device. The dense operand may contain non-finite values
    in rows that no entry multiplies.
    """

    def __init__(
        self, values: Array, columns: Array, offsets: Array, shape: tuple[int, int], choices: Choices | None = None
    ) -> None:
        self.shape, self.choices = shape, choices or Choices()
        self.parts = (cupy.ascontiguousarray(values, np.float32), columns, offsets)  # the descriptors point to them
        self._ready: dict[tuple[Way, int], _Ready] = {}
        self._descriptors: list[int] = []

    @property
    def entries(self) -> int:
        """The number of stored entries."""
        return len(self.parts[0])

    @property
    def columns(self) -> Array:
        """The column of every entry."""
        return self.parts[1]

    @functools.cached_property
    def unused(self) -> Array:
        """The columns without entries, sorted."""
        used = cupy.zeros(self.shape[1], np.bool_)
        used[self.parts[1]] = True
        return cupy.flatnonzero(~used)

    def __matmul__(self, dense: Array) -> Array:
        """Multiply by ``dense [columns, n]``, float32, stored by rows; return ``[rows, n]``, stored by rows.

        The product uses the fastest way.
        """
        n = dense.shape[1]
        if not self.entries or not n:
            return cupy.zeros((self.shape[0], n), np.float32)
        choice = self.choices.of(self, n)
        return self.product(dense, choice.way, choice.guards[choice.way])

    def ready(self, n: int) -> None:
        """Choose the way for ``n`` features and run cuSPARSE's preparation for it, before the first product."""
        if self.entries and n:
            way = self.choices.of(self, n).way
            self._prepared(way, cupy.zeros((self.shape[1], n), np.float32), cupy.zeros((self.shape[0], n), np.float32))

    def product(self, dense: Array, way: Way, guard: Guard = "none", before: float | None = None) -> Array:
        """Return the product in a given way, from and to arrays stored by rows; other orders are converted.

        ``before``: what the memory of the result holds beforehand; None: anything.
        """
        dense = cupy.asfortranarray(dense) if way.order == "column" else cupy.ascontiguousarray(dense)
        result = cupy.empty((self.shape[0], dense.shape[1]), np.float32, order="F" if way.order == "column" else "C")
        if before is not None:
            result[...] = before
        if guard == "all":
            dense = dense.copy(order="A")
            dense[self.unused] = 0.0
        first = dense[0].copy() if guard == "first" else None
        if first is not None:
            dense[0] = 0.0
        self.multiply(dense, result, way)
        if first is not None:
            dense[0] = first
        return cupy.ascontiguousarray(result)

    def multiply(self, dense: Array, result: Array, way: Way) -> None:
        """Queue ``result = A @ dense`` without conversions: both are stored in the order of the way.

        Raises CUSparseError if cuSPARSE does not support the way.
        """
        ready = self._prepared(way, dense, result)
        with _Operands(way, dense, result) as (b, c):
            self._call(way, "", ready.matrix, b, c, ready.buffer)

    def _prepared(self, way: Way, dense: Array, result: Array) -> _Ready:
        """Return the descriptor and the workspace for a way; they are created at its first use."""
        key = (way, dense.shape[1])
        if key not in self._ready:
            descriptor = self._descriptor()
            with _Operands(way, dense, result) as (b, c):
                buffer = cupy.zeros(self._call(way, "_bufferSize", descriptor, b, c), np.int8)
                if way.preprocess:
                    self._call(way, "_preprocess", descriptor, b, c, buffer)
            self._ready[key] = _Ready(descriptor, buffer)
        return self._ready[key]

    def _descriptor(self) -> int:
        values, columns, offsets = self.parts
        index = cusparse.CUSPARSE_INDEX_32I if columns.dtype == np.int32 else cusparse.CUSPARSE_INDEX_64I
        pointers = (part.data.ptr for part in (offsets, columns, values))
        base = cusparse.CUSPARSE_INDEX_BASE_ZERO
        self._descriptors.append(cusparse.createCsr(*self.shape, self.entries, *pointers, index, index, base, _FLOAT32))
        return self._descriptors[-1]

    def _call(self, way: Way, suffix: str, matrix: int, b: int, c: int, buffer: Array | None = None) -> int:
        """Call one of cuSPARSE's functions for a product; return the workspace size if the call queries it."""
        of_vectors = way.routine == "SpMV"
        algorithm = (_VECTOR_ALGORITHMS if of_vectors else _MATRIX_ALGORITHMS)[way.algorithm]
        operations = (_PLAIN,) if of_vectors else (_PLAIN, _PLAIN)
        alpha, beta = _ONE.ctypes.data, _ZERO.ctypes.data
        arguments = (get_cusparse_handle(), *operations, alpha, matrix, b, beta, c, _FLOAT32, algorithm)
        if suffix == "_preprocess":
            assert buffer is not None
            _preprocess(way.routine, arguments, buffer.data.ptr)
            return 0
        call = getattr(cusparse, f"sp{way.routine[2:]}{suffix}")
        return int(call(*arguments) if buffer is None else call(*arguments, buffer.data.ptr) or 0)

    def __del__(self) -> None:
        for descriptor in self.__dict__.get("_descriptors", ()):
            cusparse.destroySpMat(descriptor)


class _Operands:
    """cuSPARSE's descriptors of the dense operand and the result."""

    def __init__(self, way: Way, dense: Array, result: Array) -> None:
        self.of_vectors = way.routine == "SpMV"
        self.made = tuple(self._made(way, array) for array in (dense, result))

    def _made(self, way: Way, array: Array) -> int:
        if self.of_vectors:
            return int(cusparse.createDnVec(array.size, array.data.ptr, _FLOAT32))
        rows, columns = array.shape
        stride = columns if way.order == "row" else rows
        return int(cusparse.createDnMat(rows, columns, stride, array.data.ptr, _FLOAT32, _ORDERS[way.order]))

    def __enter__(self) -> tuple[int, ...]:
        return self.made

    def __exit__(self, *_: object) -> None:
        for one in self.made:
            (cusparse.destroyDnVec if self.of_vectors else cusparse.destroyDnMat)(one)


# the choice -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Choice:
    """The fastest way for a matrix and a number of features, with the milliseconds of every way tried.

    ``refused``: the reason, for ways that cuSPARSE does not support or whose product is wrong. ``guards``: what each
    way needs; its time includes the guard.
    """

    way: Way
    entries: int
    ms: dict[Way, float]
    guards: dict[Way, Guard]
    refused: dict[Way, str] = field(default_factory=dict)

    def __str__(self) -> str:
        tried = ", ".join(f"{way} {ms:.3g} ms" for way, ms in sorted(self.ms.items(), key=lambda pair: pair[1]))
        refused = "".join(f"; {way} refused: {reason}" for way, reason in self.refused.items())
        return f"{self.way} (tried: {tried}{refused})"


@dataclass
class Choices:
    """The choices made, by the structure of a matrix (its array of columns) and the number of features.

    ``allowed``: whether a way may be used with a number of features.
    """

    allowed: Callable[[Way, int], bool] = lambda way, n: True
    made: dict[tuple[int, tuple[int, int], int], Choice] = field(default_factory=dict)
    _structures: dict[int, Array] = field(default_factory=dict)  # kept, so that no other array reuses their addresses

    def of(self, matrix: CsrMatrix, n: int) -> Choice:
        """Return the choice for products of a matrix with ``n`` features; the first call times the ways.

        Raises Unsupported if cuSPARSE supports none of the allowed ways, or not algorithm 2 of SpMM; OutOfMemoryError
        if memory was missing for the latter, or for one of the former and none runs.
        """
        columns = matrix.columns
        key = (int(columns.data.ptr), matrix.shape, n)
        if key not in self.made:
            self._structures[key[0]] = columns
            self.made[key] = self._chosen(matrix, n)
        return self.made[key]

    def forget(self, columns: Array) -> None:
        """Drop the choices for a structure."""
        address = int(columns.data.ptr)
        self._structures.pop(address, None)
        self.made = {key: choice for key, choice in self.made.items() if key[0] != address}

    def clear(self) -> None:
        """Drop all choices and the arrays that they keep."""
        self.made.clear()
        self._structures.clear()

    def _ways(self, matrix: CsrMatrix, n: int) -> list[Way]:
        """Return the ways to try: all allowed ways, or the plain ones among them for a matrix of few entries."""
        ways = [way for way in all_ways(n) if self.allowed(way, n)]
        plain = [way for way in ways if way.order == "row" and not way.preprocess]
        return plain if plain and matrix.entries < FEW_ENTRIES else ways

    def _chosen(self, matrix: CsrMatrix, n: int) -> Choice:
        dense = cupy.random.random((matrix.shape[1], n), dtype=np.float32)
        expected, tolerance = _expected(matrix, dense)
        dense[matrix.unused] = np.nan  # as the rank divided by no out-edges may be
        refused: dict[Way, str] = {}
        guards: dict[Way, Guard] = {}
        memory = None
        for way in self._ways(matrix, n):
            try:
                guards[way] = _guard_of(matrix, dense, way, expected, tolerance)
            except UNSUPPORTED as error:
                refused[way] = str(error)
                if isinstance(error, cupy.cuda.memory.OutOfMemoryError):
                    memory = error.with_traceback(None)  # whose frames would keep the arrays
        del expected, tolerance
        if memory and not guards:
            raise memory
        if not guards:
            reasons = "; ".join(f"{way}: {reason}" for way, reason in refused.items()) or "it has none of them"
            raise Unsupported(f"cuSPARSE supports none of the ways that the schedule allows: {reasons}")
        ms = timed(tuple(guards), lambda way: matrix.product(dense, way, guards[way]))
        return Choice(min(ms, key=ms.__getitem__), matrix.entries, ms, guards, refused)


def _expected(matrix: CsrMatrix, dense: Array) -> tuple[Array, Array]:
    """Return the product with algorithm 2, and by how much a product summed in another order may differ from it.

    ``dense``: at least 0 everywhere. The rounding errors of a row of n entries add up as in a random walk: to about
    sqrt(n) roundings of the sum of absolute values. The tolerance is 16 times as much.

    Raises Unsupported if cuSPARSE does not have algorithm 2.
    """
    values, columns, offsets = matrix.parts
    try:
        expected = matrix.product(dense, REFERENCE)
    except cusparse.CuSparseError as error:
        raise Unsupported(f"{REFERENCE}, with which all ways are compared, is not supported: {error}") from error
    magnitude = expected
    if bool((values < 0).any()):
        magnitude = CsrMatrix(abs(values), columns, offsets, matrix.shape).product(dense, REFERENCE)
    roundings = 16 * np.finfo(np.float32).eps * cupy.sqrt(cupy.diff(offsets).astype(np.float32))
    return expected, roundings[:, None] * magnitude


def _guard_of(matrix: CsrMatrix, dense: Array, way: Way, expected: Array, tolerance: Array) -> Guard:
    """Return the least guard with which a product into memory of NaN is right.

    SpMM algorithms 1 and 3 read the operand's first row in lanes that have no entry, and multiply it by 0.

    Raises WrongProduct if no guard helps. SpMM algorithm 3 with preprocessing leaves rows of the result unwritten if a
    row has thousands of entries, and the empty one of two rows (cuSPARSE of CUDA 13.0, H100 and H200).
    """
    first: tuple[Guard, ...] = ("first",) if len(matrix.unused) and int(matrix.unused[0]) == 0 else ()
    for guard in ("none", *first, "all"):
        wrong = ~(abs(matrix.product(dense, way, guard, before=np.nan) - expected) <= tolerance)
        if not bool(wrong.any()):
            return guard
    rows = cupy.flatnonzero(wrong.any(axis=1))
    raise WrongProduct(f"{len(rows):,} of {len(expected):,} rows of a product are wrong, row {int(rows[0]):,} first")


def timed(ways: Sequence[T], work: Callable[[T], object]) -> dict[T, float]:
    """Return the median milliseconds of ``work`` in every way (:func:`engines.libraries.cusparse_ways.medians`).

    A sample is a queue of several calls, as a run queues its products: the time of a launch on the host counts only
    where the device waits for it. The number of calls follows from the time of a single
    one, before which another one loads kernels and allocates memory.
    """
    before: dict[T, tuple[float, float]] = {}
    for way in ways:
        once = functools.partial(_milliseconds, functools.partial(work, way), 1)
        before[way] = once(), once()
    calls = {way: queued_calls(second) for way, (_, second) in before.items()}
    return medians(ways, lambda way: _milliseconds(functools.partial(work, way), calls[way]), before)


def _milliseconds(work: Callable[[], object], calls: int) -> float:
    """Return the milliseconds of one call, on average over a queue of calls."""
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(calls):
        work()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)) / calls


# what CuPy does not define -----------------------------------------------------------------------------------------
def _preprocess(routine: str, arguments: Iterable[int], buffer: int) -> None:
    """Call ``cusparseSpMM_preprocess`` or ``cusparseSpMV_preprocess``.

    Raises PreprocessUnavailable if the routine is missing or fails.
    """
    function = getattr(_library(), f"cusparse{routine}_preprocess", None)
    if function is None:
        raise PreprocessUnavailable(f"this version of cuSPARSE has no cusparse{routine}_preprocess")
    handle, *rest = arguments
    operations = 1 if routine == "SpMV" else 2
    pointer, number = ctypes.c_void_p, ctypes.c_int
    kinds = [number] * operations + [pointer] * 5 + [number] * 2
    given = [kind(value) for kind, value in zip(kinds, rest, strict=True)]
    status = function(pointer(handle), *given, pointer(buffer))
    if status:
        raise PreprocessUnavailable(f"cusparse{routine}_preprocess failed with status {status}")


@functools.cache
def _library() -> ctypes.CDLL:
    """Return the cuSPARSE library that CuPy has loaded into this process."""
    get_cusparse_handle()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = {line.split(maxsplit=5)[5].strip() for line in maps if "libcusparse.so" in line}
    if len(found) != 1:
        raise PreprocessUnavailable(f"expected one loaded libcusparse.so, found {sorted(found) or 'none'}")
    return ctypes.CDLL(found.pop())

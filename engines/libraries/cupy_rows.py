"""Reductions of CuPy arrays along rows of few entries, and over many rows.

CuPy's own reductions assign a block of threads to each result. A block for each row of a few entries, or a few blocks
for a sum over all rows, takes many times as long as reading the array: a comparison with cuSPARSE would measure these
reductions. Here neighbouring lanes of a warp reduce a row, and all threads take part in a sum over rows.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy
import numpy as np

Array = Any  # cupy.ndarray
THREADS = 256  # of a block
WARP = 32
PASSES = (1 << 18, 1 << 10)  # threads that fold rows, in the first and the second pass
_INFINITY = "__int_as_float(0x7f800000)"
_REDUCERS = {  # identity and combination of a and b; the largest and the least propagate NaN
    "sum": ("0", "a + b"),
    "prod": ("1", "a * b"),
    "max": (f"-{_INFINITY}", "a != a || a > b ? a : b"),
    "min": (_INFINITY, "a != a || a < b ? a : b"),
    "any": ("0", "a || b"),
    "all": ("1", "a && b"),
}
_FUNCTIONS = """
template <typename T> __device__ inline T combined_KIND(T a, T b) { return COMBINED; }
template <typename T> __device__ inline T of_row_KIND(T a) {
#pragma unroll
    for (int other = LANES / 2; other > 0; other /= 2)
        a = combined_KIND<T>(a, __shfl_xor_sync(0xffffffffu, a, other));
    return a;
}
"""
_SQUARED = "__device__ inline float squared(float a) { return a * a; }\n"
_ROW = """
    const long long row = ((long long)blockIdx.x * BLOCK + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const int own = row < rows ? k : 0;  // all lanes of a warp take part in every exchange
    const long long first = row * k;
"""
_REDUCED = """
extern "C" __global__ void reduced(const TYPE* x, TYPE* out, long long rows, int k)
{
    ROW
    HELD result = IDENTITY;
    for (int j = lane; j < own; j += LANES) result = combined_KIND<HELD>(result, x[first + j]);
    result = of_row_KIND<HELD>(result);
    if (own && lane == 0) out[row] = result;
}
"""
_SCALED = """
extern "C" __global__ void scaled(const float* x, float* out, long long rows, int k)
{
    ROW
    float size = 0.0f;
    for (int j = lane; j < own; j += LANES) size += MEASURE(x[first + j]);
    size = FINISHED(of_row_sum<float>(size));
    const float factor = 1.0f / (size == 0.0f ? 1.0f : size);
    for (int j = lane; j < own; j += LANES) out[first + j] = x[first + j] * factor;
}
"""
_SOFTMAX = """
extern "C" __global__ void softmax(const float* x, float* out, long long rows, int k)
{
    ROW
    float largest = -__int_as_float(0x7f800000), total = 0.0f;
    for (int j = lane; j < own; j += LANES) largest = combined_max<float>(largest, x[first + j]);
    largest = of_row_max<float>(largest);
    for (int j = lane; j < own; j += LANES) total += expf(x[first + j] - largest);
    total = of_row_sum<float>(total);
    for (int j = lane; j < own; j += LANES) out[first + j] = expf(x[first + j] - largest) / total;
}
"""
_MOVED = """
extern "C" __global__ void moved(const float* a, const float* b, bool* out, long long rows, int k, float by, bool of_b)
{
    ROW
    int any = 0;
    for (int j = lane; j < own; j += LANES) {
        const float old = a[first + j], value = b[first + j];
        any |= !(old == value || fabsf(value - old) <= (of_b ? by * fabsf(value) : by));
    }
    any = of_row_any<int>(any);
    if (own && lane == 0) out[row] = any;
}
"""
_FOLDED = """
extern "C" __global__ void folded(const FROM* x, TO* out, long long size, int threads)
{
    const int thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= threads) return;
    TO result = IDENTITY;
    for (long long i = thread; i < size; i += threads) result = combined_KIND<TO>(result, x[i]);
    out[thread] = result;
}
"""


def reduced(x: Array, reducer: str) -> Array:
    """Return float32 or bool ``[n]``: a row of ``[n, ...]`` reduced by *sum*, *max*, *min*, *any* or *all*."""
    boolean = x.dtype == np.bool_
    x = cupy.ascontiguousarray(x, None if boolean else np.float32).reshape(len(x), math.prod(x.shape[1:]))
    out = cupy.empty(len(x), x.dtype)
    types = {"TYPE": "bool" if boolean else "float", "HELD": "int" if boolean else "float"}
    _by_rows("reduced", _REDUCED, x.shape, (x, out), KIND=reducer, IDENTITY=_REDUCERS[reducer][0], **types)
    return out


def row_sums(x: Array) -> Array:
    """Return the sums over the last axis of a float32 array."""
    return reduced(x.reshape(-1, x.shape[-1]), "sum").reshape(x.shape[:-1])


def normalized(x: Array, kind: str) -> Array:
    """Return a float32 array normalised over its last axis; rows of zeros stay zero in the norms.

    ``kind``: *l1*, *l2* or *softmax*.
    """
    x = cupy.ascontiguousarray(x, np.float32)
    out, shape = cupy.empty_like(x), (math.prod(x.shape[:-1]), x.shape[-1])
    if kind == "softmax":
        _by_rows("softmax", _SOFTMAX, shape, (x, out))
    else:
        measure, finished = {"l1": ("fabsf", ""), "l2": ("squared", "sqrtf")}[kind]
        _by_rows("scaled", _SCALED, shape, (x, out), MEASURE=measure, FINISHED=finished)
    return out


def moved(old: Array, new: Array, tolerance: float, relative: bool) -> Array:
    """Return bool ``[n]``: whether an entry of a row of float32 ``[n, ...]`` moved by more than the tolerance.

    NaN counts as moving. ``relative``: the tolerance is relative to the new entry.
    """
    out = cupy.empty(len(new), np.bool_)
    arrays = (*(cupy.ascontiguousarray(x, np.float32) for x in (old, new)), out)
    tail = (np.float32(tolerance), np.bool_(relative))
    _by_rows("moved", _MOVED, (len(new), math.prod(new.shape[1:])), arrays, tail)
    return out


def over_rows(x: Array, reducer: str) -> Array:
    """Return a float32 ``[n, ...]`` reduced over its first axis by *sum*, *prod*, *min* or *max*; n is at least 1.

    Sums and products are accumulated in float64.
    """
    to, held = ("double", np.float64) if reducer in ("sum", "prod") else ("float", np.float32)
    k, whole = math.prod(x.shape[1:]), x.shape[1:]
    x = cupy.ascontiguousarray(x, np.float32).reshape(len(x), k)
    for threads in PASSES:
        threads -= threads % max(k, 1)  # a thread stays in its column
        if not threads or x.size <= threads:
            continue
        out = cupy.empty((threads // k, k), held)
        words = {"FROM": "double" if x.dtype == np.float64 else "float", "TO": to, "KIND": reducer}
        kernel = _kernel("folded", _FOLDED, 1, IDENTITY=_REDUCERS[reducer][0], **words)
        kernel((-(-threads // THREADS),), (THREADS,), (x, out, np.int64(x.size), np.int32(threads)))
        x = out
    last = {"sum": cupy.sum, "prod": cupy.prod, "min": cupy.amin, "max": cupy.amax}[reducer]
    return last(x.astype(held, copy=False), axis=0).astype(np.float32).reshape(whole)


def _by_rows(
    name: str, source: str, shape: tuple[int, int], arrays: tuple[Array, ...], tail: tuple[Any, ...] = (), **words: str
) -> None:
    """Launch a kernel over arrays of rows."""
    rows, k = shape
    if rows:
        lanes = min(WARP, 1 << max(0, k - 1).bit_length())
        blocks = -(-rows * lanes // THREADS)
        _kernel(name, source, lanes, **words)((blocks,), (THREADS,), (*arrays, np.int64(rows), np.int32(k), *tail))


@functools.cache
def _kernel(name: str, source: str, lanes: int, **words: str) -> Any:
    functions = "".join(
        _FUNCTIONS.replace("KIND", kind).replace("COMBINED", combination)
        for kind, (_, combination) in _REDUCERS.items()
    )
    source = source.replace("ROW", _ROW.strip())
    for word, meaning in words.items():
        source = source.replace(word, meaning)
    source = (_SQUARED + functions + source).replace("LANES", str(lanes)).replace("BLOCK", str(THREADS))
    return cupy.RawKernel(source, name)

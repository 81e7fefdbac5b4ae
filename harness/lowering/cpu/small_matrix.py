"""Small dense matrices in compiled code: Cholesky, solution of a symmetric positive definite system, general inverse.

A matrix is n x n float32, row-major, in a one-dimensional array: element (i, j) is at `start + i * stride + j`,
stride >= n. Memory between the rows is not accessed.  The functions are made for one n and called from compiled code::

    MATRIX = matrix_ops(32)
    solve_spd = MATRIX.solve_spd
    ...
    solve_spd(scratch, 0, 32, b, 0)      # b becomes the solution, scratch the factor

Inner loops are row operations.  A matrix that is singular (or not positive definite) within float32 precision gives
NaN in every element of the result.

Everything is float32 with fused multiply-adds. On random matrices up to n = 128 the largest error, relative to the
largest element, was 2e-8 to 5e-8 times the condition number in inverses, and 8e-8 (n = 3) to 1.4e-6 (n = 128) in
solutions; the tests limit both to 2.4e-7 times the condition number plus 1e-6. One AVX-512 core, in us at n = 8, 32,
100, 128: solve_spd 0.2, 1.5, 15, 42 (up to 23 GFLOP/s); inverse 0.12, 3, 59, 264 (8 to 34 GFLOP/s). n = 12 to 15 is
slow in `inverse` (1.1 to 1.8 us) because of masked stores.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, disable-error-code="call-arg,unreachable,var-annotated"
from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from harness.lowering.cpu.rows import absolute, dot, extract, fma, maximum, row_ops, store, where

SMALLEST_PIVOT = np.float32(2.0**-23)  # relative to the diagonal or column that it was computed from
LONGEST_OF_FOUR_SUMS = 64  # lanes; beyond this, one row saturates the multipliers and four would not fit in registers

compiled = njit(nogil=True, error_model="numpy")


class MatrixOps(NamedTuple):
    """Compiled functions for n x n matrices; each returns None."""

    cholesky: Any  # (a, start, stride): a becomes U with A = U^T U, zero below the diagonal; reads the upper triangle
    solve_factored: Any  # (u, start, stride, b, b_start): b becomes the solution of U^T U x = b
    solve_spd: Any  # (a, start, stride, b, b_start): both, a holds U afterwards
    inverse: Any  # (a, start, stride): a becomes its inverse; any regular matrix


def make_reduced_row(n: int) -> Any:
    """Return the function that computes row j of A minus its projections on the rows of U above it."""
    load, zero = row_ops(n).load, row_ops(n).zero

    @compiled
    def one_sum(a: Any, start: Any, stride: Any, j: Any) -> Any:
        total = load(a, start + j * stride)
        for i in range(j):
            total = fma(-a[start + i * stride + j], load(a, start + i * stride), total)
        return total

    @compiled
    def four_sums(a: Any, start: Any, stride: Any, j: Any) -> Any:
        first, second, third, fourth = load(a, start + j * stride), zero(), zero(), zero()
        whole = j - j % 4
        for i in range(0, whole, 4):
            row = start + i * stride
            first = fma(-a[row + j], load(a, row), first)
            second = fma(-a[row + stride + j], load(a, row + stride), second)
            third = fma(-a[row + 2 * stride + j], load(a, row + 2 * stride), third)
            fourth = fma(-a[row + 3 * stride + j], load(a, row + 3 * stride), fourth)
        for i in range(whole, j):
            second = fma(-a[start + i * stride + j], load(a, start + i * stride), second)
        return (first + second) + (third + fourth)

    return four_sums if n <= LONGEST_OF_FOUR_SUMS else one_sum


def make_cholesky(n: int) -> Any:
    """Return the function cholesky(a, start, stride)."""
    iota, zero = row_ops(n).iota, row_ops(n).zero
    reduced_row = make_reduced_row(n)

    @compiled
    def cholesky(a: Any, start: Any, stride: Any) -> None:
        for j in range(n):
            diagonal = start + j * stride + j
            limit = SMALLEST_PIVOT * a[diagonal]
            row = where(iota() >= j, reduced_row(a, start, stride, j), zero())
            pivot = extract(row, j)
            scale = np.float32(1) / np.sqrt(pivot) if pivot > limit else np.float32(np.nan)
            store(a, start + j * stride, row * scale)

    return cholesky


def make_solve_factored(n: int) -> Any:
    """Return the function solve_factored(u, start, stride, b, b_start)."""
    ops = row_ops(n)
    load, iota, zero = ops.load, ops.iota, ops.zero

    @compiled
    def solve_factored(u: Any, start: Any, stride: Any, b: Any, b_start: Any) -> None:
        for i in range(n):  # U^T y = b, by rows of U: lanes up to i - 1 of b hold y and rows hold zeros there
            value = b[b_start + i] / u[start + i * stride + i]
            store(b, b_start, fma(-value, load(u, start + i * stride), load(b, b_start)))
            b[b_start + i] = value
        x = zero()
        for i in range(n - 1, -1, -1):
            row = load(u, start + i * stride)
            value = (b[b_start + i] - dot(row, x)) / u[start + i * stride + i]
            x = where(iota() == i, value, x)
        store(b, b_start, x)

    return solve_factored


def make_inverse(n: int) -> Any:
    """Return the function inverse(a, start, stride): Gauss-Jordan elimination in place with row exchanges."""
    ops = row_ops(n)
    load, iota, zero, splat = ops.load, ops.iota, ops.zero, ops.splat

    @compiled
    def fill(a: Any, start: Any, stride: Any, value: Any) -> None:
        for i in range(n):
            store(a, start + i * stride, splat(value))

    @compiled
    def pivot_row(a: Any, start: Any, stride: Any, column: Any) -> Any:
        best = column
        for i in range(column + 1, n):
            if abs(a[start + i * stride + column]) > abs(a[start + best * stride + column]):
                best = i
        return best

    @compiled
    def eliminate(a: Any, start: Any, stride: Any, column: Any) -> None:
        here = start + column * stride
        at_column = iota() == column
        pivot = a[here + column]
        row = where(at_column, np.float32(1), load(a, here)) / pivot
        store(a, here, row)
        for i in range(n):
            if i != column:
                there = start + i * stride
                factor = a[there + column]
                store(a, there, fma(-factor, row, where(at_column, np.float32(0), load(a, there))))

    @compiled
    def restore_columns(a: Any, start: Any, stride: Any, exchanges: Any) -> None:
        for column in range(n - 1, -1, -1):
            other = np.int64(extract(exchanges, column))
            if other != column:
                for i in range(n):
                    at = start + i * stride
                    a[at + column], a[at + other] = a[at + other], a[at + column]

    @compiled
    def inverse(a: Any, start: Any, stride: Any) -> None:
        largest = zero()
        for i in range(n):
            largest = maximum(largest, absolute(load(a, start + i * stride)))
        exchanges = iota()
        for column in range(n):
            best = pivot_row(a, start, stride, column)
            pivot = abs(a[start + best * stride + column])
            if not pivot > SMALLEST_PIVOT * extract(largest, column):
                fill(a, start, stride, np.float32(np.nan))
                return
            if best != column:
                upper, lower = load(a, start + column * stride), load(a, start + best * stride)
                store(a, start + column * stride, lower)
                store(a, start + best * stride, upper)
                exchanges = where(iota() == column, np.float32(best), exchanges)
            eliminate(a, start, stride, column)
        restore_columns(a, start, stride, exchanges)

    return inverse


@cache
def matrix_ops(n: int) -> MatrixOps:
    """Return the functions for n x n matrices, n from 1 to 256; ValueError for another n."""
    cholesky, solve_factored = make_cholesky(n), make_solve_factored(n)

    @compiled
    def solve_spd(a: Any, start: Any, stride: Any, b: Any, b_start: Any) -> None:
        cholesky(a, start, stride)
        solve_factored(a, start, stride, b, b_start)

    return MatrixOps(cholesky, solve_factored, solve_spd, make_inverse(n))

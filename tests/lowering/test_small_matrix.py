"""Small matrices in compiled code, compared with LAPACK in float64."""

import functools

import numpy as np
import pytest
from numba import njit

from harness.lowering.cpu.small_matrix import matrix_ops

SIZES = [*(1, 3, 8, 33), *(pytest.param(n, marks=pytest.mark.full) for n in (2, 5, 13, 32, 100))]
UNIT_ROUNDOFF = 2.0**-24


@functools.cache
def kernels(n):
    ops = matrix_ops(n)
    cholesky, solve_spd, inverse = ops.cholesky, ops.solve_spd, ops.inverse

    @njit
    def run_cholesky(a, start, stride):
        cholesky(a, start, stride)

    @njit
    def run_solve(a, start, stride, b, b_start):
        solve_spd(a, start, stride, b, b_start)

    @njit
    def run_inverse(a, start, stride):
        inverse(a, start, stride)

    return run_cholesky, run_solve, run_inverse


def placed(matrix, start, stride):
    """Return the matrix in a larger array full of canaries, and the view of its elements."""
    n = len(matrix)
    space = np.full(start + n * stride + 7, 1e30, np.float32)
    view = space[start : start + n * stride].reshape(n, stride)[:, :n]
    view[:] = matrix
    return space, view


def assert_untouched(space, start, stride, n):
    outside = np.ones(len(space), bool)
    outside[start : start + n * stride].reshape(n, stride)[:, :n] = False
    assert (space[outside] == np.float32(1e30)).all()


def positive_definite(n, seed):
    x = np.random.default_rng(seed).standard_normal((2 * n + 5, n))
    return (x.T @ x + 0.1 * np.eye(n)).astype(np.float32)


def relative_error(values, exact):
    return np.abs(values - exact).max() / np.abs(exact).max()


@pytest.mark.short_run(rows=4, always="-8")  # other tests compile these functions
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("padding", [0, 5])
def test_solve_spd(n, padding):
    a = positive_definite(n, seed=n)
    b = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    space, factor = placed(a, 3, n + padding)
    right = np.full(n + 4, 1e30, np.float32)
    right[2 : n + 2] = b
    kernels(n)[1](space, 3, n + padding, right, 2)
    exact = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    assert relative_error(right[2 : n + 2], exact) < 4 * UNIT_ROUNDOFF * np.linalg.cond(a.astype(np.float64)) + 1e-6
    assert (right[[0, 1, -2, -1]] == np.float32(1e30)).all()
    assert_untouched(space, 3, n + padding, n)
    np.testing.assert_allclose(factor, np.triu(factor))


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_reads_the_upper_triangle(n):
    a = positive_definite(n, seed=n + 1)
    space, factor = placed(np.triu(a), 0, n)
    kernels(n)[0](space, 0, n)
    assert relative_error(factor.T.astype(np.float64) @ factor, a) < 1e-6


@pytest.mark.short_run(rows=4, always="-8")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("padding", [0, 3])
def test_inverse_of_a_matrix_that_needs_exchanges(n, padding):
    a = np.random.default_rng(n).standard_normal((n, n)).astype(np.float32)
    if n > 1:
        a[0, 0] = 0
    space, result = placed(a, 1, n + padding)
    kernels(n)[2](space, 1, n + padding)
    exact = np.linalg.inv(a.astype(np.float64))
    assert relative_error(result, exact) < 4 * UNIT_ROUNDOFF * np.linalg.cond(a.astype(np.float64)) + 1e-6
    assert_untouched(space, 1, n + padding, n)


@pytest.mark.parametrize("n", [3, 8, 33])
def test_inverse_of_permutations_and_scales_is_exact(n):
    order = np.random.default_rng(n).permutation(n)
    a = np.zeros((n, n), np.float32)
    a[np.arange(n), order] = 2.0 ** (np.arange(n) % 60 - 30)
    space, result = placed(a, 0, n)
    kernels(n)[2](space, 0, n)
    np.testing.assert_array_equal(result, np.linalg.inv(a.astype(np.float64)))


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_pivot_is_the_largest_of_its_column_in_magnitude(sign):
    n = 8
    a = np.random.default_rng(n).uniform(0.5, 1.0, (n, n)).astype(np.float32)
    a[:, 0] = 2.0**-20
    a[-1, 0] = sign  # any other pivot loses 20 of 24 bits
    space, result = placed(a, 0, n)
    kernels(n)[2](space, 0, n)
    exact = np.linalg.inv(a.astype(np.float64))
    assert relative_error(result, exact) < 4 * UNIT_ROUNDOFF * np.linalg.cond(a.astype(np.float64)) + 1e-6


@pytest.mark.parametrize("n", [2, 5, 33])
@pytest.mark.parametrize("kind", ["zero", "rank one", "equal rows"])
@pytest.mark.short_run(rows=9)  # a row takes milliseconds
def test_singular_matrices_are_reported_by_nan(n, kind):
    vector = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    a = np.random.default_rng(n + 1).standard_normal((n, n)).astype(np.float32)
    a[-1] = a[0]
    a = {"zero": 0 * a, "rank one": np.outer(vector, vector), "equal rows": a}[kind]
    space, result = placed(a, 0, n)
    kernels(n)[2](space, 0, n)
    assert np.isnan(result).all()


@pytest.mark.parametrize("n", [1, 5, 33])
@pytest.mark.parametrize("kind", ["negative", "indefinite", "zero"])
def test_matrices_that_are_not_positive_definite_are_reported_by_nan(n, kind):
    a = positive_definite(n, seed=n)
    indefinite = a.copy()
    indefinite[-1, -1] *= -1
    a = {"negative": -a, "indefinite": indefinite, "zero": 0 * a}[kind]
    space, _ = placed(a, 0, n)
    b = np.ones(n, np.float32)
    kernels(n)[1](space, 0, n, b, 0)
    assert np.isnan(b).all()


@pytest.mark.parametrize("exponent", [-60, 60])
def test_results_scale_with_the_matrix(exponent):
    a, b = positive_definite(8, seed=8), np.random.default_rng(8).standard_normal(8).astype(np.float32)
    solutions, inverses = [], []
    for scale in (np.float32(1), np.float32(2.0**exponent)):
        right, (space, _) = b * scale, placed(a * scale, 0, 8)
        kernels(8)[1](space, 0, 8, right, 0)
        solutions.append(right)
        space, result = placed(a * scale, 0, 8)
        kernels(8)[2](space, 0, 8)
        inverses.append(result * scale)
    np.testing.assert_array_equal(*solutions)
    np.testing.assert_array_equal(*inverses)

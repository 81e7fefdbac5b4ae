"""Row operations in compiled code, compared with NumPy, for rows of all lengths."""

import functools
import mmap
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from harness.lowering.cpu import rows
from harness.lowering.cpu.rows import (
    absolute,
    atomic_add,
    atomic_max,
    atomic_min,
    count,
    dot,
    exp,
    extract,
    floor,
    fma,
    insert,
    log,
    maximum,
    minimum,
    prefetch,
    prefetch_row,
    prefetch_write,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
    row_ops,
    sqrt,
    store,
    to32,
    to64,
    where,
)

LENGTHS = [
    *(1, 3, 4, 5, 8, 33, 100),
    *(pytest.param(n, marks=pytest.mark.full) for n in (2, 7, 15, 16, 32, 61, 128, 256)),
]
CANARY = np.float32(-7777.0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38, 0.5], np.float32)

compiled = functools.partial(njit, error_model="numpy", nogil=True)


def random_rows(n, number, seed=0):
    """Return `number` rows of n values between 0.5 and 1.5 with either sign."""
    generator = np.random.default_rng(seed)
    return (generator.uniform(0.5, 1.5, (number, n)) * generator.choice([-1, 1], (number, n))).astype(np.float32)


def special_rows(n):
    """Return two rows that combine special values, as far as n lanes allow."""
    a = np.resize(SPECIAL, n)
    b = np.resize(np.repeat(SPECIAL, 3)[::-1], n)
    return a, b.astype(np.float32)


def surrounded(n, number, dtype=np.float32):
    """Return space for `number` rows with a row of canaries before and after each."""
    return np.full((2 * number + 1) * n, CANARY).astype(dtype)


def results(out, n, number):
    """Return the rows in surrounded space after checking the canaries."""
    space = out.reshape(2 * number + 1, n)
    assert (space[::2] == np.asarray(CANARY).astype(out.dtype)).all()
    return space[1::2]


@functools.cache
def arithmetic_kernel(n):
    ops = row_ops(n)
    load, zero, splat, unit, iota = ops.load, ops.zero, ops.splat, ops.unit, ops.iota

    @compiled
    def kernel(x, out, scalar, lane):
        a, b, c = load(x, 0), load(x, n), load(x, np.uint32(2 * n))
        store(out, 1 * n, a + b)
        store(out, 3 * n, a - scalar)
        store(out, 5 * n, scalar * b)
        store(out, 7 * n, a / b)
        store(out, 9 * n, 1 / b)
        store(out, 11 * n, -a)
        store(out, 13 * n, +a)
        store(out, 15 * n, a**3)
        store(out, 17 * n, b**-2)
        store(out, 19 * n, a * b + c)
        store(out, 21 * n, fma(scalar, b, c))
        store(out, 23 * n, minimum(a, b))
        store(out, 25 * n, maximum(a, scalar))
        store(out, 27 * n, absolute(a))
        store(out, 29 * n, sqrt(absolute(b)))
        store(out, 31 * n, floor(c * 10))
        store(out, 33 * n, zero())
        store(out, 35 * n, splat(scalar))
        store(out, 37 * n, unit(lane))
        store(out, 39 * n, iota())
        store(out, 41 * n, insert(a, lane, scalar))
        store(out, 43 * n, a + 0.25)
        total = zero()
        for i in range(3):
            total += load(x, i * n)
        store(out, 45 * n, total)
        return extract(a, lane)

    return kernel


@pytest.mark.short_run(rows=1, always="33")
@pytest.mark.parametrize("n", LENGTHS)
def test_arithmetic_matches_numpy_and_does_not_touch_neighbours(n):
    x = random_rows(n, 3)
    a, b, c = x
    scalar, lane = np.float32(0.75), n // 2
    out = surrounded(n, 23)
    lane_value = arithmetic_kernel(n)(x.ravel(), out, scalar, lane)
    unit = np.zeros(n, np.float32)
    unit[lane] = 1
    inserted = np.where(unit == 1, scalar, a)
    expected = [
        *(a + b, a - scalar, scalar * b, a / b, 1 / b, -a, +a, a**3, b**-2.0, a * b + c, scalar * b + c),
        *(np.minimum(a, b), np.maximum(a, scalar), np.abs(a), np.sqrt(np.abs(b)), np.floor(c * 10), 0 * a),
        *(np.full(n, scalar), unit, np.arange(n), inserted, a + np.float32(0.25), a + b + c),
    ]
    np.testing.assert_allclose(results(out, n, 23), expected, rtol=1e-6, atol=1e-6)
    assert lane_value == a[lane]


@functools.cache
def reduction_kernel(n):
    load = row_ops(n).load

    @compiled
    def kernel(x, out):
        a, b = load(x, 0), load(x, n)
        out[0] = reduce_sum(a)
        out[1] = reduce_prod(a)
        out[2] = reduce_min(a)
        out[3] = reduce_max(a)
        out[4] = dot(a, b)
        out[5] = reduce_any(a > b)
        out[6] = reduce_all(a > b)
        out[7] = count(a > b)

    return kernel


def reduced(n, a, b):
    out = np.empty(8)
    reduction_kernel(n)(np.concatenate([a, b]).astype(np.float32), out)
    return out


@pytest.mark.parametrize("n", LENGTHS)
def test_reductions_match_numpy(n):
    a, b = np.abs(random_rows(n, 2)).astype(np.float64)
    more = a > b
    expected = [a.sum(), a.prod(), a.min(), a.max(), a @ b, more.any(), more.all(), more.sum()]
    np.testing.assert_allclose(reduced(n, a, b), expected, rtol=3e-6)
    np.testing.assert_allclose(reduced(n, -a, b)[[0, 2, 3, 4]], [-a.sum(), -a.max(), -a.min(), -(a @ b)], rtol=3e-6)
    assert tuple(reduced(n, a + 2, b)[5:]) == (True, True, n)
    assert tuple(reduced(n, a - 2, b)[5:]) == (False, False, 0)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("where_nan", ["first", "last"])
def test_reductions_pass_nan_on(n, where_nan):
    a = np.ones(n, np.float32)
    a[0 if where_nan == "first" else -1] = np.nan
    assert np.isnan(reduced(n, a, np.ones(n))[:5]).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_one_lane_in_a_mask_is_seen_wherever_it_is(n):
    for lane in {0, n // 2, n - 1}:
        a = np.zeros(n)
        a[lane] = 1
        assert tuple(reduced(n, a, np.full(n, 0.5))[5:]) == (True, n == 1, 1)
        assert tuple(reduced(n, 1 - a, np.full(n, 0.5))[5:]) == (n > 1, False, n - 1)


@functools.cache
def mask_kernel(n):
    ops = row_ops(n)
    load, empty, full = ops.load, ops.empty_mask, ops.full_mask

    @compiled
    def kernel(x, flags, out, rows_out, yes):
        a, b, m = load(x, 0), load(x, n), load(flags, 0)
        store(out, 1 * n, a < b)
        store(out, 3 * n, a <= b)
        store(out, 5 * n, a > b)
        store(out, 7 * n, a >= b)
        store(out, 9 * n, a == b)
        store(out, 11 * n, a != b)
        store(out, 13 * n, (a < b) & m)
        store(out, 15 * n, (a < 0) | m)
        store(out, 17 * n, (1 > a) ^ m)  # noqa: SIM300 - the scalar first is the point
        store(out, 19 * n, ~m)
        store(out, 21 * n, m == (a < b))
        store(out, 23 * n, m != (a < b))
        store(out, 25 * n, empty())
        store(out, 27 * n, full())
        store(out, 29 * n, m & yes)
        store(rows_out, 1 * n, where(m, a, b))
        store(rows_out, 3 * n, where(a < b, a, 3))
        store(rows_out, 5 * n, where(yes, a, b))
        store(rows_out, 7 * n, where(a > 0, 1, b))
        store(rows_out, 9 * n, to32(m))

    return kernel


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("values", ["random", "special"])
def test_masks_match_numpy(n, values):
    a, b = random_rows(n, 2, seed=n) if values == "random" else special_rows(n)
    flags = np.random.default_rng(n).random(n) < 0.5
    for yes in (True, False):
        out, rows_out = surrounded(n, 15, np.uint8), surrounded(n, 5)
        mask_kernel(n)(np.concatenate([a, b]), flags, out, rows_out, yes)
        expected = [
            *(a < b, a <= b, a > b, a >= b, a == b, a != b, (a < b) & flags, (a < 0) | flags, (a < 1) ^ flags),
            *(~flags, flags == (a < b), flags != (a < b), np.zeros(n), np.ones(n), flags & yes),
        ]
        np.testing.assert_array_equal(results(out, n, 15), np.array(expected, np.uint8))
        chosen = [np.where(flags, a, b), np.where(a < b, a, 3), a if yes else b, np.where(a > 0, 1, b), flags]
        np.testing.assert_array_equal(results(rows_out, n, 5), np.array(chosen, np.float32))


@pytest.mark.parametrize("n", [5, 16, 33])
def test_minimum_and_maximum_treat_special_values_as_numpy_does(n):
    load = row_ops(n).load

    @compiled
    def kernel(x, out):
        store(out, 0, minimum(load(x, 0), load(x, n)))
        store(out, n, maximum(load(x, 0), load(x, n)))

    a, b = special_rows(n)
    out = np.empty(2 * n, np.float32)
    kernel(np.concatenate([a, b]), out)
    np.testing.assert_array_equal(out, np.concatenate([np.minimum(a, b), np.maximum(a, b)]))


@functools.cache
def elementary_kernels(n):
    load = row_ops(n).load

    @compiled
    def exp_kernel(x, out):
        for i in range(0, x.shape[0], n):
            store(out, i, exp(load(x, i)))

    @compiled
    def log_kernel(x, out):
        for i in range(0, x.shape[0], n):
            store(out, i, log(load(x, i)))

    return {"exp": exp_kernel, "log": log_kernel}


def largest_error(values, exact):
    """Return the error in units in the last place of the rounded exact values; special results must agree exactly."""
    rounded = exact.astype(values.dtype)
    ordinary = np.isfinite(rounded) & np.isfinite(values)
    np.testing.assert_array_equal(values[~ordinary], rounded[~ordinary])
    error = np.abs(values[ordinary].astype(exact.dtype) - exact[ordinary])
    return (error / np.spacing(np.abs(rounded[ordinary]))).max()


@pytest.mark.filterwarnings("ignore:(overflow|underflow|divide|invalid):RuntimeWarning")
@pytest.mark.parametrize(("name", "exact"), [("exp", np.exp), ("log", np.log)])
@pytest.mark.parametrize("n", [1, 5, 16])
def test_exp_and_log_of_float32_of_all_magnitudes(name, exact, n):
    patterns = np.arange(0, 2**32, 20011, dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([SPECIAL, patterns.view(np.float32), np.linspace(-104, 89, 10000, dtype=np.float32)])
    x = x[: len(x) // n * n]
    values = np.empty_like(x)
    elementary_kernels(n)[name](x, values)
    assert largest_error(values, exact(x.astype(np.float64))) < 1.5


@pytest.mark.filterwarnings("ignore:(overflow|underflow|divide|invalid):RuntimeWarning")
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no wider format to compare float64 with")
@pytest.mark.parametrize(("name", "exact"), [("exp", np.exp), ("log", np.log)])
def test_exp_and_log_of_float64_of_all_magnitudes(name, exact):
    generator = np.random.default_rng(3)
    patterns = generator.integers(0, 2**64, 40000, dtype=np.uint64).view(np.float64)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1.0, 709.78, 709.79, -745.1, -745.2, 1e-310, -1.0]
    x = np.concatenate([edges, patterns, generator.uniform(-750, 715, 40000), generator.uniform(0.4, 2.5, 40000)])
    x = x[: len(x) // 8 * 8]
    values = np.empty_like(x)
    elementary_kernels(8)[name](x, values)
    assert largest_error(values, exact(x.astype(np.longdouble))) < 1.5


@pytest.mark.parametrize("n", [1, 5, 32])
def test_double_rows(n):
    ops = row_ops(n)
    load, zero64, splat64 = ops.load, ops.zero64, ops.splat64

    @compiled
    def kernel(x, out, narrow):
        total = zero64()
        for i in range(2):
            total = total + log(to64(load(x, i * n)))
        store(out, n, total)
        store(out, 3 * n, splat64(0.1) * 3.0)
        store(narrow, n, to32(exp(total)))
        return reduce_sum(total)

    x = np.abs(random_rows(n, 2))
    out, narrow = surrounded(n, 2, np.float64), surrounded(n, 1)
    total = kernel(x.ravel(), out, narrow)
    expected = np.log(x.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(results(out, n, 2), [expected, np.full(n, 0.1 * 3)], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(results(narrow, n, 1)[0], x[0] * x[1], rtol=1e-6)
    assert total == pytest.approx(expected.sum(), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("n", [1, 5, 33])
def test_powers_that_are_not_literal(n):
    load = row_ops(n).load

    @compiled
    def kernel(x, out, exponent):
        a = absolute(load(x, 0))
        store(out, n, a**exponent)
        store(out, 3 * n, a**0)
        store(out, 5 * n, a ** load(x, n))

    x = random_rows(n, 2)
    out = surrounded(n, 3)
    kernel(x.ravel(), out, 1.7)
    expected = [np.abs(x[0]) ** np.float32(1.7), np.ones(n), np.abs(x[0]) ** x[1]]
    np.testing.assert_allclose(results(out, n, 3), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 33])
def test_atomic_updates_and_prefetches(n):
    load = row_ops(n).load

    @compiled
    def kernel(x, out, counter, floats):
        for i in range(3):
            a = load(x, i * n)
            prefetch(x, (i + 1) * n)
            prefetch_write(out, n)
            prefetch_row(x, (i + 8) * n, n)
            atomic_add(out, n, a)
            atomic_min(out, 3 * n, a)
            atomic_max(out, 5 * n, a)
        atomic_max(floats, 0, 4)
        atomic_min(floats, 1, 4)
        return atomic_add(counter, 0, 5), atomic_add(counter, 0, 2)

    x = random_rows(n, 3)
    out = surrounded(n, 3)
    for i in (1, 3, 5):
        out[i * n : (i + 1) * n] = 0
    counter, floats = np.array([10]), np.array([1, 9], np.float32)
    assert kernel(x.ravel(), out, counter, floats) == (10, 15)
    assert counter[0] == 17
    assert list(floats) == [4, 4]
    expected = [x.sum(axis=0), np.minimum(x.min(axis=0), 0), np.maximum(x.max(axis=0), 0)]
    np.testing.assert_allclose(results(out, n, 3), expected, rtol=1e-6, atol=1e-6)


def test_rows_pass_through_helper_functions_and_branches():
    ops = row_ops(7)
    load, zero = ops.load, ops.zero

    @compiled
    def doubled_or_zero(row, double):
        if double:
            return row + row
        return zero()

    @compiled
    def kernel(x, out, double):
        store(out, 0, doubled_or_zero(load(x, 0), double))

    x, out = random_rows(7, 1)[0], np.empty(7, np.float32)
    kernel(x, out, True)
    np.testing.assert_array_equal(out, 2 * x)
    kernel(x, out, False)
    np.testing.assert_array_equal(out, 0 * x)


def test_wrong_use_is_a_compile_time_error():
    load3, load5 = row_ops(3).load, row_ops(5).load
    single, double = np.zeros(8, np.float32), np.zeros(8)
    wrong = SimpleNamespace(
        lengths=lambda x, y: reduce_sum(load3(x, 0) + load5(x, 0)),
        kinds=lambda x, y: reduce_sum(load3(x, 0) * load3(y, 0)),
        store=lambda x, y: store(y, 0, load3(x, 0)),
        mask=lambda x, y: reduce_any(load3(x, 0)),
        mask_arithmetic=lambda x, y: reduce_sum((load3(x, 0) > 0) + (load3(x, 0) > 1)),
        dimensions=lambda x, y: reduce_sum(load3(x.reshape(2, 4), 0)),
    )
    for name, function in vars(wrong).items():
        with pytest.raises(TypingError):
            njit(function)(single, double)
        assert name
    for lanes in (0, 257):
        with pytest.raises(ValueError, match="from 1 to 256"):
            row_ops(lanes)


@functools.cache
def aggregation_kernel(n):
    ops = row_ops(n)
    load, zero = ops.load, ops.zero

    @compiled
    def kernel(offsets, neighbours, weights, x, y):
        for v in range(offsets.shape[0] - 1):
            acc = zero()
            for e in range(offsets[v], offsets[v + 1]):
                acc = fma(weights[e], load(x, np.uint64(neighbours[e]) * np.uint64(n)), acc)
            store(y, v * n, acc / reduce_sum(absolute(acc)))

    return kernel


@pytest.mark.parametrize("n", [4, 8, 32, 33, 100])
def test_weighted_aggregation_is_right_and_its_code_has_no_gathers(n):
    generator = np.random.default_rng(n)
    vertices, edges = 50, 400
    degrees = generator.multinomial(edges, np.full(vertices, 1 / vertices))
    offsets = np.concatenate([[0], np.cumsum(np.maximum(degrees, 1))])
    neighbours = generator.integers(0, vertices, offsets[-1]).astype(np.uint32)
    weights = generator.random(offsets[-1], dtype=np.float32)
    x = generator.random((vertices, n), dtype=np.float32)
    y = np.empty_like(x)
    kernel = aggregation_kernel(n)
    kernel(offsets, neighbours, weights, x.ravel(), y.ravel())
    sums = np.add.reduceat(weights[:, None].astype(np.float64) * x[neighbours], offsets[:-1])
    np.testing.assert_allclose(y, sums / sums.sum(axis=1, keepdims=True), rtol=1e-5)
    (assembly,) = kernel.inspect_asm().values()
    assert "gather" not in assembly
    if re.search(r"%[yz]mm|%xmm", assembly):  # x86
        assert re.search(r"vfn?madd\d+ps", assembly)


PAGE_END = """
import ctypes, mmap
import numpy as np
from numba import njit
from harness.lowering.cpu.rows import row_ops, store
space = mmap.mmap(-1, 3 * mmap.PAGESIZE)
everything = np.frombuffer(space, np.uint8)
protect = ctypes.CDLL(None, use_errno=True).mprotect
for page in (0, 2):
    assert protect(ctypes.c_void_p(everything.ctypes.data + page * mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
page = everything[mmap.PAGESIZE:2 * mmap.PAGESIZE].view(np.float32)
for n in {lengths}:
    load = row_ops(n).load
    def copy(x, first, last):
        store(x, last, load(x, first) + 1)
        store(x, first, load(x, last) + 1)
    njit(copy)(page, 0, page.size - n)
    assert (page[:n] == 2).all() and (page[-n:] == 1).all()
    page[:] = 0
print("untouched")
"""


@pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="needs page protection")
def test_rows_at_the_edges_of_a_page_touch_no_other_page():
    script = PAGE_END.format(lengths=(1, 3, 5, 7, 13, 33, 100))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "untouched"), run.stderr


def test_every_function_is_documented_in_the_module():
    for name in rows.__all__:
        assert re.search(rf"\b{name}\b", rows.__doc__) or name in {"Row", "Row64", "RowMask", "RowOps"}, name

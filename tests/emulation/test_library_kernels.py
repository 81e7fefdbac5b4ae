"""The kernels of CuPy's peers along rows and over rows, on an emulated device, against NumPy in float64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.emulation.arrays import as_array
from harness.emulation.compiler import Module, library, unavailable

pytest.importorskip("cupy", reason="the kernels are those of CuPy's engines")
pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


class RawKernel:
    """A kernel of CuPy that is compiled for the CPU; the launches are kept."""

    launches = ()

    def __init__(self, source, name):
        module = Module()
        module.load(str(library(source, {})).encode())
        self.name, self.function = name, module.get_function(name)

    def __call__(self, grid, block, arguments):
        RawKernel.launches = (*RawKernel.launches, (self.name, grid[0], block[0]))
        self.function(grid, block, arguments)


@pytest.fixture
def rows(monkeypatch):
    """Return the module with arrays of the host, blocks of 64 threads, and passes of 64 and 8 threads."""
    from engines.libraries import cupy_rows

    arrays = SimpleNamespace(
        RawKernel=RawKernel, ascontiguousarray=lambda x, dtype=None: as_array(np.ascontiguousarray(x, dtype)),
        empty=lambda shape, dtype: as_array(np.empty(shape, dtype)), empty_like=lambda x: as_array(np.empty_like(x)),
        sum=np.sum, prod=np.prod, amin=np.amin, amax=np.amax,
    )  # fmt: skip
    cupy_rows._kernel.cache_clear()
    for name, value in {"cupy": arrays, "THREADS": 64, "PASSES": (64, 8)}.items():
        monkeypatch.setattr(cupy_rows, name, value)
    monkeypatch.setattr(RawKernel, "launches", ())
    yield cupy_rows
    cupy_rows._kernel.cache_clear()


def drawn(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("shape", "blocks"), [((70, 1), 2), ((21, 3), 2), ((9, 2, 20), 5), ((0, 4), 0)], ids=str)
def test_rows_are_reduced(rows, shape, blocks):
    """A row of k entries has the lanes of the next power of two, at most a warp."""
    x = drawn(*shape)
    flat = x.reshape(len(x), -1).astype(np.float64) if len(x) else np.zeros((0, 4))
    np.testing.assert_allclose(rows.reduced(x, "sum"), flat.sum(1), rtol=1e-5, atol=1e-5)
    assert RawKernel.launches == ((("reduced", blocks, 64),) if blocks else ())


def test_extrema_and_flags_of_rows(rows):
    x = drawn(21, 3)
    x[4, 1] = np.nan
    assert np.array_equal(rows.reduced(x, "max"), x.max(1), equal_nan=True)
    assert np.array_equal(rows.reduced(x, "min"), x.min(1), equal_nan=True)
    assert np.array_equal(rows.reduced(x > 1, "any"), (x > 1).any(1))
    assert np.array_equal(rows.reduced(x > -1, "all"), (x > -1).all(1))
    assert rows.row_sums(drawn(4, 3, 3)).shape == (4, 3)


@pytest.mark.parametrize("kind", ["l1", "l2", "softmax"])
def test_rows_are_normalized(rows, kind):
    x = drawn(21, 5)
    x[::7] = 0.0
    wide = x.astype(np.float64)
    size = {"l1": np.abs(wide).sum(1), "l2": np.sqrt((wide**2).sum(1))}
    if kind == "softmax":
        powers = np.exp(wide - wide.max(1)[:, None])
        expected = powers / powers.sum(1)[:, None]
    else:
        expected = wide / np.where(size[kind] == 0, 1, size[kind])[:, None]
    np.testing.assert_allclose(rows.normalized(x, kind), expected, rtol=5e-6)


@pytest.mark.parametrize(("relative", "tolerance"), [(False, 1e-4), (True, 1e-3)])
def test_movements_and_nan(rows, relative, tolerance):
    old = drawn(40, 6)
    new = old + np.float32(2e-4) * np.random.default_rng(4).normal(size=old.shape).astype(np.float32)
    new[::2] = old[::2] * np.float32(1 + 9e-4)
    new[3], old[5, 2], new[5, 2] = old[3], np.inf, np.inf
    new[9, 1] = np.nan
    with np.errstate(invalid="ignore"):
        allowed = np.float32(tolerance) * (np.abs(new) if relative else np.float32(1))
        near = (old == new) | (np.abs(new - old) <= allowed)
    found = rows.moved(old, new, tolerance, relative)
    assert np.array_equal(found, ~near.all(1))
    assert found.any()
    assert not found.all()


@pytest.mark.parametrize(
    ("shape", "launches"),
    [((40, 3), ((1, 64), (1, 64))), ((2, 3), ()), ((3, 65), ()), ((30, 9), ((1, 64),))],
    ids=str,
)
def test_rows_are_folded_by_threads_that_stay_in_their_column(rows, shape, launches):
    x = drawn(*shape)
    np.testing.assert_allclose(rows.over_rows(x, "sum"), x.astype(np.float64).sum(0), rtol=1e-5, atol=1e-6)
    assert tuple(one[1:] for one in RawKernel.launches) == launches


def test_extrema_and_products_of_all_rows(rows):
    x = drawn(40, 3)
    assert np.array_equal(rows.over_rows(x, "max"), x.max(0))
    assert np.array_equal(rows.over_rows(x, "min"), x.min(0))
    near_one = np.exp(x / len(x)).astype(np.float32)
    np.testing.assert_allclose(rows.over_rows(near_one, "prod"), near_one.astype(np.float64).prod(0), rtol=1e-6)


@pytest.mark.parametrize(("count", "k", "passes"), [(1 << 20, 3, 2), (1 << 12, 1, 1), (1 << 10, 1, 0), (400, 3, 1)])
def test_a_sum_over_many_rows_is_taken_by_a_whole_device_and_then_by_few_threads(monkeypatch, count, k, passes):
    from engines.libraries import cupy_rows

    launches = []

    def launched(grid, block, arguments):
        launches.append((int(arguments[2]), int(arguments[3])))
        assert 0 <= grid[0] * block[0] - launches[-1][1] < block[0] <= 1024
        assert launches[-1][1] % k == 0, "a thread stays in its column"

    arrays = SimpleNamespace(ascontiguousarray=np.ascontiguousarray, empty=np.zeros, sum=np.sum, prod=0, amin=0, amax=0)
    monkeypatch.setattr(cupy_rows, "cupy", arrays)
    monkeypatch.setattr(cupy_rows, "_kernel", lambda *_, **__: launched)
    assert cupy_rows.over_rows(np.zeros((count, k), np.float32), "sum").shape == (k,)
    whole, few = (1 << 18, 1 << 18), (900, 1100)
    wanted = {0: [], 1: [few], 2: [whole, few]}[passes]
    assert len(launches) == passes
    for (size, threads), (least, most) in zip(launches, wanted, strict=True):
        assert least - k < threads <= most
        assert size > threads
    assert not launches or launches[0][0] == count * k

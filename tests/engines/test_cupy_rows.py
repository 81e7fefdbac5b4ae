"""CuPy reductions along rows and over rows, against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytestmark = pytest.mark.gpu
SHAPES = [(1, 1), (1000, 1), (777, 3), (4096, 4), (513, 33), (129, 128), (40, 3, 5), (0, 4), (300_001, 2), (70_000, 9)]


@pytest.fixture(scope="module")
def rows():
    cupy = pytest.importorskip("cupy")
    from engines.libraries import cupy_rows

    return cupy, cupy_rows


def drawn(shape):
    return np.random.default_rng().normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_reduced(rows, shape):
    cupy, module = rows
    x = drawn(shape)
    flat, given = x.reshape(len(x), math.prod(shape[1:])).astype(np.float64), cupy.asarray(x)
    np.testing.assert_allclose(
        module.reduced(given, "sum").get(), flat.sum(1), rtol=1e-6, atol=1e-6 * np.sqrt(flat.shape[1] + 1)
    )
    assert np.array_equal(module.reduced(given, "max").get(), flat.max(1).astype(np.float32))
    assert np.array_equal(module.reduced(given, "min").get(), flat.min(1).astype(np.float32))
    flags = x > 1
    assert np.array_equal(module.reduced(cupy.asarray(flags), "any").get(), flags.reshape(flat.shape).any(1))
    assert np.array_equal(module.reduced(cupy.asarray(flags), "all").get(), flags.reshape(flat.shape).all(1))
    assert module.row_sums(given).shape == shape[:-1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_normalized(rows, shape):
    cupy, module = rows
    x = drawn(shape)
    x[::7] = 0.0
    wide = x.astype(np.float64)
    sizes = {"l1": np.abs(wide).sum(-1, keepdims=True), "l2": np.sqrt((wide**2).sum(-1, keepdims=True))}
    for kind, size in sizes.items():
        expected = wide / np.where(size == 0, 1, size)
        np.testing.assert_allclose(module.normalized(cupy.asarray(x), kind).get(), expected, rtol=2e-6)
    powers = np.exp(wide - wide.max(-1, keepdims=True, initial=-np.inf))
    found = module.normalized(cupy.asarray(x), "softmax").get()
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=5e-6)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[0]], ids=str)
def test_rows_are_folded(rows, shape):
    cupy, module = rows
    x = drawn(shape)
    given, wide = cupy.asarray(x), x.astype(np.float64)
    found = module.over_rows(given, "sum").get()
    np.testing.assert_allclose(found, wide.sum(0), rtol=1e-6, atol=1e-9 * len(x))
    assert np.array_equal(module.over_rows(given, "max").get(), x.max(0))
    assert np.array_equal(module.over_rows(given, "min").get(), x.min(0))
    near_one = np.exp(x / len(x)).astype(np.float32)
    product = module.over_rows(cupy.asarray(near_one), "prod").get()
    np.testing.assert_allclose(product, near_one.astype(np.float64).prod(0), rtol=1e-6)


def test_movements_and_nan(rows):
    cupy, module = rows
    old = drawn((500, 6))
    new = old + np.float32(1e-4) * drawn(old.shape)
    new[3], old[5, 2], new[5, 2] = old[3], np.inf, np.inf
    new[9, 1] = np.nan
    with np.errstate(invalid="ignore"):
        near = (old == new) | (np.abs(new - old) <= np.float32(1e-4))
        close = (old == new) | (np.abs(new - old) <= np.float32(1e-3) * np.abs(new))
    pair = cupy.asarray(old), cupy.asarray(new)
    assert np.array_equal(module.moved(*pair, 1e-4, False).get(), ~near.all(1))
    assert np.array_equal(module.moved(*pair, 1e-3, True).get(), ~close.all(1))
    assert np.isnan(module.reduced(pair[1], "max").get()[9])
    assert np.isnan(module.over_rows(pair[1], "min").get()[1])

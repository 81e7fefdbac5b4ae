"""The kernels of the vectors of Krylov plans, compared with NumPy: values, and weighted sums of products."""

from __future__ import annotations

import re

import numpy as np
import pytest

from engines.onyx.krylov_kernels import BLOCK, STRIP, kernels
from harness.lowering.cpu.module_source import compiled

VERTICES, PARTS = 2 * BLOCK + 5, 2


@pytest.fixture(scope="module", params=[3, STRIP + 3, 2 * STRIP, 3 * STRIP + 1])
def operations(request):
    """Return the width, the stride of rows, and the kernels."""
    made = dict(zip(("product", "shorten", "advance", "turn"), map(compiled, kernels(request.param)), strict=True))
    return request.param, request.param + 2, made


def run(operations, name, vectors, coefficients=(), left=None, weight=None):
    """Return the vectors as a kernel leaves them, float32[V, width], and its two sums of every column."""
    width, stride, made = operations
    given = [np.full((VERTICES, stride), 7777, np.float32) for _ in vectors]
    for array, vector in zip(given, vectors, strict=True):
        array[:, :width] = vector
    arguments = [array.ravel() for array in given] + [np.asarray(one, np.float32) for one in coefficients]
    found = np.full((PARTS, 2 * width), 7777.0)
    if left is not None:
        rows = np.zeros((VERTICES, stride), np.float32)
        rows[:, :width] = left
        weights = np.zeros((len(weight), stride), np.float32)
        weights[:, :width] = weight
        arguments += [rows.ravel(), weights.ravel(), stride if len(weight) > 1 else 0, found]
    bounds = np.array([0, BLOCK + 2, VERTICES], np.int64)
    assert made[name](PARTS, 1, bounds, stride, *arguments) == 0
    assert all((array[:, width:] == 7777).all() for array in given)
    return [array[:, :width] for array in given], found.sum(0).reshape(2, width)


def drawn(width, count):
    """Return vectors of small integers, whose sums and products are exact."""
    return np.random.default_rng(width).integers(-4, 5, (count, VERTICES, width)).astype(np.float32)


@pytest.mark.parametrize("rows", [1, VERTICES])
def test_a_product_subtracts_the_superstep_and_sums_weighted_products(operations, rows):
    width = operations[0]
    vector, image, right, left, weight = drawn(width, 5)
    (*inputs, out), sums = run(operations, "product", [vector, image, right, right], (), left, weight[:rows])
    assert np.array_equal(out, vector - (image - right))
    assert all(np.array_equal(one, other) for one, other in zip(inputs, (vector, image, right), strict=True))
    assert np.array_equal(sums, [(weight[:rows] * left * out).sum(0), (out * out).sum(0)])


@pytest.mark.short_run(rows=2)
def test_a_residual_is_shortened_and_is_the_next_start(operations):
    width = operations[0]
    residual, image = drawn(width, 2)
    share = np.arange(width) - 1
    (shortened, same, start), _ = run(operations, "shorten", [residual, image, image], [share])
    assert np.array_equal(shortened, residual - share * image)
    assert np.array_equal(start, shortened)
    assert np.array_equal(same, image)


@pytest.mark.short_run(rows=2)
def test_a_solution_advances_along_the_direction_and_the_former_residual(operations):
    width = operations[0]
    solution, direction, residual, image, left, weight = drawn(width, 6)
    along, across, share = np.arange(3 * width).reshape(3, width) % 5 - 2
    vectors = [solution, direction, residual, image]
    found, sums = run(operations, "advance", vectors, [along, across, share], left, weight)
    now = residual - share * image
    for one, wanted in zip(
        found, (solution + along * direction + across * residual, direction, now, image), strict=True
    ):
        assert np.array_equal(one, wanted)
    assert np.array_equal(sums, [(weight * left * now).sum(0), (now * now).sum(0)])


def test_a_direction_turns_to_the_residual_and_is_the_next_start(operations):
    width = operations[0]
    direction, residual, image = drawn(width, 3)
    share, across = np.arange(2 * width).reshape(2, width) % 5 - 2
    (turned, _, _, start), _ = run(operations, "turn", [direction, residual, image, image], [share, across])
    assert np.array_equal(turned, residual + share * (direction - across * image))
    assert np.array_equal(start, turned)


@pytest.mark.parametrize("width", [1, 3, 31, 32, 33, 64, 65])
def test_a_kernel_names_the_functions_that_it_calls(width):
    for kernel in kernels(width):
        called = {(name, int(lanes)) for name, lanes in re.findall(r"_(load|zero)(\d+)\(", kernel.source)}
        assert set(kernel.made) == called, kernel.name
        strips = {int(lanes) for lanes in re.findall(r"strip \* (\d+)", kernel.source)}
        assert strips == {lanes for lanes in (min(width, 32), width % 32) if lanes}

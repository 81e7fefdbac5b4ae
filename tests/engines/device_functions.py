"""The functions of lane_groups.cuh that are not intrinsics, at extreme values: a kernel and expected results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.device.compilation import Compiled, compiled
from harness.lowering.cuda.modules import headers

BLOCK, FOUND = 64, 7
SOURCE = """
#define LANES 2
#define WIDTH 1
#define BLOCK 64
#include "lane_groups.cuh"
extern "C" __global__ void __launch_bounds__(BLOCK) functions(const float* a, const float* b, float* found, unsigned n)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    found[i] = minimum(a[i], b[i]);
    found[n + i] = maximum(a[i], b[i]);
    found[2 * n + i] = log_of_positive(a[i]);
    found[3 * n + i] = found[5 * n + i] = a[i];
    found[4 * n + i] = Min::into(found + 3 * n + i, b[i]);
    found[6 * n + i] = Max::into(found + 5 * n + i, b[i]);
}
"""
ENDS = [np.inf, -np.inf, np.nan, -np.nan, 3.4e38, 1.1754944e-38, 1e-45, 1.0, -1.0, -1e-8, 0.5, 0.0, -0.0]


def headers_of_lane_groups() -> dict[str, str]:
    """Return the headers that the functions include."""
    return headers(Path(__file__).parent)


def module(chip: str) -> Compiled:
    """Return machine code for a chip."""
    return compiled(SOURCE, headers_of_lane_groups(), chip)


def arguments() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return pairs of all extreme values, then positive numbers of all magnitudes."""
    a, b = (side.ravel() for side in np.meshgrid(ENDS, ENDS))
    draw = np.random.default_rng(7)
    magnitudes = np.exp(draw.uniform(np.log(1e-45), np.log(3e38), 4000))
    near = draw.uniform(0.5, 2.0, 4000)
    positive = np.concatenate([magnitudes, near])
    both = np.concatenate([a, positive]), np.concatenate([b, draw.permutation(positive)])
    return both[0].astype(np.float32), both[1].astype(np.float32)


def check(a: NDArray[np.float32], b: NDArray[np.float32], found: NDArray[np.float32]) -> None:
    """Check ``found [FOUND, n]``.

    Minimum and maximum, in which NaN propagates, and logarithm; then a reduced to its minimum with b in memory and
    whether b replaced it, and the same for the maximum, where NaN replaces nothing.
    """
    with np.errstate(invalid="ignore"):
        less, more = b < a, b > a
    number = ~np.isnan(a)
    np.testing.assert_array_equal(found[3][number], np.where(less, b, a)[number])
    np.testing.assert_array_equal(found[4], less)
    np.testing.assert_array_equal(found[5][number], np.where(more, b, a)[number])
    np.testing.assert_array_equal(found[6], more)
    np.testing.assert_array_equal(found[0], np.minimum(a, b))
    np.testing.assert_array_equal(found[1], np.maximum(a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = np.log(a.astype(np.float64))
    ordinary, defined = np.isfinite(wanted), a != 0  # the logarithm of zero is taken elsewhere
    special = ~ordinary & defined
    np.testing.assert_array_equal(found[2][special], wanted[special].astype(np.float32))
    wanted, near = wanted[ordinary], found[2][ordinary]
    assert (np.abs(near - wanted) / np.spacing(np.abs(wanted).astype(np.float32))).max() < 1.5
    assert found[2][a == 1.0].tolist() == [0.0] * np.count_nonzero(a == 1.0)

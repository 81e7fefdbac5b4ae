"""The kernel that measures movement on a CPU: sums of distances, and counts of entries beyond a margin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from harness.lowering.cpu.module_source import compiled
from harness.lowering.cpu.movement import MOVEMENT, ROUNDING, SUMS

WHOLE = np.float32(1.0)  # share of the tolerance


@pytest.mark.parametrize(("tolerance", "relative"), [(SUMS, False), (0.0, False), (2.0, False), (0.5, True)])
@pytest.mark.parametrize(("vertices", "width", "stride"), [(0, 1, 1), (1, 3, 4), (600, 1, 1), (1025, 3, 4)])
def test_each_column_is_measured_over_the_vertices_of_each_part(vertices, width, stride, tolerance, relative):
    rng, parts = np.random.default_rng(vertices), 3
    before, now = rng.integers(-4, 5, (2, vertices, stride)).astype(np.float32)
    still = slice(0, vertices // 4, 5)
    before[still] = now[still] = np.inf  # what nothing has reached has not moved
    now[1::5, -1:] = before[1::5, -1:]
    bounds = np.linspace(0, vertices, parts + 1).astype(np.int64)
    found = np.full((parts, 2 * width), np.nan)
    arrays = bounds, before.ravel(), now.ravel()
    assert compiled(MOVEMENT)(parts, 1, *arrays, stride, width, np.float32(tolerance), relative, WHOLE, found) == 0
    with np.errstate(invalid="ignore"):
        distance = np.where(before == now, 0, np.abs(now - before))[:, :width]
    size = np.abs(now[:, :width])
    moved = distance > (tolerance * size if relative else tolerance)
    for part, (first, last) in enumerate(pairwise(bounds)):
        columns = distance if tolerance == SUMS else moved
        assert np.array_equal(found[part, :width], columns[first:last].sum(0))
        if tolerance == SUMS:
            assert np.array_equal(found[part, width:], size[first:last].sum(0))


def test_an_entry_that_is_not_a_number_has_moved():
    before, now = np.zeros(2, np.float32), np.array([0.0, np.nan], np.float32)
    found = np.empty((1, 2))
    for tolerance, wanted in ((1.0, 1.0), (SUMS, np.nan)):
        compiled(MOVEMENT)(1, 1, np.array([0, 2]), before, now, 1, 1, np.float32(tolerance), False, WHOLE, found)
        assert np.array_equal(found[0, 0], wanted, equal_nan=True)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(
    ("tolerance", "share", "value", "still", "moving"),
    [
        (2.0**-10, 0.5, 1.0, 2.0**-11, 2.0**-11 + 2.0**-24),  # the share is more than rounding
        (2.0**-20, 0.01, 1.0, ROUNDING, ROUNDING + 2.0**-24),  # rounding is more than the share
        (2.0**-23, 0.01, 1.0, 2.0**-23, 2.0**-23 + 2.0**-24),  # and more than the tolerance
    ],
)
def test_a_share_of_the_tolerance_is_no_less_than_rounding(tolerance, relative, share, value, still, moving):
    for distance, moved in ((still, 0.0), (moving, 1.0)):
        assert counted(value, distance, tolerance, share, relative=relative) == moved


def test_rounding_is_that_of_the_entry():
    """A small entry moves by more than its rounding, and by more than a share of an absolute tolerance."""
    assert counted(2.0**-12, 2.0**-30, 2.0**-20, 2.0**-7) == 0.0
    assert counted(2.0**-12, 2.0**-26, 2.0**-20, 2.0**-7) == 1.0


def counted(value, distance, tolerance, share, *, relative=False):
    """Return whether the kernel counts an entry as moved to ``value`` by ``distance``."""
    now, before = np.float32([value]), np.float32([value - distance])
    assert now[0] - before[0] == np.float32(distance)
    found = np.empty((1, 2))
    margins = np.float32(tolerance), relative, np.float32(share)
    assert compiled(MOVEMENT)(1, 1, np.array([0, 1]), before, now, 1, 1, *margins, found) == 0
    return found[0, 0]

"""The kernel that measures movement on a CPU: sums of distances, and counts of entries beyond a margin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from harness.lowering.cpu.module_source import compiled
from harness.lowering.cpu.movement import MOVEMENT, SUMS


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
    assert compiled(MOVEMENT)(parts, 1, *arrays, stride, width, np.float32(tolerance), relative, found) == 0
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
        compiled(MOVEMENT)(1, 1, np.array([0, 2]), before, now, 1, 1, np.float32(tolerance), False, found)
        assert np.array_equal(found[0, 0], wanted, equal_nan=True)

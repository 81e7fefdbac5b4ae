"""The device's own functions at extreme values, emulated."""

from __future__ import annotations

import numpy as np
import pytest

from harness.emulation.arrays import allocated
from harness.emulation.compiler import Module, library, unavailable
from harness.lowering.cuda.modules import HEADER
from harness.lowering.cuda.movement import BLOCKS, ROWS
from tests.engines.device_functions import BLOCK, FOUND, SOURCE, arguments, check, headers_of_teams

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


def test_minima_maxima_and_logarithms():
    a, b = arguments()
    found = allocated(np.zeros((FOUND, len(a)), np.float32))
    module = Module()
    module.load(str(library(SOURCE, headers_of_teams())).encode())
    blocks = -(-len(a) // BLOCK)
    given = (allocated(a), allocated(b), found, np.uint32(len(a)))
    module.get_function("functions")((blocks,), (BLOCK,), given, shared_mem=0)
    check(a, b, found)


MEASURED = f"""
{HEADER.format(title="a test", lanes=1, width=1, block=BLOCK, coherent="", groups=1, edge_id="unsigned", includes="")}
#include "movement.cuh"
static_assert(MOVEMENT_BLOCKS == {BLOCKS} && MOVEMENT_ROWS == {ROWS}, "those of movement.py");
extern "C" __global__ void __launch_bounds__(BLOCK) measured(const float* a, const float* b, Id n, Id callers, float* c)
{{
    if (blockIdx.x < callers) measure_movement<Norm::SUM>(a, b, n, 1, 1, 0.0f, c);
}}
"""


@pytest.mark.parametrize(
    ("vertices", "grid", "callers"),
    [(ROWS, 1, 1), (ROWS, 5, 1), (ROWS, 5, 5), (3 * ROWS, 3, 3), (3 * ROWS, 7, 7), (3 * ROWS, 2, 2), (1, 4, 1)],
)
def test_movement_is_that_of_all_vertices_for_any_number_of_blocks(vertices, grid, callers):
    """A persistent kernel has its own number of blocks, of which one measures where launches would have one."""
    rng = np.random.default_rng(vertices + grid)
    before, now = rng.random((2, vertices), np.float32)
    found = allocated(np.zeros(2 * BLOCKS, np.float32))
    module = Module()
    module.load(str(library(MEASURED, headers_of_teams())).encode())
    given = (allocated(before), allocated(now), np.uint32(vertices), np.uint32(callers), found)
    module.get_function("measured")((grid,), (BLOCK,), given, shared_mem=0)
    distance, size = found.get().reshape(BLOCKS, 2).sum(0)
    assert distance == pytest.approx(np.abs(now - before).sum(), rel=1e-5)
    assert size == pytest.approx(np.abs(now).sum(), rel=1e-5)

"""Rows over lane groups, emulated: every lane gets what NumPy computes of the whole row."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from harness.emulation.arrays import allocated
from harness.emulation.compiler import Module, library, unavailable
from harness.lowering.cuda.modules import HEADER, headers
from harness.lowering.cuda.run_extension import RunExtension
from tests.engines.device_functions import headers_of_lane_groups

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

ROWS, STRIDE, LENGTHS = 23, 16, (5, 8, 13)
LANES_OF_BLOCK = 64
KERNEL = """
extern "C" __global__ void rows_{n}(const float* source, float* copied, float* picked, float* found)
{{
    const LaneGroup group;
    const int groups = BLOCK / 32 * LANE_GROUPS, first = threadIdx.x / 32 * LANE_GROUPS + group.number;
    if (group.idle()) return;
    for (int v = first; v < {rows}; v += groups) {{
        Row<{n}> row = load<{n}, {stride}>(group, source + v * {stride});
        for (int i = 0; i < {n}; ++i) {{
            const float value = pick(group, row, i);
            if (i % LANES == group.member) picked[v * {stride} + i] = value;
        }}
        const float values[] = {{total(group, row), smallest(group, row), largest(group, row), dot(group, row, row)}};
        for (int i = 0; i < 4; ++i)
            if (group.member == (LANES - 1) * (i % 2)) found[4 * v + i] = values[i];
        place(group, row, {n} - 2, 7.0f);
        store<{n}, {stride}>(group, copied + v * {stride}, row);
    }}
}}
"""


@pytest.mark.parametrize(("lanes", "width"), [(3, 1), (4, 2), (16, 1)])
def test_rows_of_all_lengths(lanes, width):
    head = HEADER.format(
        title="a test", lanes=lanes, width=width, block=LANES_OF_BLOCK, coherent="", groups=1, edge_id="unsigned",
        includes='#include "lane_groups.cuh"', extension=RunExtension().declaration,
    )  # fmt: skip
    module = Module()
    kernels = [KERNEL.format(n=n, rows=ROWS, stride=STRIDE) for n in LENGTHS]
    module.load(str(library("\n".join([head, *kernels]), headers_of_lane_groups())).encode())
    source = np.random.default_rng(lanes).normal(size=(ROWS, STRIDE)).astype(np.float32)
    for n in LENGTHS:
        given, copied, picked = (
            allocated(array.copy()) for array in (source, np.zeros_like(source), np.zeros_like(source))
        )
        found = allocated(np.zeros((ROWS, 4), np.float32))
        module.get_function(f"rows_{n}")((1,), (LANES_OF_BLOCK,), (given, copied, picked, found), shared_mem=0)
        rows = source[:, :n].astype(np.float64)
        assert np.array_equal(picked.get()[:, :n], source[:, :n])
        wanted = np.stack([rows.sum(1), rows.min(1), rows.max(1), (rows * rows).sum(1)], 1)
        assert np.allclose(found.get(), wanted, rtol=1e-5, atol=1e-5)
        placed = source[:, :n].copy()
        placed[:, n - 2] = 7.0
        assert np.array_equal(copied.get()[:, :n], placed)


LISTED = """
#include "gather.cuh"
extern "C" __global__ void listed(const Id* ids, const bool* flags, Id first, Id last, int* visits)
{
    owners_of_listed<true>(ids, first, last, warp_of_grid(), warps_of_grid(), Flagged{flags, false}, [&](Id v) {
        if (lane_id() == 0) visits[v] += 1;
    });
}
"""


@pytest.mark.parametrize("wanted", [[], [0], [3, 400], [*range(64, 80), 191, 192, 255, 256, 397], list(range(401))])
def test_owners_of_a_list_visit_each_wanted_vertex_once(wanted):
    """Two warps look at 32 of their vertices at once and skip those of which none is wanted."""
    head = HEADER.format(
        title="a test",
        lanes=1,
        width=1,
        block=LANES_OF_BLOCK,
        coherent="",
        groups=1,
        edge_id="unsigned",
        includes='#include "matrices.cuh"',
        extension=RunExtension().declaration,
    )
    module = Module()
    module.load(str(library(head + LISTED, headers(FOLDER))).encode())
    ids = np.random.default_rng(1).permutation(401).astype(np.uint32)
    flags = np.zeros(401, np.bool_)
    flags[ids[wanted]] = True
    visits = allocated(np.zeros(401, np.int32))
    given = (allocated(ids), allocated(flags), np.uint32(1), np.uint32(400), visits)
    module.get_function("listed")((1,), (LANES_OF_BLOCK,), given, shared_mem=0)
    inside = np.zeros(401, np.bool_)
    inside[ids[1:400]] = True
    assert np.array_equal(visits.get(), flags & inside)

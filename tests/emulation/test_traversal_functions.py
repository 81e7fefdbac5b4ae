"""First lanes of rows, lists of vertices and settled runs: device functions, with answers by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.outofmemory.emogi import cuda_plan as emogi
from engines.pullbaseline.simdx import cuda_plan as simdx
from harness.emulation.arrays import allocated
from harness.emulation.compiler import Module, library, unavailable
from harness.lowering.cuda.executor import PAST_FIELDS
from harness.lowering.cuda.modules import HEADER, headers
from harness.lowering.cuda.run_extension import RunExtension

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


def launched(folder, source, *given):
    """Compile a kernel ``found`` with the headers of a folder, and run one block of 64 threads."""
    head = HEADER.format(
        title="a test", lanes=1, width=1, block=64, coherent="", groups=1, edge_id="unsigned",
        includes='#include "matrices.cuh"', extension=RunExtension().declaration,
    )  # fmt: skip
    module = Module()
    module.load(str(library(head + source, headers(folder))).encode())
    module.get_function("found")((1,), (64,), given, shared_mem=0)


def test_lanes_begin_at_the_row_or_at_its_line_of_128_bytes():
    rows = np.array([0, 1, 8, 31, 32, 33, 63, 64, 1000], np.uint32)
    firsts = allocated(np.zeros((len(rows), 3, 32), np.uint32))
    source = """
#include "emogi.cuh"
extern "C" __global__ void found(const EdgeId* starts, Id rows, EdgeId* firsts)
{
    if (threadIdx.x < 32) for (Id i = 0; i < rows; ++i) {
        firsts[96 * i + lane_id()] = Naive::first(starts[i]);
        firsts[96 * i + 32 + lane_id()] = Merged::first(starts[i]);
        firsts[96 * i + 64 + lane_id()] = Aligned::first(starts[i]);
    }
}
"""
    launched(Path(emogi.__file__).parent, source, allocated(rows), np.uint32(len(rows)), firsts)
    lanes, lines = np.arange(32), rows // 32 * 32
    wanted = np.stack(
        [np.broadcast_to(rows[:, None], (len(rows), 32)), rows[:, None] + lanes, lines[:, None] + lanes], 1
    )
    assert np.array_equal(firsts.get(), wanted)


def test_lists_of_simdx_are_bounded_by_degrees():
    """Fewer edges than the first bound: small. Up to the second one: middle."""
    numbers = allocated(np.zeros(64, np.int32))
    source = """
#include "filters.cuh"
extern "C" __global__ void found(EdgeId warp, EdgeId block, int* numbers)
{
    const Lists lists = {nullptr, nullptr, nullptr, warp, block};
    numbers[threadIdx.x] = lists.number(threadIdx.x);
}
"""
    launched(Path(simdx.__file__).parent, source, np.uint32(8), np.uint32(40), numbers)
    assert numbers.get().tolist() == [0] * 8 + [1] * 33 + [2] * 23


@pytest.mark.parametrize("sides", [1, 2])
def test_a_run_in_which_nothing_moves_settles_once_every_side_has_run(sides):
    settled = allocated(np.zeros(4, np.int64))
    source = """
#include "run.cuh"
extern "C" __global__ void found(Count sides, Past* past, Count* settled)
{
    if (threadIdx.x != 0) return;
    Run run{};
    run.sides = sides;
    run.settles = 1;
    for (int i = 0; i < 4; ++i) {
        end_superstep(&run, past);
        settled[i] = run.settled;
    }
}
"""
    launched(
        Path(emogi.__file__).parent, source, np.int64(sides), allocated(np.zeros(4 * PAST_FIELDS, np.int64)), settled
    )
    assert settled.get().tolist() == [int(i + 1 >= sides) for i in range(4)]

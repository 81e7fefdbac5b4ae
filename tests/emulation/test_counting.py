"""Counts of kernels with known addresses, compared with an H100's counters and with counts by hand."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.emulation.arrays import allocated
from harness.emulation.compiler import OLDEST, unavailable
from harness.emulation.counting import CountingModule

pytestmark = pytest.mark.skipif(bool(unavailable(OLDEST)), reason=unavailable(OLDEST))

BLOCK, LANE = 64, np.arange(32)
LOADS = "".join(
    f"""
extern "C" __global__ void load_{size}(const {kind}* __restrict__ values, const Id* __restrict__ places, {kind}* into)
{{
    const Id at = places[threadIdx.x];
    if (at != NOWHERE) into[threadIdx.x] = values[at];
}}
"""
    for size, kind in ((1, "char"), (4, "float"), (8, "double"), (16, "Chunk"))
)
SOURCE = (
    """
#define WIDTH 4
typedef unsigned Id;
constexpr Id NOWHERE = 0xffffffffu, ALL = 0xffffffffu;
struct alignas(4 * WIDTH) Chunk {  // wide
    float at[WIDTH];
};
"""
    + LOADS
    + """
extern "C" __global__ void add(float* values, const Id* __restrict__ places)
{
    const Id at = places[threadIdx.x];
    if (at != NOWHERE) atomicAdd(values + at, 1.0f);
}
extern "C" __global__ void loop(const float* __restrict__ values, const Id* __restrict__ ends, float* into)
{
    float sum = 0;
    for (Id i = 0; i < ends[threadIdx.x]; ++i)
        for (Id j = 0; j < ends[threadIdx.x + 1]; ++j) sum += values[32 * j];
    into[threadIdx.x] = sum;
}
extern "C" __global__ void again(const float* __restrict__ values, float* into)
{
    for (Id i = 0; i < 4; ++i) atomicAdd(into + i, values[threadIdx.x]);
}
extern "C" __global__ void shuffled(float* values, float* into)
{
    const float one = values[threadIdx.x], other = __shfl_xor_sync(ALL, one, 1);
    into[threadIdx.x] = other + values[threadIdx.x];
}
extern "C" __global__ void shared(const float* __restrict__ values, float* into)
{
    __shared__ float kept[64];
    kept[threadIdx.x] = values[threadIdx.x];
    atomicAdd(kept + threadIdx.x % 8, 1.0f);
    __syncthreads();
    into[threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void listed(const Id* __restrict__ in_neighbours, Id* into)
{
    into[0] = in_neighbours[32 * blockIdx.x + threadIdx.x] + in_neighbours[32 * blockIdx.x];
}
"""
)


@functools.cache
def module() -> CountingModule:
    return CountingModule.of(SOURCE, {})


def counted(name, *arguments, threads=32):
    """Return the quantities of one block."""
    found = module().get_function(name).counted((1,), threads, arguments, 0)
    return found.quantities[0].tolist()


def placed(places):
    return allocated(np.where(places < 0, 0xFFFFFFFF, places), np.uint32)


def around(places):
    """Return the load of consecutive places."""
    return np.array([1, 4, 128, 0, 0, 0])


@pytest.mark.parametrize(
    ("places", "size", "sectors", "requested"),
    [
        (LANE, 4, 4, 128),  # coalesced
        (0 * LANE, 4, 1, 4),  # all lanes load one word
        (LANE // 2, 4, 2, 64),
        (4 * LANE, 4, 16, 128),  # one feature of rows of four
        (8 * LANE, 4, 32, 128),
        (4 + LANE, 4, 5, 128),  # across a sector boundary
        (LANE, 16, 16, 512),
        (2 * LANE, 16, 32, 512),
        (LANE % 8, 16, 4, 128),
        (LANE, 1, 1, 32),
        (0 * LANE, 8, 1, 8),
        (np.where(LANE < 16, LANE, -1), 4, 2, 64),  # half of the lanes
    ],
)  # fmt: skip
def test_a_load_transfers_each_sector_once(places, size, sectors, requested):
    values, into = (allocated(np.zeros(1024, np.uint8)) for _ in range(2))
    found = np.array(counted(f"load_{size}", values, placed(places), into))
    assert (found - around(places)).tolist() == [1, sectors, requested, 0, 0, 0]


@pytest.mark.parametrize(
    ("places", "sectors", "lines"),
    [
        (LANE, 4, 1),
        (0 * LANE, 32, 32),  # 32 serialized operations on one word
        (LANE // 2, 4, 2),  # two serialized operations on two sectors of a line
        (LANE % 8, 4, 4),
        (4 * LANE, 16, 4),  # one feature of rows of four
        (8 * LANE, 32, 8),
        (32 * LANE, 32, 32),
        (4 * (LANE % 8), 16, 4),
        (4 * (LANE // 2), 16, 4),
        (np.where(LANE < 16, LANE, -1), 2, 1),
    ],
)
def test_lanes_at_one_address_take_turns(places, sectors, lines):
    found = np.array(counted("add", allocated(np.zeros(1024, np.float32)), placed(places)))
    assert (found - around(places)).tolist() == [0, 0, 0, 1, sectors, lines]


def test_lanes_converge_after_a_loop_of_different_lengths():
    ends = np.array([2, 3, 1, *np.zeros(30, int)])  # lane 0: twice 3, lane 1: three times 1, lane 2: once 0
    found = counted("loop", allocated(np.zeros(128, np.float32)), placed(ends), allocated(np.zeros(32, np.float32)))
    inner = 3 + 3 + 1  # rounds: lane 0 has three each, beside one of lane 1; only lane 1 has a third round
    assert found[0] == 2 + inner  # and one at the end of each loop
    assert found[1] == 4 + 1 + inner  # only lanes 0 to 2 have an inner loop


def test_a_load_is_merged_with_an_earlier_one_unless_other_threads_may_have_written_in_between():
    values, into = (allocated(np.zeros(64, np.float32)) for _ in range(2))
    assert counted("again", values, into) == [1, 4, 128, 4, 4 * 32, 4 * 32]
    assert counted("shuffled", values, into)[:3] == [1, 4, 128]


def test_shared_memory_is_not_counted():
    values, into = (allocated(np.zeros(64, np.float32)) for _ in range(2))
    assert counted("shared", values, into, threads=64) == [2, 8, 256, 0, 0, 0]


def test_a_sample_is_spread_over_the_blocks_and_covers_each_element_once():
    neighbours, into = allocated(np.zeros(32 * 1000), np.uint32), allocated(np.zeros(1), np.uint32)
    kernel = module().get_function("listed")
    found = kernel.counted((1000,), 32, (neighbours, into), 0, covered=neighbours)
    assert (found.taken, found.blocks, found.whole) == (1000, 1000, True)
    assert (found.covered == 32).all()
    part = kernel.counted((1000,), 32, (neighbours, into), 0, covered=neighbours, budget=96 * 100)
    assert 90 < part.taken < 120
    assert not part.whole
    assert (part.quantities == found.quantities[0]).all()
    assert kernel.counted((1000,), 32, (neighbours, into), 0, budget=96 * 100, rest=1e9).whole


@pytest.mark.parametrize("counted_blocks", [2, 3, 10])
def test_the_other_blocks_run_if_their_estimated_accesses_are_within_the_rest(counted_blocks):
    """Equal to the limit, one access below and one above, after several counted blocks."""
    blocks, neighbours, into = 40, allocated(np.zeros(32 * 40), np.uint32), allocated(np.zeros(1), np.uint32)
    kernel = module().get_function("listed")
    given = (blocks,), 32, (neighbours, into), 0
    part = kernel.counted(*given, budget=96 * counted_blocks)
    accesses = kernel._module.sample().contents.effort / part.taken  # every block has as many
    assert 1 < part.taken < blocks
    assert not part.whole
    for off in (-1, 0, 1):
        found = kernel.counted(*given, budget=96 * counted_blocks, rest=(blocks - part.taken) * accesses + off)
        assert (found.taken, found.blocks, found.whole) == (part.taken, blocks, off >= 0)

"""The emulated device itself: communication of its threads, and the mistakes of kernels that it finds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.emulation.arrays import allocated, as_array
from harness.emulation.compiler import EmulationError, Module, library, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

SOURCE = """
#include "lanes.cuh"
extern "C" __global__ void __launch_bounds__(BLOCK) neighbours(unsigned* into)
{
    const unsigned lane = threadIdx.x % 32, mask = lane < 20 ? 0xfffffu : 0xfff00000u;
    unsigned* const at = into + 5 * (blockIdx.x * 64 + threadIdx.x);
    at[0] = __shfl_up_sync(mask, lane, 1);
    at[1] = __shfl_down_sync(ALL, lane, 3);
    at[2] = __shfl_xor_sync(ALL, lane, 5);
    at[3] = __ballot_sync(mask, lane % 3 == 0);
    at[4] = __syncthreads_or(threadIdx.x == 63 && blockIdx.x == 1);
}
extern "C" __global__ void __launch_bounds__(BLOCK) total(unsigned long long* sum, unsigned* ticket)
{
    __shared__ unsigned long long of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    atomicAdd(&of_block, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(sum + (atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1), of_block);
}
extern "C" __global__ void __launch_bounds__(BLOCK) each_atomic(unsigned* at)
{
    const unsigned one = 1 + threadIdx.x;
    at[5 + threadIdx.x] = atomicExch(at, one);
    atomicMin(at + 1, one);
    atomicMax(at + 2, one);
    atomicAdd(at + 3, one);
    atomicInc(at + 4, 6);
}
extern "C" __global__ void __launch_bounds__(BLOCK) strangers()
{
    __syncwarp(0xfu);
}
extern "C" __global__ void __launch_bounds__(BLOCK) deserted()
{
    if (threadIdx.x) __syncthreads();
}
extern "C" __global__ void __launch_bounds__(BLOCK) apart()
{
    __syncwarp(threadIdx.x % 32 < 16 ? ALL : 0xffff0000u);
}
extern "C" __global__ void __launch_bounds__(BLOCK) beside(float* values, long long at)
{
    values[at] = 1.0f;
}
extern "C" __global__ void __launch_bounds__(BLOCK) behind(unsigned at)
{
    extern __shared__ float own[];
    own[at] = 1.0f;
}
extern "C" __global__ void __launch_bounds__(BLOCK) races(float* found)
{
    __shared__ float shared[64];
    shared[threadIdx.x] = 1.0f;
    found[threadIdx.x] = shared[63 - threadIdx.x];
    __syncthreads();
    shared[threadIdx.x] = 0.0f;
}
extern "C" __global__ void __launch_bounds__(BLOCK) traps()
{
    __trap();
}
"""
HEADERS = {"lanes.cuh": "#pragma once\nconstexpr unsigned ALL = 0xffffffffu;\n#define BLOCK 64\n"}


def launch(name, *arguments, blocks=1, shared=0):
    module = Module()
    module.load(str(library(SOURCE, HEADERS)).encode())
    module.get_function(name)((blocks,), (64,), arguments, shared_mem=shared)


def test_lanes_tell_each_other():
    into = allocated(np.zeros((2, 64, 5), np.uint32))
    launch("neighbours", into, blocks=2)
    lane = np.arange(64) % 32
    first = lane < 20
    for block in (0, 1):
        up, down, crossed, ballot, some = into[block].T
        inside = lane != 20  # its mask does not name the neighbour
        assert (up == np.maximum(lane - 1, 0))[inside].all()
        assert (down == np.where(lane < 29, lane + 3, lane)).all()
        assert (crossed == lane ^ 5).all()
        wanted = sum(1 << i for i in range(0, 32, 3))
        assert (ballot == np.where(first, wanted & 0xFFFFF, wanted & 0xFFF00000)).all()
        assert (some == (block == 1)).all()


def test_blocks_add_up_and_the_last_one_knows():
    sums, ticket = allocated(np.zeros(2, np.uint64)), allocated(np.zeros(1, np.uint32))
    launch("total", sums, ticket, blocks=5)
    assert sums.tolist() == [4 * 2016, 2016]
    assert ticket.tolist() == [0]


def test_every_atomic_operation_stores_its_result():
    at = allocated(np.array([0, 100, 0, 0, 5] + [0] * 64, np.uint32))
    launch("each_atomic", at)
    assert sorted([at[0], *at[5:]]) == list(range(65))  # each value was exchanged once
    assert at[1:5].tolist() == [1, 64, 64 * 65 // 2, (5 + 64) % 7]


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("strangers", (), "a lane uses a mask that it is not in"),
        ("deserted", (), "threads wait for others that have ended"),
        ("apart", (), "threads wait for others that have ended, or wait elsewhere"),
        ("behind", (np.uint32(16),), "it wrote behind its dynamic shared memory"),
        ("beside", (np.uint32(1), np.int64(1)), "an argument has another size than its parameter"),
        ("traps", (), "it trapped"),
    ],
)
def test_forbidden_accesses_of_kernels_are_reported(name, arguments, why):
    with pytest.raises(EmulationError, match=f"{name}: {why}"):
        launch(name, *arguments, shared=64)


@pytest.mark.parametrize("place", [-1, 10])
def test_writes_outside_an_array_are_reported(place):
    with pytest.raises(EmulationError, match="beside wrote beside the array that is its argument 0"):
        launch("beside", allocated(np.zeros(10, np.float32)), np.int64(place))


def test_threads_run_in_either_order():
    """Half of the threads of a block read what others have yet to write; in the next launch the other half does."""
    runs = [allocated(np.zeros(64, np.float32)) for _ in range(3)]
    for found in runs:
        launch("races", found)
    assert (runs[1] + runs[2] == 1.0).all()


def test_grids_that_wait_for_each_other_are_refused():
    module = Module()
    module.load(str(library(SOURCE, HEADERS)).encode())
    with pytest.raises(EmulationError, match="blocks that run one after another, 2 would wait forever"):
        module.get_function("total")((2,), (64,), (), enable_cooperative_groups=True)


def test_compilation_errors_are_reported():
    with pytest.raises(EmulationError, match="'nonsense' was not declared|‘nonsense’ was not declared"):
        library('extern "C" __global__ void broken(float* x)\n{\n    nonsense(x);\n}\n', {})


def test_arrays_of_other_libraries_are_shared_unless_they_have_another_type():
    own = allocated(np.arange(5, dtype=np.float32))
    foreign = SimpleNamespace(__cuda_array_interface__=own.__array_interface__)
    for given in (own, foreign):
        shared, converted = as_array(given), as_array(given, np.int64)
        assert (shared.dtype, converted.dtype) == (np.float32, np.int64)
        assert shared.data.ptr == as_array(given, np.float32).data.ptr == own.data.ptr != converted.data.ptr
        assert converted.tolist() == [0, 1, 2, 3, 4]
    assert as_array([1, 2]).unharmed()


def test_numbers_are_passed_by_value():
    source = """
extern "C" __global__ void given(float a, double b, bool c, unsigned char d, long long e, unsigned block, double* found)
{
    const double all[] = {a, b, double(c), double(d), double(e), double(blockDim.x == block)};
    if (threadIdx.x == 0) for (int i = 0; i < 6; ++i) found[i] = all[i];
}
"""
    module, found = Module(), allocated(np.zeros(6))
    module.load(str(library(source, {})).encode())
    numbers = (np.float32(0.5), np.float64(1e300), np.bool_(True), np.uint8(200), np.int64(-7), np.uint32(96))
    module.get_function("given")((2,), (96,), (*numbers, found))
    assert found.tolist() == [0.5, 1e300, 1, 200, -7, 1]
    with pytest.raises(EmulationError, match="^given: an argument has another size than its parameter"):
        module.get_function("given")((2,), (96,), (np.float64(0.5), *numbers[1:], found))

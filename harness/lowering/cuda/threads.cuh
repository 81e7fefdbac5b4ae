// One thread per vertex or edge, which loops over all its features: for engines that treat properties as opaque (LANES
// is 1).
#pragma once

#include "run.cuh"

__device__ inline Id thread_of_grid() { return blockIdx.x * BLOCK + threadIdx.x; }
__device__ inline Id threads_of_grid() { return gridDim.x * BLOCK; }
// Return a thread's first index if a block takes `each` times its threads consecutive indices; its other indices are
// BLOCK apart.
__device__ inline size_t first_in_block_range(Id each) { return size_t(blockIdx.x) * (each * BLOCK) + threadIdx.x; }

// Combine the values of all lanes of a warp; every lane calls this and gets the result.
template <class Operation> __device__ inline float combined_in_warp(float value)
{
    _Pragma("unroll") for (int offset = 16; offset > 0; offset /= 2)
        value = Operation()(value, __shfl_xor_sync(WARP, value, offset));
    return value;
}

// Combine the values of all threads of a block through shared memory; every thread calls this, thread 0 gets the
// result.
template <class Operation> __device__ inline float combined_in_block(float value)
{
    __shared__ float of_warp[BLOCK / 32];
    value = combined_in_warp<Operation>(value);
    if (lane_id() == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = combined_in_warp<Operation>(lane_id() < BLOCK / 32 ? of_warp[lane_id()] : Operation::identity());
    }
    __syncthreads();
    return value;
}

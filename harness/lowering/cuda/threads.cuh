// A thread for a vertex or an edge, which walks all its features: for engines to which properties are opaque (LANES is 1).
#pragma once

#include "run.cuh"

__device__ inline Id thread_of_grid() { return blockIdx.x * BLOCK + threadIdx.x; }
__device__ inline Id threads_of_grid() { return gridDim.x * BLOCK; }
// The first place of a thread where a block has pieces of `each` times its threads: the others are BLOCK apart.
__device__ inline size_t thread_of_pieces(Id each) { return size_t(blockIdx.x) * (each * BLOCK) + threadIdx.x; }

// Whether all other blocks of the grid have come here before this one, and what they have written can be read; every
// thread calls this. The count begins anew by itself.
__device__ inline bool last_block(Id* ticket)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// What all lanes of a warp have, combined; every lane calls this and knows the result.
template <class Operation> __device__ inline float combined_in_warp(float value)
{
    _Pragma("unroll") for (int offset = 16; offset > 0; offset /= 2)
        value = Operation()(value, __shfl_xor_sync(WARP, value, offset));
    return value;
}

// What all threads of a block have, combined by way of shared memory; every thread calls this, thread 0 knows the result.
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

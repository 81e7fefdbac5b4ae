// Active - Compute - Combine (Liu & Huang 2019): vertices in lists by in-degree, and a thread, a warp or a block for each.
//
// Every thread computes the messages of its share of a vertex's in-edges and combines them in registers; what the threads
// of a vertex have is combined by shuffles, and by way of shared memory in a block. Nothing is atomic.
#pragma once

#include "threads.cuh"

// Who works on a vertex: how many do so at once in the grid, which of them this thread belongs to, and its place there.
struct Thread {
    static constexpr int SIZE = 1;
    static __device__ Id number() { return thread_of_grid(); }
    static __device__ Id all() { return threads_of_grid(); }
    static __device__ int member() { return 0; }
};
struct Warp {
    static constexpr int SIZE = 32;
    static __device__ Id number() { return thread_of_grid() / 32; }
    static __device__ Id all() { return threads_of_grid() / 32; }
    static __device__ int member() { return lane_id(); }
};
struct Block {
    static constexpr int SIZE = BLOCK;
    static __device__ Id number() { return blockIdx.x; }
    static __device__ Id all() { return gridDim.x; }
    static __device__ int member() { return threadIdx.x; }
};

// Active - Compute - Combine (Liu & Huang 2019, sec. 3): who works on a vertex, and how what they have is combined.
//
// Every thread computes the messages of its share of a vertex's edges. Pulling, it combines them in registers; what the
// threads of a vertex have is combined by shuffles, and by way of shared memory in a block: nothing is atomic. Pushing, it
// applies them to their destinations by atomic operations (sec. 5).
#pragma once

#include "threads.cuh"

// Who works on a vertex of a list: how many do so at once in the grid, which of them this thread belongs to, its place
// there; whether anyone there has met something, and what they have, combined (known to its first thread).
struct Thread {
    static constexpr int SIZE = 1;
    static __device__ Id number() { return thread_of_grid(); }
    static __device__ Id all() { return threads_of_grid(); }
    static __device__ int member() { return 0; }
    static __device__ bool any(bool mine) { return mine; }
    template <class Operation> static __device__ float combined(float value) { return value; }
};
struct Warp {
    static constexpr int SIZE = 32;
    static __device__ Id number() { return thread_of_grid() / 32; }
    static __device__ Id all() { return threads_of_grid() / 32; }
    static __device__ int member() { return lane_id(); }
    static __device__ bool any(bool mine) { return __any_sync(WARP, mine); }
    template <class Operation> static __device__ float combined(float value) { return combined_in_warp<Operation>(value); }
};
struct Block {
    static constexpr int SIZE = BLOCK;
    static __device__ Id number() { return blockIdx.x; }
    static __device__ Id all() { return gridDim.x; }
    static __device__ int member() { return threadIdx.x; }
    static __device__ bool any(bool mine) { return __syncthreads_or(mine); }
    template <class Operation> static __device__ float combined(float value) { return combined_in_block<Operation>(value); }
};

// Pushing combines nothing within a worker, so where a list is too short to keep the grid busy more threads share a vertex:
// several blocks a large one, as the largest hub of an R-MAT graph would hold up all others; a warp a small one, as its
// edges would follow one another, which takes most of the time where thousands of supersteps have few active vertices.
template <class Worker> struct Share {
    Id first, step;   // the places in the list that this thread works on
    Id member, size;  // its place among those that share a vertex

    __device__ explicit Share(Id)
        : first(Worker::number()), step(Worker::all()), member(Worker::member()), size(Worker::SIZE)
    {
    }
};
template <> inline __device__ Share<Thread>::Share(Id length)
{
    const bool shared = length <= threads_of_grid() / 32;
    first = shared ? Warp::number() : Thread::number();
    step = shared ? Warp::all() : Thread::all();
    member = shared ? lane_id() : 0;
    size = shared ? 32 : 1;
}
template <> inline __device__ Share<Block>::Share(Id length)
{
    const Id blocks = length && length < gridDim.x ? gridDim.x / length : 1;  // for each vertex
    step = gridDim.x / blocks;
    first = blockIdx.x < step * blocks ? blockIdx.x / blocks : length;
    member = blockIdx.x % blocks * BLOCK + threadIdx.x;
    size = blocks * BLOCK;
}

// Apply a message to its destination; whether that changed anything.
template <class Operation> __device__ inline bool applied(float* target, float message)
{
    if constexpr (Operation::ADDS) {
        if (message != 0.0f) Operation::into(target, message);
        return message != 0.0f;
    } else {
        return Operation::into(target, message);
    }
}
template <class Operation, int N> __device__ inline bool applied(float* target, const Row<N>& message)
{
    bool any = false;
    FEATURES(f, N) any |= applied<Operation>(target + f, message[f]);
    return any;
}

// Vote (sec. 3.2): where all messages to a vertex are the same, any one of them decides. Has every feature had one?
template <class Operation> __device__ inline bool decided(float value) { return value != Operation::identity(); }
template <class Operation, int N> __device__ inline bool decided(const Row<N>& row)
{
    bool all = true;
    FEATURES(f, N) all = all && row[f] != Operation::identity();
    return all;
}

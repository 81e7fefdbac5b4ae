// Active - Compute - Combine (Liu & Huang 2019, sec. 3): the workers of a vertex, and the combination of their values.
// Every thread computes the messages of its share of a vertex's edges. In a pull, it combines them in registers; the
// values of a vertex's threads are combined by shuffles, and in a block through shared memory, without atomic
// operations. In a push, messages are applied to their destinations by atomic operations (sec. 5).
#pragma once

#include "threads.cuh"

// The worker of a vertex of a list: the number of workers in the grid, the index of this thread's worker and its place
// in it, whether any of its threads has a condition, and their combined value (known to its first thread).
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

// A push combines nothing within a worker, so if a list is too short to occupy the grid, more threads share a vertex.
// Several blocks share a large one, because the largest hub of an R-MAT graph would delay all others. A warp shares a
// small one, because its edges would be processed sequentially, which dominates if thousands of supersteps have few
// active vertices.
template <class Worker> struct Share {
    Id first, step;   // the places in the list that this thread processes
    Id member, size;  // its index among the threads that share a vertex

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
    const Id blocks = length && length < gridDim.x ? gridDim.x / length : 1;  // per vertex
    step = gridDim.x / blocks;
    first = blockIdx.x < step * blocks ? blockIdx.x / blocks : length;
    member = blockIdx.x % blocks * BLOCK + threadIdx.x;
    size = blocks * BLOCK;
}

// Apply a message to its destination; return whether that changed anything.
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

// Vote (sec. 3.2): if all messages to a vertex are equal, any one of them decides. Return whether every feature has
// one.
template <class Operation> __device__ inline bool decided(float value) { return value != Operation::identity(); }
template <class Operation, int N> __device__ inline bool decided(const Row<N>& row)
{
    bool all = true;
    FEATURES(f, N) all = all && row[f] != Operation::identity();
    return all;
}

// Pulls of extrema along paths that read only edges that may improve a vertex (harness/language/message_bounds.py).
// Vertex steps store the best value of a source that moved. The next pull computes from it a bound that no message
// exceeds. It skips vertices that have reached the bound in every feature, and ends a row once its messages have
// reached it.
#pragma once

#include "graphreduce.cuh"

// Three rows of best values are used in turn: a pull reads one, vertex steps write the next, and clear the one after
// it.
constexpr int KEPT_BEST = 3;

// Return whether a value is at least as good as a bound. An infinite bound that no value exceeds does not count,
// because sources that have not moved may hold it.
template <class Operation> struct Bound;
template <> struct Bound<Min> {
    static __device__ float unknown() { return -INFINITE; }
    static __device__ bool as_good(float value, float other) { return value <= other; }
    static __device__ bool reached(float value, float bound) { return value <= bound & bound > -INFINITE; }
};
template <> struct Bound<Max> {
    static __device__ float unknown() { return INFINITE; }
    static __device__ bool as_good(float value, float other) { return value >= other; }
    static __device__ bool reached(float value, float bound) { return value >= bound & bound < INFINITE; }
};

// The vertices with a feature that has not reached its bound.
template <class Operation, int N, int STRIDE> struct Improvable {
    const float *values, *bounds;
    __device__ bool operator()(Id v) const
    {
        for (int f = 0; f < N; ++f)
            if (!Bound<Operation>::reached(values[size_t(v) * STRIDE + f], bounds[f])) return true;
        return false;
    }
};
// A warp tests several chunks at once only if a vertex has one value.
template <class Operation, int N, int STRIDE>
constexpr int tested<true, Improvable<Operation, N, STRIDE>> = N == 1 ? SCANNED : 1;

// Store bounds in shared memory for all threads of a block, which call this together.
template <class Operation> __device__ inline void share_bounds(const LaneGroup&, float* bounds, float mine, bool known)
{
    if (threadIdx.x == 0) bounds[0] = known ? mine : Bound<Operation>::unknown();
    __syncthreads();
}
template <class Operation, int N>
__device__ inline void share_bounds(const LaneGroup& group, float* bounds, const Row<N>& mine, bool known)
{
    if (threadIdx.x < LANES)
        FEATURES(slot, N)
            if (group.holds(slot, N)) bounds[group.feature(slot)] = known ? mine[slot] : Bound<Operation>::unknown();
    __syncthreads();
}

// Return the values that the messages to a vertex have to reach so that later messages change nothing. A feature whose
// value has reached its bound needs no message.
template <class Operation, int N, int STRIDE>
__device__ inline Row<N> goals(const LaneGroup& group, const float* values, const float* bounds)
{
    Row<N> row = load<N, STRIDE>(group, values);
    FEATURES(slot, N) {
        const float bound = group.holds(slot, N) ? bounds[group.feature(slot)] : 0.0f;
        row[slot] = Bound<Operation>::reached(row[slot], bound) ? Operation::identity() : bound;
    }
    return row;
}
template <class Operation> __device__ inline bool reached(const LaneGroup&, float value, float goal)
{
    return Bound<Operation>::reached(value, goal);
}
template <class Operation, int N>
__device__ inline bool reached(const LaneGroup& group, const Row<N>& row, const Row<N>& goal)
{
    bool all = true;
    FEATURES(slot, N) all &= !group.holds(slot, N) | Bound<Operation>::reached(row[slot], goal[slot]);
    return !any(group, !all);
}

// Return whether any message is better than the value of its feature, or NaN. If none is, nothing has to be stored.
template <class Operation, int N, int STRIDE>
__device__ inline bool improves(const LaneGroup&, float message, const float* value)
{
    return !Bound<Operation>::as_good(*value, message);
}
template <class Operation, int N, int STRIDE>
__device__ inline bool improves(const LaneGroup& group, const Row<N>& messages, const float* values)
{
    const Row<N> row = load<N, STRIDE>(group, values);
    bool better = false;
    FEATURES(slot, N) better |= group.holds(slot, N) & !Bound<Operation>::as_good(row[slot], messages[slot]);
    return any(group, better);
}

// Combine the new value of a feature, if it moved, with the best value of this thread. NaN makes the bound unknown.
template <class Operation> __device__ inline void improve(float& best, float before, float now)
{
    if (differs(before, now)) best = now == now ? Operation()(best, now) : Bound<Operation>::unknown();
}

// Combine the best values of a block with those of other blocks. All threads of the block call this. `moved`: this
// thread has processed a source that moved.
template <class Operation, int STRIDE>
__device__ inline void note_best(const LaneGroup&, float* best, Count superstep, float mine, bool moved)
{
    if (!__syncthreads_or(moved)) return;
    mine = groups_combined_in_block<Operation>(mine);
    if (threadIdx.x == 0) Operation::into(best + (superstep + 1) % KEPT_BEST, mine);
}
template <class Operation, int STRIDE, int N>
__device__ inline void note_best(const LaneGroup& group, float* best, Count superstep, Row<N> mine, bool moved)
{
    if (!__syncthreads_or(moved)) return;
    FEATURES(slot, N) mine[slot] = groups_combined_in_block<Operation>(mine[slot]);
    if (threadIdx.x < LANES) reduce_into<Operation, STRIDE>(group, best + (superstep + 1) % KEPT_BEST * STRIDE, mine);
}
template <class Operation, int STRIDE> __device__ inline void clear_best(float* best, Count superstep)
{
    for (int i = threadIdx.x; blockIdx.x == 0 && i < STRIDE; i += BLOCK)
        best[(superstep + 2) % KEPT_BEST * STRIDE + i] = Operation::identity();
}

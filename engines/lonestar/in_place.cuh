// Steps that update both ends of edges in place: lane groups of the grid, locks that are tried, stamps, and barriers.
//
// A lock is a word: 0 if it is free. The leading lane of a lane group takes it for the lane group, and nothing waits
// for a lock, so that no order of lane groups can deadlock. Taking a lock acquires what was released before: accesses to
// rows come after it. A fence before the release orders them before it.
#pragma once

#include "run.cuh"
#include "barrier.cuh"

typedef unsigned long long Number;

constexpr Id LANE_GROUPS_OF_BLOCK = BLOCK / 32 * LANE_GROUPS;

__device__ inline Id groups_of_grid() { return gridDim.x * LANE_GROUPS_OF_BLOCK; }
// Spare lanes belong to no lane group; callers leave them out.
__device__ inline Id group_of_grid(const LaneGroup& group)
{
    return blockIdx.x * LANE_GROUPS_OF_BLOCK + threadIdx.x / 32 * LANE_GROUPS + group.number;
}
// Consecutive numbers are in different blocks, so that few lane groups share no multiprocessor.
__device__ inline Id group_across_blocks(const LaneGroup& group)
{
    return blockIdx.x + gridDim.x * (threadIdx.x / 32 * LANE_GROUPS + group.number);
}

// Every thread of the grid waits for all others. A grid of several blocks must be resident.
__device__ inline void wait_for_all(GlobalBarrier& barrier)
{
    if (gridDim.x == 1) __syncthreads();
    else barrier.wait();
}

// A fence that orders accesses before and behind it, but not all fences among each other, which takes longer.
__device__ inline void fence()
{
#if __CUDA_ARCH__ >= 700
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
    __threadfence();
#endif
}
__device__ inline bool take(Id* lock)
{
#if __CUDA_ARCH__ >= 700
    Id before;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(before) : "l"(lock) : "memory");
    return before == 0u;
#else
    const bool taken = atomicCAS(lock, 0u, 1u) == 0u;
    if (taken) __threadfence();
    return taken;
#endif
}

// Try to lock one vertex, or both of two different ones; the lanes of a lane group get the same answer.
__device__ inline bool try_lock(const LaneGroup& group, Id* locks, Id v)
{
    int taken = 0;
    if (group.leads()) {
        taken = take(locks + v);
    }
    return group.from(taken, 0);
}
__device__ inline bool try_both(const LaneGroup& group, Id* locks, Id u, Id v)
{
    int taken = 0;
    if (group.leads()) {
        const Id low = u < v ? u : v, high = u < v ? v : u;
        if (take(locks + low)) {
            taken = take(locks + high);
            if (!taken) atomicExch(locks + low, 0u);
        }
    }
    return group.from(taken, 0);
}
__device__ inline void unlock(const LaneGroup& group, Id* locks, Id v)
{
    group.sync();
    if (group.leads()) {
        fence();
        atomicExch(locks + v, 0u);
    }
}
__device__ inline void unlock_both(const LaneGroup& group, Id* locks, Id u, Id v)
{
    group.sync();
    if (group.leads()) {
        fence();
        atomicExch(locks + u, 0u);
        atomicExch(locks + v, 0u);
    }
}

// Three counts of edges: of this pass, of the next, and the one of the last, which is set to zero. Then the number of
// passes that have run.
__device__ inline Number* size_of(Number* sizes, Id pass) { return sizes + pass % 3; }

// Try to lock the sources of DEPTH edges from `base` on that are not done; return a bit for each edge that may run, and
// add to `missing` those that may not. All attempts are in flight at once.
template <int DEPTH>
__device__ inline unsigned lock_sources(const LaneGroup& group, Id* locks, const bool* done, const Id* sources,
                                        EdgeId base,
                                        EdgeId end, Number& missing)
{
    unsigned locked = 0;
    if (group.leads()) {
        bool wanted[DEPTH];
        Id before[DEPTH];
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) wanted[d] = base + d < end && !done[base + d];
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
            before[d] = wanted[d] ? atomicCAS(locks + sources[base + d], 0u, 1u) : 1u;
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
            if (before[d] == 0u) locked |= 1u << d;
            else if (wanted[d]) ++missing;
        }
        if (locked) fence();
    }
    return group.from(locked, 0);
}
template <int DEPTH>
__device__ inline void unlock_sources(const LaneGroup& group, Id* locks, bool* done, const Id* sources,
                                        EdgeId base,
                                      unsigned locked)
{
    group.sync();
    if (group.leads()) {
        fence();
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
            if (locked >> d & 1u) {
                done[base + d] = true;
                atomicExch(locks + sources[base + d], 0u);
            }
        }
    }
}

// The same for DEPTH listed edges; those that may not run are appended to the list of the next pass.
template <int DEPTH>
__device__ inline unsigned lock_listed(const LaneGroup& group, Id* locks, const EdgeId* listed, const Id* sources, EdgeId base,
                                       EdgeId end, EdgeId* later, Number* sizes)
{
    unsigned locked = 0;
    if (group.leads()) {
        Id before[DEPTH];
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
            before[d] = base + d < end ? atomicCAS(locks + sources[listed[base + d]], 0u, 1u) : 1u;
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
            if (before[d] == 0u) locked |= 1u << d;
            else if (base + d < end) later[atomicAdd(size_of(sizes, 1), Number(1))] = listed[base + d];
        }
        if (locked) fence();
    }
    return group.from(locked, 0);
}
template <int DEPTH>
__device__ inline void unlock_listed(const LaneGroup& group, Id* locks, const EdgeId* listed, const Id* sources, EdgeId base,
                                     unsigned locked)
{
    group.sync();
    if (group.leads()) {
        fence();
        _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
            if (locked >> d & 1u) atomicExch(locks + sources[listed[base + d]], 0u);
    }
}

// An edge that holds its locks notes how many edges were before it at either end.
__device__ inline void stamp(const LaneGroup& group, bool stamping, Id* stamps, Id* counters, EdgeId e, Id u, Id v)
{
    if (!stamping || !group.leads()) return;
    volatile Id *const at_u = counters + u, *const at_v = counters + v;
    stamps[2 * size_t(e)] = *at_u;
    stamps[2 * size_t(e) + 1] = *at_v;
    *at_u = *at_u + 1;
    *at_v = *at_v + 1;
}

// Edges counted at both ends without locks, as rows are updated: read before the rows, and written after them.
struct Counted {
    volatile Id *at_u = nullptr, *at_v = nullptr;
    Id before_u = 0, before_v = 0;

    __device__ Counted(const LaneGroup& group, bool counting, Id* counters, Id u, Id v)
    {
        if (!counting || !group.leads()) return;
        at_u = counters + u;
        at_v = counters + v;
        before_u = *at_u;
        before_v = *at_v;
    }
    __device__ void write() const
    {
        if (!at_u) return;
        *at_u = before_u + 1;
        *at_v = before_v + 1;
    }
};

// The same as rows are added to: no count is lost.
__device__ inline void count_both(const LaneGroup& group, bool counting, Id* counters, Id u, Id v)
{
    if (!counting || !group.leads()) return;
    atomicAdd(counters + u, 1u);
    atomicAdd(counters + v, 1u);
}

__device__ inline EdgeId edges_left(Number* sizes, Id pass)
{
    return EdgeId(*const_cast<volatile Number*>(size_of(sizes, pass)));
}
__device__ inline EdgeId edges_of_pass(Number* sizes, Id pass)
{
    const EdgeId count = edges_left(sizes, pass);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *size_of(sizes, pass + 2) = 0;
        if (count) ++sizes[3];
    }
    return count;
}
// A pass that had `before` edges ran less than one of SHARE of them, and at least LEAST are left.
template <int SHARE, int LEAST> __device__ inline bool starving(EdgeId before, EdgeId left)
{
    return left >= LEAST && before - left < before / SHARE;
}

// The order in which a pass reads its list of `count` edges: with a stride that differs from turn to turn, so that edges
// that met are tried at other times. Places from `count` on have no edge.
struct Turn {
    EdgeId stride, rows, places;

    __device__ Turn(Id turn, EdgeId count)
        : stride(1 + turn % 16 * 37), rows((count + stride - 1) / stride), places(rows * stride)
    {
    }
    __device__ EdgeId place(EdgeId i) const { return stride == 1 ? i : i % stride * rows + i / stride; }
};

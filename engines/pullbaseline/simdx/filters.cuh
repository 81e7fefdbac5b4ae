// Just-in-time task management (Liu & Huang 2019, sec. 4): lists of active vertices, and the two filters that make them.
//
// A superstep processes lists of small, middle and large vertices by out-degree. A vertex that it reaches is *active*
// next if its metadata change. The filters determine which, and list every vertex at most once.
#pragma once

#include "acc.cuh"

constexpr int LISTS = 3;
constexpr int WARPS = BLOCK / 32;  // per block

// The work of a superstep, and its results.
struct Tasks {
    Count listed[LISTS];  // active vertices: those of the small, the middle and the large list
    Count edges;          // out-edges of the active vertices
    Count overflowed;     // a bin has overflowed
    Count visited;        // edges visited

    __device__ Count active() const { return listed[0] + listed[1] + listed[2]; }
};

// Superstep s has the tasks tasks[s % 3], fills the next ones, and clears those after.
struct TaskManager {
    Tasks tasks[3];
    Count votes;          // initially, all messages to a vertex are equal
    Count failed;         // a bin has overflowed, and there is no other filter
    Count vertices, edges;  // of the graph
    Count pulled[LISTS];  // lengths of the lists of all vertices by in-degree

    __device__ Tasks* of(Count superstep) { return tasks + superstep % 3; }
};

struct Lists {
    Id *small, *middle, *large;
    EdgeId warp_degree, block_degree;

    __device__ int number(EdgeId degree) const { return degree < warp_degree ? 0 : degree <= block_degree ? 1 : 2; }
    __device__ Id* list(int number) const { return number == 0 ? small : number == 1 ? middle : large; }
};

// The counts of the three lists, packed into one word, for a block's bins.
typedef unsigned long long Packed;
constexpr int FIELD = 21;
__device__ inline Packed packed(int list) { return Packed(1) << (FIELD * list); }
__device__ inline Id count_of(Packed counts, int list) { return Id(counts >> (FIELD * list)) & ((1u << FIELD) - 1); }

template <class Value> __device__ inline Value sum_of_warp(Value value)
{
    _Pragma("unroll") for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(WARP, value, offset);
    return value;
}

// Online filter (fig. 5c): a thread's bin for the vertices that it reaches. Slots i of all threads are adjacent.
template <int CAPACITY> struct Bin {
    Id* const slots;
    const Id threads;
    Id count;  // CAPACITY + 1: overflowed

    __device__ Bin(Id* bins, Id count) : slots(bins + thread_of_grid()), threads(threads_of_grid()), count(count) {}
    __device__ Id& operator[](Id i) { return slots[i * threads]; }
    __device__ void add(Id v)
    {
        if (count < CAPACITY) (*this)[count] = v;
        if (count <= CAPACITY) ++count;
    }
    // One of the threads that reach a vertex in superstep s adds it to its bin.
    __device__ void add_first(Id v, Id* marks, Count s)
    {
        const Id mark = Id(s) + 1;
        if (*const_cast<volatile Id*>(marks + v) != mark && atomicExch(marks + v, mark) != mark) add(v);
    }
    __device__ void report(Tasks* now) const
    {
        if (count > CAPACITY) *const_cast<volatile Count*>(&now->overflowed) = 1;
    }
};

// Concatenate the bins, by a prefix sum over the threads of a block and a reserved range per block; every thread calls
// this. `active`: returns whether a vertex is active after its step.
template <class Bin, class Active>
__device__ inline void concatenate(Bin& bin, Tasks* next, const Lists& lists, const EdgeId* out_offsets, Active active)
{
    __shared__ Packed of_warp[WARPS];
    __shared__ Id room[LISTS];
    __shared__ Packed edges_of_block;
    if (!__syncthreads_or(bin.count)) return;
    if (threadIdx.x == 0) edges_of_block = 0;
    Id kept = 0;
    Packed mine = 0, edges = 0;
    for (Id i = 0; i < bin.count; ++i) {
        const Id v = bin[i];
        const EdgeId degree = out_offsets[v + 1] - out_offsets[v];
        if (!active(v)) continue;
        bin[kept++] = v;
        mine += packed(lists.number(degree));
        edges += degree;
    }
    Packed sum = mine;
    _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
        const Packed before = __shfl_up_sync(WARP, sum, offset);
        if (lane_id() >= offset) sum += before;
    }
    if (lane_id() == 31) of_warp[threadIdx.x / 32] = sum;
    edges = sum_of_warp(edges);
    __syncthreads();
    Packed before = sum - mine, whole = 0;
    for (int warp = 0; warp < WARPS; ++warp) {
        if (warp < threadIdx.x / 32) before += of_warp[warp];
        whole += of_warp[warp];
    }
    if (lane_id() == 0 && edges) atomicAdd(&edges_of_block, edges);
    if (threadIdx.x < LISTS) {
        const Id count = count_of(whole, threadIdx.x);
        Packed* const listed = reinterpret_cast<Packed*>(next->listed + threadIdx.x);
        room[threadIdx.x] = count ? Id(atomicAdd(listed, Packed(count))) : 0;
    }
    __syncthreads();
    if (threadIdx.x == 0 && edges_of_block) atomicAdd(reinterpret_cast<Packed*>(&next->edges), edges_of_block);
    for (Id i = 0; i < kept; ++i) {
        const Id v = bin[i];
        const int list = lists.number(out_offsets[v + 1] - out_offsets[v]);
        lists.list(list)[room[list] + count_of(before, list)] = v;
        before += packed(list);
    }
    __syncthreads();
}

// Ballot filter (fig. 5b): every warp scans a run of all vertices, 32 at a time, and stores a bit for each. `bits`: of
// all vertices; `found`: the counts of every list, by blocks and then by warps.
struct Ballot {
    Id *bits, *found;
    Id vertices;

    __device__ Id run() const { return (vertices + 32 * WARPS * gridDim.x - 1) / (32 * WARPS * gridDim.x) * 32; }
    __device__ Id first() const { return thread_of_grid() / 32 * run(); }
    __device__ Id last() const { return first() + run() < vertices ? first() + run() : vertices; }
    __device__ Id* of_block(Id block) const { return found + LISTS * block; }
    __device__ Id* of_warp(Id warp) const { return found + LISTS * (gridDim.x + warp); }

    // Scan: every vertex takes its step and stores a bit.
    template <class Active>
    __device__ void scan(Tasks* next, const Lists& lists, const EdgeId* out_offsets, Active active) const
    {
        __shared__ Id sums[LISTS];
        __shared__ Packed edges_of_block;
        if (threadIdx.x < LISTS) sums[threadIdx.x] = 0;
        if (threadIdx.x == 0) edges_of_block = 0;
        __syncthreads();
        Packed edges = 0;
        Id mine[LISTS] = {0, 0, 0};
        for (Id base = first(); base < last(); base += 32) {
            const Id v = base + lane_id();
            const bool mark = v < vertices && active(v);
            const unsigned mask = __ballot_sync(WARP, mark);
            if (lane_id() == 0) bits[base / 32] = mask;
            if (!mark) continue;
            const EdgeId degree = out_offsets[v + 1] - out_offsets[v];
            _Pragma("unroll") for (int list = 0; list < LISTS; ++list) mine[list] += lists.number(degree) == list;
            edges += degree;
        }
        __syncwarp();
        edges = sum_of_warp(edges);
        _Pragma("unroll") for (int list = 0; list < LISTS; ++list) {
            const Id count = sum_of_warp(mine[list]);
            if (lane_id() != 0) continue;
            of_warp(thread_of_grid() / 32)[list] = count;
            if (count) atomicAdd(sums + list, count);
        }
        if (lane_id() == 0 && edges) atomicAdd(&edges_of_block, edges);
        __syncthreads();
        if (threadIdx.x < LISTS) of_block(blockIdx.x)[threadIdx.x] = sums[threadIdx.x];
        if (threadIdx.x == 0 && edges_of_block) atomicAdd(reinterpret_cast<Packed*>(&next->edges), edges_of_block);
        __syncthreads();
    }

    // Concatenate: the lists, in the order of the vertices, after all blocks have scanned.
    __device__ void write(Tasks* next, const Lists& lists, const EdgeId* out_offsets) const
    {
        __shared__ Id before[LISTS];
        if (threadIdx.x < LISTS) before[threadIdx.x] = 0;
        __syncthreads();
        for (int list = 0; list < LISTS; ++list) {
            Id sum = 0;
            for (Id block = threadIdx.x; block < blockIdx.x; block += BLOCK) sum += of_block(block)[list];
            sum = sum_of_warp(sum);
            if (lane_id() == 0 && sum) atomicAdd(before + list, sum);
        }
        __syncthreads();
        const int warp = threadIdx.x / 32;
        Id at[LISTS];
        for (int list = 0; list < LISTS; ++list) {
            const Id earlier = lane_id() < warp ? of_warp(blockIdx.x * WARPS + lane_id())[list] : 0;
            at[list] = before[list] + sum_of_warp(earlier);
        }
        if (blockIdx.x == gridDim.x - 1 && threadIdx.x < LISTS)
            next->listed[threadIdx.x] = before[threadIdx.x] + of_block(blockIdx.x)[threadIdx.x];
        for (Id base = first(); base < last(); base += 32) {
            const unsigned mask = bits[base / 32];
            if (!mask) continue;
            const Id v = base + lane_id();
            const bool mark = mask >> lane_id() & 1;
            const int mine = mark ? lists.number(out_offsets[v + 1] - out_offsets[v]) : LISTS;
            _Pragma("unroll") for (int list = 0; list < LISTS; ++list) {
                const unsigned same = __ballot_sync(WARP, mine == list);
                if (mine == list) lists.list(list)[at[list] + __popc(same & ((1u << lane_id()) - 1))] = v;
                at[list] += __popc(same);
            }
        }
        __syncthreads();
    }
};

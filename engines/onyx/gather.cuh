// Pull with balance=warp: SHARE lane groups of a warp own a vertex, gather over its in-edges, and continue with its
// vertex steps. A warp owns a vertex of the middle list, and a block a hub.
#pragma once

#include "bottom_up.cuh"

// The lanes of the SHARE lane groups that own a vertex together.
template <int SHARE> __device__ inline unsigned owners(const LaneGroup& group)
{
    if (SHARE * LANES == 32) return WARP;
    return ((1u << (SHARE * LANES % 32)) - 1u) << (group.number / SHARE * SHARE * LANES);
}

// Sum the values of a vertex's SHARE lane groups; all of them get the result.
template <int SHARE, class Operation> __device__ inline float across_groups(const LaneGroup& group, float value)
{
    const unsigned mask = owners<SHARE>(group);
    _Pragma("unroll") for (int offset = SHARE / 2; offset > 0; offset /= 2)
        value = Operation()(value, __shfl_sync(mask, value, (group.number ^ offset) * LANES + group.member));
    return value;
}
template <int SHARE, class Operation, int N> __device__ inline Row<N> across_groups(const LaneGroup& group, Row<N> row)
{
    FEATURES(slot, N) row[slot] = across_groups<SHARE, Operation>(group, row[slot]);
    return row;
}
template <int SHARE, class Operation, int M, int N>
__device__ inline Matrix<M, N> across_groups(const LaneGroup& group, Matrix<M, N> matrix)
{
    ROWS(i, M) matrix.row[i] = across_groups<SHARE, Operation>(group, matrix.row[i]);
    return matrix;
}

// Shared memory for a sum of every warp of a block, the same for all uses with as many slots.
template <int SLOTS> __device__ inline float (&sums_of_warps())[BLOCK / 32][SLOTS][LANES]
{
    __shared__ float sums[BLOCK / 32][SLOTS][LANES];
    return sums;
}

// Sum the values of the first SHARE lane groups of every warp of a block; the first lane group of the block gets the
// result. All threads of the block take part.
template <int SHARE, class Operation, int N> __device__ inline Row<N> across_block(const LaneGroup& group, Row<N> row)
{
    auto& sums = sums_of_warps<slots(N)>();
    if (group.number < SHARE) row = across_groups<SHARE, Operation>(group, row);
    if (group.number == 0) FEATURES(slot, N) sums[threadIdx.x / 32][slot][group.member] = row[slot];
    __syncthreads();
    if (group.number == 0 && threadIdx.x < 32)
        for (int warp = 1; warp < BLOCK / 32; ++warp)
            FEATURES(slot, N) row[slot] = Operation()(row[slot], sums[warp][slot][group.member]);
    __syncthreads();
    return row;
}
template <int SHARE, class Operation> __device__ inline float across_block(const LaneGroup& group, float value)
{
    auto& sums = sums_of_warps<1>();
    if (group.number < SHARE) value = across_groups<SHARE, Operation>(group, value);
    if (group.number == 0) sums[threadIdx.x / 32][0][group.member] = value;
    __syncthreads();
    if (group.number == 0 && threadIdx.x < 32)
        for (int warp = 1; warp < BLOCK / 32; ++warp) value = Operation()(value, sums[warp][0][group.member]);
    __syncthreads();
    return value;
}
template <int SHARE, class Operation, int M, int N>
__device__ inline Matrix<M, N> across_block(const LaneGroup& group, Matrix<M, N> matrix)
{
    ROWS(i, M) matrix.row[i] = across_block<SHARE, Operation>(group, matrix.row[i]);
    return matrix;
}

// All edges of a vertex are read.
struct WholeRow {
    __device__ bool operator()() const { return false; }
};
template <class Enough> constexpr bool reads_whole_row = false;
template <> constexpr bool reads_whole_row<WholeRow> = true;

// Call visit(got, u, v, e) for the edges e of v from `begin` on with stride STRIDE; DEPTH of them are fetched before
// the first is visited.
template <int STRIDE, int DEPTH, class Fetch, class Visit>
__device__ inline void visit_some(Id v, EdgeId e, EdgeId end, const Id* neighbours, Fetch fetch, Visit visit)
{
    // the last edge replaces missing ones, so that no load waits behind a branch for an earlier one
    Id u[DEPTH];
    decltype(fetch(v, v, e)) got[DEPTH];
    _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) u[d] = neighbours[at_most(e + d * STRIDE, end - 1)];
    _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) got[d] = fetch(u[d], v, at_most(e + d * STRIDE, end - 1));
    _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
        if (e + d * STRIDE < end) visit(got[d], u[d], v, e + d * STRIDE);
}

// Do the same for all edges up to `end`. This lane group takes part number `part` of STRIDE parts; SHARE of them belong
// to lane groups of this warp, which all stop if one of them has `enough`.
template <int SHARE, int STRIDE, int DEPTH, class Fetch, class Visit, class Enough>
__device__ inline void visit_edges(const LaneGroup& group, Id v, EdgeId begin, EdgeId end, int part, const Id* neighbours,
                                   Fetch fetch, Visit visit, Enough enough)
{
    if constexpr (reads_whole_row<Enough>) {
        for (EdgeId e = begin + part; e < end; e += STRIDE * DEPTH)
            visit_some<STRIDE, DEPTH>(v, e, end, neighbours, fetch, visit);
    } else {
        for (EdgeId e = begin; e < end; e += STRIDE * DEPTH) {
            if (e + part < end) visit_some<STRIDE, DEPTH>(v, e + part, end, neighbours, fetch, visit);
            if (__any_sync(owners<SHARE>(group), enough())) break;
        }
    }
}

// Return whether v is wanted. One lane of its owners reads the flag, because another may clear it before all have read
// it.
template <int SHARE, class Wanted> __device__ inline bool owners_want(const LaneGroup& group, Wanted wanted, Id v)
{
    return __shfl_sync(owners<SHARE>(group), wanted(v), group.number / SHARE * SHARE * LANES);
}
template <int SHARE> __device__ inline bool owners_want(const LaneGroup&, Every, Id) { return true; }

// Return the position of bit number `index` of the bits that are set, or 32 if there are fewer.
__device__ inline int position_of_bit(unsigned bits, int index)
{
    for (; index > 0; --index) bits &= bits - 1;
    return bits ? __ffs(bits) - 1 : 32;
}

// Return the number of vertices of a chunk: as many as the owners of a warp take at once, or more (up to 32), so that
// each warp has one chunk.
template <Id PER_WARP> __device__ inline Id size_of_chunk(Id count)
{
    Id size = PER_WARP;
    while (size < 32 && size_t(size) * warps_of_grid() < count) size *= 2;
    return at_most(size, Id(32));
}

// Call owned(v) for the wanted vertices. Each owner of a warp takes one at a time. Flags are read by other lanes than
// those that clear them, and before they are cleared.
template <int SHARE, class Wanted, class Owned>
__device__ inline void owners_of_wanted(const LaneGroup& group, Id first, Id last, Wanted wanted, Owned owned)
{
    constexpr Id PER_WARP = LANE_GROUPS / SHARE;
    const Id mine = group.number / SHARE;
    wanted_chunks<true>(first, last, size_of_chunk<PER_WARP>(last - first), wanted, [&](Id base, unsigned some) {
        while (some) {
            const int at = mine < PER_WARP ? position_of_bit(some, mine) : 32;  // spare lane groups have no vertex
            if (at < 32) owned(base + at);
            __syncwarp();
            for (Id i = 0; i < PER_WARP; ++i) some &= some - 1;
        }
    });
}

// For the wanted vertices: start(v); visit(got, u, v, e) for each lane group's share of its in-edges, until a lane
// group has enough(); join() sums the values of the lane groups; finish(v) by one lane group. Vertices of MANY edges or
// more are left to gather_middle and gather_hubs; MANY = 0: none are. The vertices of ROUNDS rounds of a block are
// consecutive, and the grid has as many blocks as that takes. ROUNDS = 0: their stride is the whole grid, which may
// have any number of blocks. AHEAD: as in to_visit.
template <int SHARE, int DEPTH, int ROUNDS, bool AHEAD, EdgeId MANY,
          class Wanted, class Start, class Fetch, class Visit, class Enough, class Join, class Finish>
__device__ inline void gather(const LaneGroup& group, const EdgeId* offsets, const Id* neighbours, Id first, Id last,
                              Wanted wanted, Start start, Fetch fetch, Visit visit, Enough enough, Join join,
                              Finish finish)
{
    constexpr Id PER_WARP = LANE_GROUPS / SHARE, PER_BLOCK = BLOCK / 32 * PER_WARP;
    const Id mine = group.number / SHARE;
    const int part = group.number % SHARE;
    const auto owned = [&](Id v) {
        const EdgeId edge = offsets[v], end = offsets[v + 1];
        if (MANY && end - edge >= MANY) return;
        start(v);
        visit_edges<SHARE, SHARE, DEPTH>(group, v, edge, end, part, neighbours, fetch, visit, enough);
        join();
        if (part == 0) finish(v);
    };
    if constexpr (AHEAD && !wants_every<Wanted>) {
        owners_of_wanted<SHARE>(group, first, last, wanted, owned);
    } else {
        const Id of_block = first + blockIdx.x * ROUNDS * PER_BLOCK;
        const Id begin = ROUNDS ? of_block + threadIdx.x / 32 * PER_WARP : first + warp_of_grid() * PER_WARP;
        const Id all = ROUNDS ? at_most(of_block + ROUNDS * PER_BLOCK, last) : last;
        const Id stop = mine < PER_WARP ? all : first;  // spare lane groups have no vertex
        for (Id v = begin + mine; v < stop; v += ROUNDS ? PER_BLOCK : warps_of_grid() * PER_WARP)
            if (owners_want<SHARE>(group, wanted, v)) owned(v);
    }
}

// Call owned(v) for the wanted vertices of `listed`, in a warp or a block. `step` warps or blocks take one vertex each
// at a time; this is number `owner`.
template <bool AHEAD, class Wanted, class Owned>
__device__ inline void owners_of_listed(const Id* listed, Id first, Id last, Id owner, Id step, Wanted wanted,
                                        Owned owned)
{
    for (Id i = first + owner; i < last; i += step) {
        if (AHEAD && !wants_every<Wanted>) {  // the flags of 32 vertices at once
            const Id next = i + lane_id() * step;
            if (!__any_sync(WARP, next < last && wanted(listed[next]))) {
                i += 31 * step;
                continue;
            }
        }
        const bool flag = wanted(listed[i]);
        if (!wants_every<Wanted>) __syncwarp();  // owned(v) clears the flag, which all lanes have read
        if (flag) owned(listed[i]);
    }
}

// Do the same for the wanted vertices of `middle`, with a warp for each; its first SHARE lane groups gather. The last
// warps own the first vertices of the list, and the first warps those of gather. A kernel that combines both, and
// gather_hubs, then keeps more multiprocessors busy if the graph is small. Whole runs, over owners that all begin in the
// first block, when hubs began there and the vertices of gather in the middle of the grid: searches and components on
// seven small graphs and R-MAT 15 to 17 0.67 to 1.08, 0.88 in the mean, label propagation 0.62 to 0.99, PageRank 0.79 to
// 1.02 (H100, 27 November 2026).
template <int SHARE, int DEPTH, bool AHEAD,
          class Wanted, class Start, class Fetch, class Visit, class Enough, class Join, class Finish>
__device__ inline void gather_middle(const LaneGroup& group, const Id* middle, const EdgeId* offsets, const Id* neighbours,
                                     Id first, Id last, Wanted wanted, Start start, Fetch fetch, Visit visit,
                                     Enough enough, Join join, Finish finish)
{
    const Id warps = warps_of_grid(), owner = warps - 1 - warp_of_grid();
    owners_of_listed<AHEAD>(middle, first, last, owner, warps, wanted, [&](Id v) {
        if (group.number >= SHARE) return;  // spare lanes have no memory for the results
        start(v);
        visit_edges<SHARE, SHARE, DEPTH>(
            group, v, offsets[v], offsets[v + 1], group.number, neighbours, fetch, visit, enough);
        join();
        if (group.number == 0) finish(v);
    });
}

// Do the same for the wanted vertices of `hubs`, with a block for each, from the middle of the grid on; the first SHARE
// lane groups of its warps gather.
template <int SHARE, int DEPTH, bool AHEAD,
          class Wanted, class Start, class Fetch, class Visit, class Enough, class Join, class Finish>
__device__ inline void gather_hubs(const LaneGroup& group, const Id* hubs, const EdgeId* offsets, const Id* neighbours,
                                   Id first, Id last, Wanted wanted, Start start, Fetch fetch, Visit visit,
                                   Enough enough, Join join, Finish finish)
{
    constexpr int STRIDE = BLOCK / 32 * SHARE;
    const int part = threadIdx.x / 32 * SHARE + group.number;
    const Id half = gridDim.x / 2, owner = blockIdx.x < half ? blockIdx.x + (gridDim.x - half) : blockIdx.x - half;
    owners_of_listed<AHEAD>(hubs, first, last, owner, gridDim.x, wanted, [&](Id v) {
        if (group.number < SHARE) {  // spare lanes have no memory for the results
            start(v);
            visit_edges<SHARE, STRIDE, DEPTH>(
                group, v, offsets[v], offsets[v + 1], part, neighbours, fetch, visit, enough);
        }
        join();  // all warps of the block have read the flag before it ends; finish(v) clears it
        if (part == 0 && group.number == 0) finish(v);
    });
}

// Pull with balance=edge: equal tiles of in-edges, in the order of their rows, regardless of the degrees. A block
// stages a tile in shared memory. Every lane group processes a run of it and keeps the sum of the current row in
// registers. A row within one run is stored. The parts of a row that crosses runs are reduced atomically into the
// identity, which was written before. Many lane groups share a hub, so it delays none of them. If edges have short
// rows, ABREAST lane groups alternate over the edges of their runs, so that together they read and write whole lines of
// memory. Each then has a part of every row.
#pragma once

#include "vertexmap.cuh"

// Return whether row v is stored. It is if one run of those that begin at `origin` has all its edges, or if it has none
// and was cleared before, unless all rows are cleared (`clears_all`).
template <int RUN> __device__ inline bool needs_no_clearing(const EdgeId* offsets, Id v, EdgeId origin, bool clears_all)
{
    const EdgeId first = offsets[v], end = offsets[v + 1];
    return end > first ? (first - origin) / RUN == (end - 1 - origin) / RUN : !clears_all;
}

// Shared memory for the parts of a tile that a block stages, the same for all uses in a kernel.
enum class Staged { ROWS, NEIGHBOURS, REVERSES };
template <Staged, int LENGTH> __device__ inline Id (&staged())[LENGTH]
{
    __shared__ Id ids[LENGTH];
    return ids;
}

// Call start() before the edges of every row, visit(got, u, v, e, back) for each edge, and store(v, whole) after them.
// If not `whole`, other lane groups have parts of row v. `back` is the position of the reverse of edge e, if REVERSES.
template <int RUN, int DEPTH, int ABREAST, bool REVERSES, class Start, class Fetch, class Visit, class Store>
__device__ inline void segments(const LaneGroup& group, const Id* rows, const Id* neighbours, const Id* reverse,
                                EdgeId first, EdgeId last, Start start, Fetch fetch, Visit visit, Store store)
{
    constexpr int LANE_GROUPS_OF_BLOCK = BLOCK / 32 * LANE_GROUPS, TILE = RUN * LANE_GROUPS_OF_BLOCK;
    constexpr Id NONE = 0xffffffffu;
    auto& row_of = staged<Staged::ROWS, TILE + 2>();  // with the rows before and after the tile
    auto& neighbour_of = staged<Staged::NEIGHBOURS, TILE>();
    auto& reverse_of = staged<Staged::REVERSES, REVERSES ? TILE : 1>();
    const int mine = threadIdx.x / 32 * LANE_GROUPS + group.number;
    const int begin = mine / ABREAST * ABREAST * RUN + mine % ABREAST;
    for (EdgeId base = first + (EdgeId)TILE * blockIdx.x; base < last; base += (EdgeId)TILE * gridDim.x) {
        const int count = last - base < TILE ? int(last - base) : TILE;
        for (int i = threadIdx.x; i < count; i += BLOCK) {
            row_of[i + 1] = rows[base + i];
            neighbour_of[i] = neighbours[base + i];
            if (REVERSES) reverse_of[i] = reverse[base + i];
        }
        if (threadIdx.x == 0) {
            row_of[0] = base > first ? rows[base - 1] : NONE;
            row_of[count + 1] = base + count < last ? rows[base + count] : NONE;
        }
        __syncthreads();
        const int end = at_most((mine / ABREAST + 1) * ABREAST * RUN, count);
        if (!group.idle() && begin < end) {
            const int final = begin + (end - 1 - begin) / ABREAST * ABREAST;
            Id v = row_of[begin + 1];
            bool whole = ABREAST == 1 && row_of[begin] != v;
            start();
            for (int i = begin; i < end; i += DEPTH * ABREAST) {
                decltype(fetch(v, v, base, v)) got[DEPTH];
                _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                    const int there = at_most(i + d * ABREAST, final);  // no load waits behind a branch for an earlier one
                    const Id back = REVERSES ? reverse_of[there] : 0;
                    got[d] = fetch(neighbour_of[there], row_of[there + 1], base + there, back);
                }
                _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                    const int at = i + d * ABREAST;
                    if (at >= end) continue;
                    const Id row = row_of[at + 1];
                    if (row != v) {
                        store(v, whole);
                        start();
                        v = row, whole = ABREAST == 1;
                    }
                    visit(got[d], neighbour_of[at], v, base + at, REVERSES ? reverse_of[at] : 0);
                }
            }
            store(v, whole && row_of[end + 1] != v);
        }
        __syncthreads();
    }
}

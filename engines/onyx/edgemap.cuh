// edgemap (fig. 5.1, lines 46-75; folded as in fig. 6.3: the edge functions follow each other in `visit`). A warp
// processes 32 vertices. An exclusive prefix scan of their degrees forms one list of their edges, which is distributed
// evenly over the lanes. In the per-edge phase every lane finds one edge of the list by binary search. In the
// per-feature phase shuffles pass the edges to all lane groups, so that consecutive lanes process consecutive features
// of one edge.
#pragma once

#include "vertexmap.cuh"

struct Edge {
    Id row, other;  // the vertex that has the edge in its list, and its neighbour
    EdgeId at;         // its position
};

// Return the index of the last of 32 ascending numbers that is <= e; scan[0] is 0.
__device__ inline int binary_search(EdgeId e, const volatile EdgeId* scan)
{
    int found = 0;
    _Pragma("unroll") for (int step = 16; step > 0; step /= 2)
        if (scan[found + step] <= e) found += step;
    return found;
}

__device__ inline Edge find_edge(EdgeId e, EdgeId count, Id base, const volatile EdgeId* scan,
                                const volatile EdgeId* begin, const Id* neighbours)
{
    Edge edge = {0, 0, 0};
    if (e < count) {
        const int i = binary_search(e, scan);
        edge.row = base + i;
        edge.at = begin[i] + e;
        edge.other = neighbours[edge.at];
    }
    return edge;
}

// All lane groups visit up to 32 edges, one per lane of `some`; each fetches up to DEPTH of them before it processes the
// first.
template <int DEPTH, class Fetch, class Visit>
__device__ inline void visit_edges(const LaneGroup& group, const Edge& mine, unsigned some, Fetch fetch, Visit visit)
{
    constexpr int ROUNDS = (32 + LANE_GROUPS - 1) / LANE_GROUPS, AT_ONCE = DEPTH < ROUNDS ? DEPTH : ROUNDS;
    const int count = 32 - __clz(some);
    for (int first = 0; first < count; first += LANE_GROUPS * AT_ONCE) {
        decltype(fetch(mine.row, mine.other, mine.at)) got[AT_ONCE];
        Edge edge[AT_ONCE];
        _Pragma("unroll") for (int d = 0; d < AT_ONCE; ++d) {
            // the last edge replaces missing ones, so that no load waits behind a branch for an earlier one
            const int lane = first + d * LANE_GROUPS + group.number;
            const int there = lane < count && some >> lane & 1u ? lane : count - 1;
            edge[d].row = __shfl_sync(WARP, mine.row, there);
            edge[d].other = __shfl_sync(WARP, mine.other, there);
            edge[d].at = __shfl_sync(WARP, mine.at, there);
        }
        if (group.idle()) continue;
        _Pragma("unroll") for (int d = 0; d < AT_ONCE; ++d) got[d] = fetch(edge[d].row, edge[d].other, edge[d].at);
        _Pragma("unroll") for (int d = 0; d < AT_ONCE; ++d) {
            const int lane = first + d * LANE_GROUPS + group.number;
            if (lane < count && some >> lane & 1u) visit(got[d], edge[d].row, edge[d].other, edge[d].at);
        }
    }
}

// Shared memory for the lists of a warp, the same for all uses in a kernel.
__device__ inline void lists_of_warp(volatile EdgeId** scan, volatile EdgeId** begin)
{
    __shared__ volatile EdgeId scans[BLOCK / 32][32], begins[BLOCK / 32][32];
    *scan = scans[threadIdx.x / 32];
    *begin = begins[threadIdx.x / 32];
}

// Visit the edges of the `wanted` vertices first .. last - 1, 32 at a time. Every lane calls phase(mine, count); `mine`
// is its edge of the `count` edges (at least 1). PIPELINE: search for the next edges before processing the current ones
// (fig. 5.3). AHEAD: as in to_visit. Vertices of MANY edges or more are left to edgemap_parts; MANY = 0: none are.
template <bool PIPELINE, bool AHEAD = false, EdgeId MANY = 0, class Wanted, class Phase>
__device__ inline void per_edge(const EdgeId* offsets, const Id* neighbours, Id first, Id last, Wanted wanted,
                                Phase phase)
{
    volatile EdgeId *scan, *begin;
    lists_of_warp(&scan, &begin);
    const int lane = lane_id();
    wanted_chunks<AHEAD>(first, last, 32, wanted, [&](Id base, unsigned some) {
        const Id vertex = base + lane;
        const bool listed = some >> lane & 1u;
        const EdgeId start = listed ? offsets[vertex] : 0;
        EdgeId degree = listed ? offsets[vertex + 1] - start : 0;
        if (MANY && degree >= MANY) degree = 0;
        EdgeId sum = degree;
        _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
            const EdgeId before = __shfl_up_sync(WARP, sum, offset);
            if (lane >= offset) sum += before;
        }
        __syncwarp();
        scan[lane] = sum - degree;
        begin[lane] = start - (sum - degree);
        __syncwarp();
        const EdgeId count = __shfl_sync(WARP, sum, 31);
        Edge next = find_edge(lane, count, base, scan, begin, neighbours);
        for (EdgeId e = 0; e < count; e += 32) {
            const Edge mine = PIPELINE || e == 0 ? next : find_edge(e + lane, count, base, scan, begin, neighbours);
            if (PIPELINE) next = find_edge(e + 32 + lane, count, base, scan, begin, neighbours);
            phase(mine, count - e < 32 ? int(count - e) : 32);
        }
    });
}

// Call visit(got, row, other, at) for every edge in the lists of wanted vertices.
template <bool PIPELINE, int DEPTH, EdgeId MANY = 0, class Wanted, class Fetch, class Visit>
__device__ inline void edgemap(const LaneGroup& group, const EdgeId* offsets, const Id* neighbours, Id first, Id last,
                               Wanted wanted, Fetch fetch, Visit visit)
{
    per_edge<PIPELINE, false, MANY>(offsets, neighbours, first, last, wanted, [&](const Edge& mine, int count) {
        visit_edges<DEPTH>(group, mine, WARP >> (32 - count), fetch, visit);
    });
}

// Do the same over equal tiles of edges, regardless of the degrees, for the edges that are `listed`. `rows`: for each
// edge, the vertex whose list it is in.
template <int DEPTH, class Listed, class Fetch, class Visit>
__device__ inline void edgemap_tiles(const LaneGroup& group, const Id* rows, const Id* neighbours,
                                     EdgeId first, EdgeId last, Listed wanted, Fetch fetch, Visit visit)
{
    for (EdgeId e = first + (EdgeId)32 * warp_of_grid(); e < last; e += (EdgeId)32 * warps_of_grid()) {
        Edge mine = {0, 0, e + lane_id()};
        if (mine.at < last) mine.row = rows[mine.at];
        const bool listed = mine.at < last && wanted(mine.row, mine.at);
        if (listed) mine.other = neighbours[mine.at];
        visit_edges<DEPTH>(group, mine, __ballot_sync(WARP, listed), fetch, visit);
    }
}

// Change tracking: marks of active sources, and edges whose messages were sent (thesis ch. 4).
#pragma once

#include "edgemap.cuh"

// Mark the destinations of active sources; return the number of edges that this lane has visited.
template <class Active>
__device__ inline Count mark(const EdgeId* offsets, const Id* neighbours, Id first, Id last, Active active, bool* dirty)
{
    Count followed = 0;
    per_edge<true, true>(offsets, neighbours, first, last, active,
                   [&](const Edge& edge, int count) {
                       if (lane_id() >= count) return;
                       if (!dirty[edge.other]) dirty[edge.other] = true;  // concurrent writes of the same value
                       ++followed;
                   });
    return followed;
}

// edgemap for the edges of wanted vertices that are `listed` themselves.
template <bool PIPELINE, int DEPTH, class Wanted, class Listed, class Fetch, class Visit>
__device__ inline void edgemap_listed(const LaneGroup& group, const EdgeId* offsets, const Id* neighbours,
                                      Id first, Id last, Wanted wanted, Listed listed, Fetch fetch, Visit visit)
{
    per_edge<PIPELINE>(offsets, neighbours, first, last, wanted, [&](const Edge& mine, int count) {
        const bool some = lane_id() < count && listed(mine.row, mine.at);
        visit_edges<DEPTH>(group, mine, __ballot_sync(WARP, some), fetch, visit);
    });
}

// Return the number of edges of dirty vertices that this thread has counted; clear the flags of the next superstep.
__device__ inline Count count_edges(const EdgeId* offsets, Id first, Id last, const bool* dirty, bool* next)
{
    Count edges = 0;
    for (Id u = first + 32 * warp_of_grid() + lane_id(); u < last; u += 32 * warps_of_grid()) {
        if (dirty[u]) edges += offsets[u + 1] - offsets[u];
        next[u] = false;
    }
    return edges;
}

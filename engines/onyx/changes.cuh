// Change tracking: what active sources ask of others, and what they have sent (thesis ch. 4).
#pragma once

#include "edgemap.cuh"

// Mark the destinations of active sources; returns the arcs that this lane has followed.
__device__ inline Count mark(const Arc* offsets, const Id* neighbours, Id first, Id last, const bool* active, bool* dirty)
{
    Count followed = 0;
    per_edge<true>(offsets, neighbours, first, last, [&](Id u) { return active[u]; },
                   [&](const Edge& edge, int count) {
                       if (lane_id() >= count) return;
                       dirty[edge.other] = true;  // many write the same
                       ++followed;
                   });
    return followed;
}

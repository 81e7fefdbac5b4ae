// Pushes along the edges of vertices of many edges, which are split into parts of equal size (Sabet et al. 2018, virtual
// nodes); a warp takes a part at a time. A hub then occupies many warps, and a superstep with few active vertices reads
// no other edges.
#pragma once

#include "gather.cuh"

// Call visit(got, row, other, at) for every edge of the parts of wanted vertices. `rows`: the vertex of each part;
// `numbers`: the number of the part among those of its vertex. SIZE: the edges of a part. A lane group fetches DEPTH of
// them before it visits the first. Consecutive parts, which often have one vertex, go to different warps.
template <EdgeId SIZE, int DEPTH, class Wanted, class Fetch, class Visit>
__device__ inline void edgemap_parts(const LaneGroup& group, const Id* rows, const Id* numbers, const EdgeId* offsets,
                                     const Id* neighbours, Id first, Id last, Wanted wanted, Fetch fetch, Visit visit)
{
    const Id stride = warps_of_grid();
    for (Id base = first + warp_of_grid(); base < last; base += 32 * stride) {
        const Id part = base + lane_id() * stride;
        const Id mine = part < last ? rows[part] : 0;
        const bool listed = part < last && wanted(mine);
        const EdgeId start = listed ? offsets[mine] + SIZE * numbers[part] : 0;
        const EdgeId stop = listed ? at_most(start + SIZE, offsets[mine + 1]) : 0;
        for (unsigned some = __ballot_sync(WARP, listed); some; some &= some - 1) {
            const int lane = __ffs(some) - 1;
            const Id row = __shfl_sync(WARP, mine, lane);
            const EdgeId begin = __shfl_sync(WARP, start, lane), end = __shfl_sync(WARP, stop, lane);
            for (EdgeId e = begin + group.number; !group.idle() && e < end; e += LANE_GROUPS * DEPTH)
                visit_some<LANE_GROUPS, DEPTH>(
                    row, e, end, neighbours, [&](Id other, Id, EdgeId at) { return fetch(row, other, at); },
                    [&](const auto& got, Id other, Id, EdgeId at) { visit(got, row, other, at); });
            __syncwarp();
        }
    }
}

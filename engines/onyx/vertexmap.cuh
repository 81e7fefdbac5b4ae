// vertexmap (fig. 5.1, lines 76-97): a warp processes 32 vertices, whose features its teams share.
#pragma once

#include "run.cuh"

__device__ inline Id warp_of_grid() { return (blockIdx.x * BLOCK + threadIdx.x) / 32; }
__device__ inline Id warps_of_grid() { return gridDim.x * (BLOCK / 32); }

template <class Index> __device__ inline Index at_most(Index i, Index last) { return i < last ? i : last; }

struct Every {  // all vertices
    __device__ bool operator()(Id) const { return true; }
    __device__ bool operator()(Id, EdgeId) const { return true; }  // all edges
};

// Call function(v) for every vertex of first .. last - 1 that is `wanted`; the lanes of a team call it together. Flags
// of vertices are bytes, which are set without atomics; a warp combines its 32 into a bit-vector by a ballot.
template <class Wanted, class VertexFunction>
__device__ inline void vertexmap(const Team& team, Id first, Id last, Wanted wanted, VertexFunction function)
{
    for (Id base = first + 32 * warp_of_grid(); base < last; base += 32 * warps_of_grid()) {
        const Id mine = base + lane_id();
        const unsigned some = __ballot_sync(WARP, mine < last && wanted(mine));
        for (int i = team.number; i < 32; i += TEAMS)
            if (!team.idle() && some >> i & 1u) function(base + i);
        __syncwarp();
    }
}

// vertexmap (fig. 5.1, lines 76-97): a warp takes 32 vertices, its teams share their features.
#pragma once

#include "run.cuh"

__device__ inline Id warp_of_grid() { return (blockIdx.x * BLOCK + threadIdx.x) / 32; }
__device__ inline Id warps_of_grid() { return gridDim.x * (BLOCK / 32); }

// function(v) for every vertex of first .. last - 1; the lanes of a team run it together.
template <class VertexFunction>
__device__ inline void vertexmap(const Team& team, Id first, Id last, VertexFunction function)
{
    for (Id base = first + 32 * warp_of_grid(); base < last; base += 32 * warps_of_grid()) {
        for (int i = team.number; i < 32; i += TEAMS) {
            const Id v = base + i;
            if (!team.idle() && v < last) function(v);
        }
    }
}

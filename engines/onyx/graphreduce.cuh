// Reductions over the vertices of the graph: the lane groups of the grid share the vertices, the lane groups of a block
// combine their values, and the last block combines those of all blocks.
#pragma once

#include "vertexmap.cuh"

constexpr Id LANE_GROUPS_OF_BLOCK = BLOCK / 32 * LANE_GROUPS;

// Return the first vertex of a lane group; the lane groups of a block take one each of first .. last - 1. Spare lanes
// have none.
__device__ inline Id share_of_group(const LaneGroup& group, Id first, Id last)
{
    return group.idle() ? last : first + threadIdx.x / 32 * LANE_GROUPS + group.number;
}
__device__ inline Id groups_of_grid() { return gridDim.x * LANE_GROUPS_OF_BLOCK; }

// Combine the values that the lane groups of a warp hold of the same feature; all of their lanes get the result.
template <class Operation> __device__ inline float groups_combined_in_warp(float value)
{
    if constexpr (32 % LANES == 0) {
        _Pragma("unroll") for (int offset = 16; offset >= LANES; offset /= 2)
            value = Operation()(value, __shfl_xor_sync(WARP, value, offset));
        return value;
    } else {
        const int member = lane_id() % LANES;
        float result = __shfl_sync(WARP, value, member);
        _Pragma("unroll") for (int group = 1; group < LANE_GROUPS; ++group)
            result = Operation()(result, __shfl_sync(WARP, value, group * LANES + member));
        return result;
    }
}

// Combine the values that the lane groups of a block hold of the same feature; every thread calls this and gets the
// result.
template <class Operation> __device__ inline float groups_combined_in_block(float value)
{
    __shared__ float of_warp[BLOCK / 32][LANES];
    value = groups_combined_in_warp<Operation>(value);
    if (lane_id() < LANES) of_warp[threadIdx.x / 32][lane_id()] = value;
    __syncthreads();
    value = of_warp[0][lane_id() % LANES];
    _Pragma("unroll") for (int warp = 1; warp < BLOCK / 32; ++warp)
        value = Operation()(value, of_warp[warp][lane_id() % LANES]);
    __syncthreads();
    return value;
}

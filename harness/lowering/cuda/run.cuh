// What a run keeps on the device: its progress, bit-vectors of vertices, counts. The host only looks at them.
#pragma once

#include "teams.cuh"

typedef unsigned int Bits;       // 32 vertices of a bit-vector
typedef long long Count;

struct Run {
    Count superstep;   // supersteps done
    Count limit;       // those asked for
    Count settled;     // nothing moves any more
    Count active;      // sources that were active before this superstep
    Count moved;       // sources found moved, or active, in this one
    Count edges;       // arcs visited in this one
    Count rebuilding;  // this superstep builds kept accumulators anew from all messages
    Count confirming;  // no source is active; accumulators are built anew to see whether that stays
    Count dense;       // groups that gathered everything in this superstep

    // Supersteps are queued ahead of the news that a run has settled: those too many do nothing.
    __device__ bool over() const { return settled || superstep >= limit; }
};

__device__ inline bool is_set(const Bits* bits, Id v) { return bits[v / 32] >> (v % 32) & 1u; }
__device__ inline void set_bit(Bits* bits, Id v) { atomicOr(bits + v / 32, 1u << (v % 32)); }
__device__ inline void clear_bit(Bits* bits, Id v) { atomicAnd(bits + v / 32, ~(1u << (v % 32))); }

// Add up what all threads of the grid counted; every thread of a block calls this, once.
__device__ inline void add_counts(Count* target, Count mine)
{
    __shared__ Count sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(WARP, mine, offset);
    if (lane_id() == 0 && mine) atomicAdd(reinterpret_cast<unsigned long long*>(&sum), (unsigned long long)mine);
    __syncthreads();
    if (threadIdx.x == 0 && sum) atomicAdd(reinterpret_cast<unsigned long long*>(target), (unsigned long long)sum);
    __syncthreads();
}

// What every superstep did, for the statistics; written by the last kernel of a superstep, read when a run ends.
struct Past {
    Count active, edges;
};

__device__ inline void end_superstep(Run* run, Past* past, Count first, Count edges, Count sides, bool settles)
{
    past[run->superstep - first] = {run->active, edges};
    run->active = run->moved;
    run->moved = 0;
    run->superstep += 1;
    if (run->active == 0 && settles && run->superstep >= sides) run->settled = 1;
}

// The state of a run on the device: its progress, frontiers, counters. The host only reads it.
#pragma once

#include "lane_groups.cuh"

typedef long long Count;

// What every run has; the base, which is generated, has the fields that an engine adds.
struct Run : Extension {
    Count superstep;   // completed supersteps
    Count limit;       // requested supersteps
    Count first;       // supersteps before this call, whose records begin there
    Count settled;     // nothing moves
    Count active;      // sources that were active before this superstep
    Count moved;       // sources that have moved, or are active, in this superstep
    Count edges;       // visited edges of this superstep
    Count dense;       // edge stages with full propagation in this superstep, although changes are tracked
    Count rebuilding;  // this superstep rebuilds kept accumulators from all messages
    Count within;      // this superstep's movement was measured and meets the program's criterion
    Count confirming;  // no source is active; accumulators are rebuilt to confirm it

    Count sides;       // 2: supersteps alternate the sides of a bipartite graph
    Count settles;     // the program ends when nothing moves
    Count rebuild;     // supersteps of a side between rebuilds of accumulators; 0: never
    Count dense_edges;  // a frontier with more edges than these uses full propagation
    Count rebuild_edges;  // a frontier with at least these edges rebuilds accumulators, which costs no more; 0: never
    Count always[2];   // edges that a superstep of each side always visits
    Count frontier[GROUPS][2];  // out-edges of the active sources of an edge stage: in even and odd supersteps

    // Supersteps are queued before it is known that a run has settled; the excess ones do nothing.
    __device__ bool over() const { return settled || superstep >= limit; }
    __device__ bool sparse(int group) const { return frontier[group][superstep & 1] <= dense_edges; }
};

// Sum the counts of all threads of the grid; every thread of a block calls this, once.
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

// Return whether all other blocks of the grid have called this before, so that their writes can be read; every thread
// calls this. The counter resets itself.
__device__ inline bool last_block(Id* ticket)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// Statistics of a superstep; written by its last kernel, read when a run ends.
struct Past {
    Count active, edges, dense;
    Count sent;  // out-edges of the sources that were active before it, of the edge stage with most; more than all: all
    Count limit;  // Run::rebuild_edges by which it was decided whether it rebuilds
};

__device__ inline void end_superstep(Run* run, Past* past)
{
    const Count visited = run->edges + run->always[run->superstep % run->sides];
    Count sent = 0;
    for (int group = 0; group < GROUPS; ++group) {
        const Count edges = run->frontier[group][run->superstep & 1];
        if (edges > sent) sent = edges;
        run->frontier[group][run->superstep & 1] = 0;
    }
    past[run->superstep - run->first] = {run->active, visited, run->dense, sent, run->rebuild_edges};
    run->active = run->moved;
    run->moved = run->edges = run->dense = 0;
    run->superstep += 1;
    // A run ends once a superstep that rebuilds accumulators moves nothing. Any movement is propagated as changes.
    run->confirming = run->active == 0 && run->settles && run->superstep >= run->sides;
    if (run->confirming && (run->rebuild == 0 || run->rebuilding)) run->settled = 1;
    const Count turn = run->superstep / run->sides;
    run->rebuilding = turn == 0 || run->confirming || (run->rebuild > 0 && turn % run->rebuild == 0);
    for (int group = 0; group < GROUPS; ++group)
        if (run->rebuild_edges && run->frontier[group][run->superstep & 1] >= run->rebuild_edges) run->rebuilding = 1;
}

// Run after the end of a superstep whose movement may have been measured.
__device__ inline void settle_if_within(Run* run)
{
    if (run->within) run->settled = 1;
    run->within = 0;
}

// What a run keeps on the device: its progress, frontiers, counts. The host only looks at them.
#pragma once

#include "teams.cuh"

typedef long long Count;

struct Run {
    Count superstep;   // supersteps done
    Count limit;       // those asked for
    Count first;       // done before this call, whose records begin there
    Count settled;     // nothing moves any more
    Count active;      // sources that were active before this superstep
    Count moved;       // sources found moved, or active, in this one
    Count edges;       // edges counted in this one
    Count dense;       // edge stages that went over everything in this one, though changes are tracked
    Count rebuilding;  // this superstep builds kept accumulators anew from all messages
    Count within;      // this superstep's movement has been measured and meets the program's criterion
    Count confirming;  // no source is active; accumulators are built anew to see whether that stays

    Count untracked;  // turns left, this one among them, in which everything is propagated and no changes are tracked
    Count resuming;   // the turn behind these: everything counts as dirty and active, and is tracked again
    Count crowded;    // turns one after another in which nearly everything moved
    Count stretch;    // turns of the last stretch that went untracked, or were to
    Count found;      // edges of sources that moved, in this turn so far
    Count movers;     // what moved in this turn so far
    Count usual;      // what moved in the first of the untracked turns
    Count entered;    // edges of sources that had moved in the turn before these
    Count before;     // what moved in the turn before

    Count sides;       // 2: supersteps alternate the sides of a bipartite graph
    Count settles;     // whether the program ends when nothing moves
    Count rebuild;     // supersteps of a side between building accumulators anew; 0: never
    Count dense_edges;  // a frontier with more edges than these goes over everything
    Count dense_rows;  // an edge update whose dirty rows have more edges than these goes over everything
    Count rebuild_edges;  // one with as many as these has accumulators built anew, which is no more work; 0: never so
    Count may_pause;   // whether supersteps may go untracked: else the kernels that they take are not queued
    Count untracked_edges;  // sources that moved have so many in a turn: nearly everything moves; 0: never untracked
    Count reductions;  // a bit for every edge stage that reduces
    Count at_once;     // of those, the ones whose sources moved in the same superstep
    Count patience;    // turns in which nearly everything moved, before some go untracked
    Count full[2];     // edges that an untracked superstep of each side visits
    Count always[2];   // edges that a superstep of each side visits whatever happens
    Count frontier[GROUPS][2];  // edges that leave the active sources of an edge stage: in even and odd supersteps

    // Supersteps are queued ahead of the news that a run has settled: those too many do nothing.
    __device__ bool over() const { return settled || superstep >= limit; }
    __device__ bool sparse(int group) const { return frontier[group][superstep & 1] <= dense_edges; }
    __device__ bool sparse_rows(int group) const { return frontier[group][superstep & 1] <= dense_rows; }
};

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
    Count active, edges, dense;
};

__device__ inline void end_superstep(Run* run, Past* past)
{
    past[run->superstep - run->first] = {run->active, run->edges + run->always[run->superstep % run->sides], run->dense};
    for (int group = 0; group < GROUPS; ++group) run->frontier[group][run->superstep & 1] = 0;
    run->active = run->moved;
    run->moved = run->edges = run->dense = 0;
    run->superstep += 1;
    // A run ends once a superstep that rebuilds accumulators moves nothing. What it moves is propagated as changes.
    run->confirming = run->active == 0 && run->settles && run->superstep >= run->sides;
    if (run->confirming && (run->rebuild == 0 || run->rebuilding)) run->settled = 1;
    const Count turn = run->superstep / run->sides;
    run->rebuilding = turn == 0 || run->confirming || (run->rebuild > 0 && turn % run->rebuild == 0);
    for (int group = 0; group < GROUPS; ++group)
        if (run->rebuild_edges && run->frontier[group][run->superstep & 1] >= run->rebuild_edges) run->rebuilding = 1;
}

// Behind the end of a superstep whose movement may have been measured.
__device__ inline void settle_if_within(Run* run)
{
    if (run->within) run->settled = 1;
    run->within = 0;
}

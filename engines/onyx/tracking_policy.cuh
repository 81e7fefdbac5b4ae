// Change tracking pauses while nearly everything moves. The fields that this adds to a run: cuda_tracking_policy.py.
#pragma once

#include "run.cuh"

constexpr Count SHORT_STRETCH = 8, LONG_STRETCH = 32;  // turns without tracking; a turn updates every side once
constexpr Count PUSHED_EDGE = 1 << 20;  // of cuda_tracking_policy.py
constexpr Count FALLING = 3;  // movement falls fast if it is less than 1 / FALLING of that in the previous turn

// End a turn. While nearly everything moves, recording and comparing sent values takes longer than it saves. After
// several such turns the next ones run without tracking, with full propagation: a stretch of turns. It ends at once when
// less seems to move than makes tracking pause. When its turns have passed, it ends in the first turn in which no more
// than a multiple of that seems to move. Then one turn treats everything as dirty and active, and records what it sends.
// A run may begin with a stretch of unlimited length, in which movement is known exactly. If movement falls so fast that
// the run ends soon, tracking does not resume.
__device__ inline void end_turn(Run* run)
{
    run->resuming = 0;
    if (run->untracked) {
        if (run->usual == 0) run->usual = run->movers;
        const double moving = double(run->entered) * run->movers, usual = run->usual;  // moving / usual: their edges
        const bool ending = run->stretch > LONG_STRETCH && FALLING * run->movers < run->before;
        run->untracked -= 1;
        if (run->untracked == 0 && moving >= run->lasting_edges * usual) run->untracked = 1;
        if (moving < run->untracked_edges * usual && !ending) run->untracked = 0;
        run->resuming = run->untracked == 0;
        run->crowded = 0;
    } else if (run->found < run->untracked_edges) {
        run->crowded = run->stretch = 0;
    } else if (++run->crowded >= run->patience && run->may_pause) {
        run->stretch = run->stretch == 0 ? SHORT_STRETCH : run->stretch < LONG_STRETCH ? 2 * run->stretch : LONG_STRETCH;
        run->untracked = run->stretch;
        run->entered = run->found;
        run->usual = 0;
    }
    run->before = run->movers;
    run->found = run->movers = 0;
}

// Return whether an edge update processes only its dirty rows, since these have few edges.
__device__ inline bool sparse_rows(const Run* run, int group)
{
    return run->frontier[group][run->superstep & 1] <= run->dense_rows;
}

// End a superstep in which a pull reads only edges that may improve a vertex. The next pull is expected to take as long as
// this one, because ever fewer vertices can be improved, so that it is worth while from fewer edges of moved sources.
__device__ inline void end_expecting(Run* run, Past* past)
{
    const Count limit = run->rebuild_edges;
    if (run->rebuilding) {
        const Count expected = (run->edges * run->edge_cost + run->wanted * run->vertex_cost) / PUSHED_EDGE;
        if (expected < limit) run->rebuild_edges = expected > 1 ? expected : 1;
    }
    run->wanted = 0;
    Past* const record = past + (run->superstep - run->first);
    end_superstep(run, past);
    record->limit = limit;
}

// End a superstep that may have been untracked.
__device__ inline void end_or_pause(Run* run, Past* past)
{
    if (run->untracked) {
        run->edges += run->full[run->superstep % run->sides];
        run->dense += 1;
    }
    for (int group = 0; group < GROUPS; ++group) {
        const Count at_once = run->at_once >> group & 1;
        // if sources are read in the same superstep, the turn that resumes treats all as moved, and the next one
        // measures
        if (run->reductions >> group & 1) run->found += run->frontier[group][(run->superstep + 1 - at_once) & 1];
    }
    run->movers += run->moved;
    const Count confirming = run->confirming;
    end_superstep(run, past);
    if (run->resuming) {
        // Sent values are from before the pause. A value that has returned to one would seem unmoved.
        run->settled = 0;
        run->confirming = confirming;
    }
    if (run->superstep % run->sides == 0) end_turn(run);
    if (!run->untracked && !run->resuming) return;
    run->rebuilding = 1;
    for (int group = 0; group < GROUPS; ++group) run->frontier[group][run->superstep & 1] = run->dense_rows + 1;
}

// Kernels fused around push and pull (Liu & Huang 2019, sec. 5, table 2): one launch runs many supersteps, with a
// global barrier between their steps. Values in registers stay there. Every block decides for itself whether to
// continue, from values that all of them see after a barrier.
#pragma once

#include "run.cuh"
#include "barrier.cuh"
#include "superstep.cuh"

enum class Fused { PUSH, PULL, ALL };

template <Fused FUSED, class Steps> __device__ inline void fused(const Steps& steps, GlobalBarrier barrier, Past* past)
{
    Run* const run = steps.run;
    if (run->over()) return;
    const bool leader = blockIdx.x == 0 && threadIdx.x == 0;
    const Count limit = run->limit;
    typename Steps::Bins bin(steps.bins, 0);
    Count s = run->superstep;
    Tasks work = *steps.manager->of(s);  // at the begin of the superstep
    bool settled = false, failed = false;
    while (s < limit && !settled) {
        Tasks *const now = steps.manager->of(s), *const next = steps.manager->of(s + 1);
        const bool pulls = steps.pulls(&work);
        if (FUSED != Fused::ALL && pulls != (FUSED == Fused::PULL)) break;  // the direction changes
        if (leader) *steps.manager->of(s + 2) = Tasks{};
        bin.count = 0;
        if (FUSED == Fused::PUSH || (FUSED == Fused::ALL && !pulls)) {
            steps.template push<Block>(2, work.listed[2], bin, s);
            steps.template push<Warp>(1, work.listed[1], bin, s);
            steps.template push<Thread>(0, work.listed[0], bin, s);
        } else {
            Count visited = 0;
            steps.template pull<Block>(2, bin, s, visited);
            steps.template pull<Warp>(1, bin, s, visited);
            steps.template pull<Thread>(0, bin, s, visited);
            if (steps.manager->votes) add_counts(&now->visited, visited);
        }
        bin.report(now);
        barrier.wait();
        work = *now;
        failed = steps.fails(&work, s);
        if (failed) break;
        if (leader) past[s - run->first] = {work.active(), steps.visited(&work), steps.how(&work, s)};
        if (steps.scans(&work, s)) {
            steps.scan(next);
            barrier.wait();
            steps.write(next);
        } else {
            steps.join(bin, next);
        }
        barrier.wait();
        work = *next;
        settled = run->settles && work.active() == 0;
        ++s;
    }
    if (!leader) return;
    run->superstep = s;
    run->settled = settled || failed;
    steps.manager->failed = failed;
}

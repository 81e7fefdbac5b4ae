// Near-far in one launch, by as many blocks as are resident; near_far.cu comes before this text. Global barriers separate
// the steps.

// Makes the list that follows short ones the near list of its superstep. No block reads these counters meanwhile.
__device__ inline void turn_lists(State* state)
{
    state->superstep = seen(&state->reached);
    state->left = seen(&state->leaves);
    const int even = state->superstep & 1;
    state->near[even] = seen(&state->listed);
    state->near[1 - even] = state->listed = 0;
    state->pieces[0] = state->pieces[1] = 0;
}

// A run in one launch. It starts with all counters at zero and `best` at WORST.
extern "C" __global__ void __launch_bounds__(BLOCK, 2) near_far(ARRAYS)
{
    GlobalBarrier barrier(lock);
    RUN(WORST, 0, 0);
    run.begin(items);
    barrier.wait();
    bool all = true;
    Item supersteps = 0;
    while (true) {
        const Item waiting = seen(state->far + run.pile);
        if (!waiting) break;
        run.find_best(waiting, all);
        barrier.wait();
        const float best = __int_as_float(seen(&state->best));
        if (best == WORST) break;
        const float threshold = advanced(best, parameters);
        run.split(waiting, all, threshold);
        run.threshold = threshold;
        all = false;
        barrier.wait([&] { turn_pile(state, run.pile); });
        run.pile = 1 - run.pile;
        ++run.superstep;
        // Counters are read together, and supersteps are counted by threads: each access to memory delays all blocks.
        Item count = seen(state->near + (run.superstep & 1)), left = 0;
        while (count) {
            const Item before = run.superstep;
            if (SHORT && count <= SHORT && !left) {
                if (blockIdx.x == 0) run.send_short(count);
                barrier.wait([&] { turn_lists(state); });
                run.superstep = seen(&state->superstep), left = seen(&state->left);
                count = seen(state->near + (run.superstep & 1));
            } else {
                const int even = run.superstep & 1;
                run.send_near(count);
                barrier.wait([&] {
                    state->near[even] = 0;
                    state->pieces[1 - even] = 0;
                });
                const Item parts = seen(state->pieces + even);
                count = seen(state->near + 1 - even), left = 0;
                if (parts) {
                    run.send_pieces(parts);
                    barrier.wait();
                    count = seen(state->near + 1 - even);
                }
                ++run.superstep;
            }
            supersteps += run.superstep - before;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) state->supersteps = supersteps;
    add_edges(state, run.edges);
}

// Near-far with a launch for each step; near_far.cu comes before this text. The host reads the counters of the lists.
// Kernels read superstep and pile themselves, so that launches can be recorded once.
#define NOW() RUN(__int_as_float(state->threshold), state->superstep, state->pile)

extern "C" __global__ void __launch_bounds__(BLOCK, 2) begin_pile(ARRAYS)
{
    NOW();
    run.begin(items);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2) find_best(ARRAYS)
{
    NOW();
    run.find_best(state->far[run.pile], state->thresholds == 0);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2) split_pile(ARRAYS)
{
    NOW();
    const float best = __int_as_float(state->best);
    if (best != WORST) run.split(state->far[run.pile], state->thresholds == 0, advanced(best, parameters));
}

extern "C" __global__ void end_split(State* state, const float* parameters)
{
    const float best = __int_as_float(state->best);
    if (best == WORST) return;
    state->threshold = __float_as_int(advanced(best, parameters));
    turn_pile(state, state->pile);
    state->pile = 1 - state->pile;
    ++state->superstep;
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2) send_list(ARRAYS)
{
    NOW();
    run.send_near(state->near[run.superstep & 1]);
    add_edges(state, run.edges);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2) send_parts(ARRAYS)
{
    NOW();
    run.send_pieces(state->pieces[run.superstep & 1]);
    add_edges(state, run.edges);
}

extern "C" __global__ void end_superstep(State* state)
{
    const int even = state->superstep & 1;
    state->supersteps += state->near[even] != 0;
    state->near[even] = state->pieces[even] = 0;
    ++state->superstep;
}

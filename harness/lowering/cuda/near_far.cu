// Near-far in one launch, by as many blocks as are resident; global barriers separate its steps. An item is a feature of
// a vertex: vertex * LANES + feature.
//
// The source before this text defines BLOCK (threads), LANES_OF_GROUP (lanes that share an item's edges, a power of two
// up to 32), LONG (edges; items of more are cut into pieces of as many, which blocks share), LANES, LEAST (1 if the least
// value is the best, else 0), WORST, the value of vertices that nothing has reached, and the class Message.
// ARRAYS stands for the parameters of all kernels. GIVEN is the inputs of edges among them, as arguments of Message.

typedef long long Position;
typedef unsigned int Item;
typedef unsigned long long Total;

constexpr Item ROOM = 1024;             // items that a block collects before it appends them to a list
constexpr Item LANE_GROUPS = BLOCK / LANES_OF_GROUP;  // of a block

// Counters in pairs: one is in use, and one is empty. `best`: of the far pile, as the bits of a float.
struct State {
    Item near[2], far[2], pieces[2];
    int best;
    Item supersteps, thresholds;
    int threshold;  // if each step is a launch
    Total edges;
    Item superstep, pile;  // likewise
};

__device__ inline bool better(float a, float b) { return LEAST ? a < b : a > b; }

// Other blocks write at the same time, or before the last barrier: reads go past the caches of multiprocessors.
template <class Value> __device__ inline Value seen(const Value* place) { return *(const volatile Value*)place; }

// Replaces a value by a better one; returns whether it did. Floats of one sign are ordered like their bits. `first`: look
// at the value before, which saves the atomic operation of most messages and takes another access to memory.
__device__ inline bool improve(float* place, float value, bool first)
{
    if (value != value || (first && !better(value, seen(place)))) return false;
    const int bits = __float_as_int(value);
    int* const whole = (int*)place;
    if (LEAST)
        return bits >= 0 ? bits < atomicMin(whole, bits) : unsigned(bits) > atomicMax((unsigned*)place, unsigned(bits));
    return bits >= 0 ? bits > atomicMax(whole, bits) : unsigned(bits) < atomicMin((unsigned*)place, unsigned(bits));
}

// Items that a block collects for a list, so that the list's counter is incremented once for many.
struct Collected {
    Item count, first;
    Item items[ROOM];
    __device__ Item held() const { return count < ROOM ? count : ROOM; }
};

__device__ inline void append(Collected& own, Item* list, Item* count, Item item)
{
    const Item at = atomicAdd(&own.count, 1u);
    if (at < ROOM) own.items[at] = item;
    else list[atomicAdd(count, 1u)] = item;
}

// Near and far lists are pairs, each list of as many items as there are. `noted`: the superstep for which an item was last
// listed. `waits`: 1 if an item is in the far pile.
struct Run {
    const Position* offsets;
    const Item* neighbours;
    float* values;
    Item *near_0, *near_1, *far_0, *far_1, *pieces;
    Item *noted, *waits;
    State* state;
    Message message;
    Collected *nearest, *others;  // of the block
    float threshold;
    Item superstep, pile;  // pile: which of the two far lists is in use
    Total edges;           // that this thread visited
    bool looks;            // at a value before an atomic operation on it

    __device__ Item* near(int which) const { return which ? near_1 : near_0; }
    __device__ Item* far(int which) const { return which ? far_1 : far_0; }
    __device__ int next() const { return (superstep + 1) & 1; }  // the near list that the next superstep sends
    __device__ bool is_near(float value) const { return !better(threshold, value); }

    __device__ void send(float value, Item lane, Position e)
    {
        const Item reached = neighbours[e] * Item(LANES) + lane;
        const float sent = message(value, e);
        ++edges;
        if (!improve(values + reached, sent, looks)) return;
        if (is_near(sent)) {
            if (atomicExch(noted + reached, superstep + 1) != superstep + 1) enter_near(reached);
        } else if (atomicExch(waits + reached, 1u) == 0) {
            enter_far(reached, pile);
        }
    }

    __device__ void enter_near(Item item) { append(*nearest, near(next()), state->near + next(), item); }
    __device__ void enter_far(Item item, int which) { append(*others, far(which), state->far + which, item); }

    // Appends what the block has collected to the next near list and to a far list. Every thread of a block calls this.
    __device__ void flush(int which)
    {
        __syncthreads();
        const Item listed = nearest->held(), piled = others->held();
        if (threadIdx.x == 0 && listed) nearest->first = atomicAdd(state->near + next(), listed);
        if (threadIdx.x == 32 % BLOCK && piled) others->first = atomicAdd(state->far + which, piled);
        __syncthreads();
        for (Item i = threadIdx.x; i < listed; i += BLOCK) near(next())[nearest->first + i] = nearest->items[i];
        for (Item i = threadIdx.x; i < piled; i += BLOCK) far(which)[others->first + i] = others->items[i];
        if (threadIdx.x == 0) nearest->count = others->count = 0;
        __syncthreads();
    }

    // All near items send, but those with many edges, which are cut into pieces. Neighbouring lane groups of a list are in
    // different blocks, so that a short list keeps all multiprocessors busy.
    __device__ void send_near(Item count)
    {
        const Item group = threadIdx.x / LANES_OF_GROUP, lane = threadIdx.x % LANES_OF_GROUP;
        looks = count > LANE_GROUPS * gridDim.x;  // else a superstep takes as long as its accesses one after another
        for (Item first = 0; first < count; first += LANE_GROUPS * gridDim.x) {
            const Item at = first + group * gridDim.x + blockIdx.x;
            if (at < count) {
                const Item item = seen(near(superstep & 1) + at);
                const Item u = item / Item(LANES), feature = item % Item(LANES);
                const float value = seen(values + item);
                const Position begin = offsets[u], end = offsets[u + 1];
                if (end - begin <= LONG) {
                    for (Position e = begin + lane; e < end; e += LANES_OF_GROUP) send(value, feature, e);
                } else if (lane == 0) {
                    const Item parts = Item((end - begin + LONG - 1) / LONG);
                    const Item place = atomicAdd(state->pieces + (superstep & 1), parts);
                    for (Item i = 0; i < parts; ++i) {
                        pieces[2 * Position(place + i)] = item;
                        pieces[2 * Position(place + i) + 1] = i;
                    }
                }
            }
            flush(pile);
        }
    }

    __device__ void send_pieces(Item count)
    {
        looks = true;
        for (Item at = blockIdx.x; at < count; at += gridDim.x) {
            const Item item = seen(pieces + 2 * Position(at)), part = seen(pieces + 2 * Position(at) + 1);
            const Item u = item / Item(LANES);
            const Position begin = offsets[u] + Position(part) * LONG, stop = begin + LONG;
            const Position end = stop < offsets[u + 1] ? stop : offsets[u + 1];
            const float value = seen(values + item);
            for (Position e = begin + threadIdx.x; e < end; e += BLOCK) send(value, item % Item(LANES), e);
            flush(pile);
        }
    }

    // The best value of the far pile, without items that have sent it.
    __device__ void find_best(Item count, bool all)
    {
        float mine = WORST;
        for (Item at = blockIdx.x * Item(BLOCK) + threadIdx.x; at < count; at += gridDim.x * Item(BLOCK)) {
            const float value = seen(values + seen(far(pile) + at));
            if ((all || !is_near(value)) && better(value, mine)) mine = value;
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, mine, offset);
            if (better(other, mine)) mine = other;
        }
        if (threadIdx.x % 32 == 0) improve((float*)&state->best, mine, true);
    }

    // Near items enter the near list, items that have sent their value are dropped, the others enter the other pile.
    __device__ void split(Item count, bool all, float next_threshold)
    {
        for (Item first = 0; first < count; first += gridDim.x * Item(BLOCK)) {
            const Item at = first + blockIdx.x * Item(BLOCK) + threadIdx.x;
            if (at < count) {
                const Item item = seen(far(pile) + at);
                const float value = seen(values + item);
                if (!all && is_near(value)) {
                    waits[item] = 0;
                } else if (better(next_threshold, value)) {
                    enter_far(item, 1 - pile);
                } else {
                    waits[item] = 0;
                    enter_near(item);
                }
            }
            flush(1 - pile);
        }
    }

    // All items with a value wait.
    __device__ void begin(Item count)
    {
        for (Item first = 0; first < count; first += gridDim.x * Item(BLOCK)) {
            const Item at = first + blockIdx.x * Item(BLOCK) + threadIdx.x;
            if (at < count) {
                const bool has_value = values[at] != WORST;
                noted[at] = 0;
                waits[at] = has_value;
                if (has_value) enter_far(at, pile);
            }
            flush(pile);
        }
    }
};

// What a kernel needs of its block: empty collections, and the run at some superstep and pile.
#define RUN(threshold, superstep, pile)                                                                          \
    __shared__ Collected nearest, others;                                                                        \
    if (threadIdx.x == 0) nearest.count = others.count = 0;                                                      \
    __syncthreads();                                                                                             \
    Run run{offsets, neighbours, values, near_0, near_1, far_0, far_1, pieces, noted, waits, state,              \
            Message{parameters GIVEN}, &nearest, &others, threshold, superstep, pile, 0, true}

// The threshold after one with this best value in the far pile; `delta` is the first parameter.
__device__ inline float advanced(float best, const float* parameters)
{
    const float threshold = LEAST ? best + parameters[0] : best - parameters[0];
    return better(best, threshold) ? threshold : best;
}

__device__ inline void turn_pile(State* state, Item pile)
{
    state->far[pile] = 0;
    state->pieces[0] = state->pieces[1] = 0;
    state->best = __float_as_int(WORST);
    ++state->thresholds;
}

__device__ inline void add_edges(State* state, Total edges)
{
    for (int offset = 16; offset > 0; offset /= 2) edges += __shfl_xor_sync(0xffffffffu, edges, offset);
    if (threadIdx.x % 32 == 0 && edges) atomicAdd(&state->edges, edges);
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
        for (Item count = seen(state->near + (run.superstep & 1)); count; ++run.superstep, ++supersteps) {
            const int even = run.superstep & 1;
            run.send_near(count);
            barrier.wait([&] {
                state->near[even] = 0;
                state->pieces[1 - even] = 0;
            });
            const Item parts = seen(state->pieces + even);
            count = seen(state->near + 1 - even);
            if (parts) {
                run.send_pieces(parts);
                barrier.wait();
                count = seen(state->near + 1 - even);
            }
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) state->supersteps = supersteps;
    add_edges(state, run.edges);
}

// The steps of near-far, by blocks of one launch. An item is a feature of a vertex: vertex * LANES + feature.
//
// The source before this text defines BLOCK (threads), LANES_OF_GROUP (lanes that share an item's edges, a power of two
// up to 32), LONG (edges; items of more are cut into pieces of as many, which blocks share), SHORT (items; a list of no
// more is sent by one block; 0: none is), LANES_OF_SHORT (lanes that share an item's edges in such a list), LANES, LEAST
// (1 if the least value is the best, else 0), WORST, the value of vertices that nothing has reached, and the class Message.
// ARRAYS stands for the parameters of all kernels. GIVEN is the inputs of edges among them, as arguments of Message.

typedef long long Position;
typedef unsigned int Item;
typedef unsigned long long Total;

constexpr Item ROOM = 1024;  // items that a block collects before it appends them to a list
constexpr Item LANE_GROUPS = BLOCK / LANES_OF_GROUP;  // of a block
constexpr int AHEAD = 2;  // edges that a lane fetches at once where their number is not known to be small
constexpr Position OF_LANE = 8, OF_LANE_OF_SHORT = 2;  // edges of an item, for each of its lanes, that warps do not share
constexpr Item MOST_EDGES = 2 * LONG;  // that warps share, of a short list; items with more are left for all blocks
constexpr Item MOST_SHORT = 1u << 16;  // short lists that a block sends; other blocks then go on, which fail if they wait for tens of seconds
static_assert(SHORT <= ROOM, "the list that follows a short one is collected by the block");

// Counters in pairs: one is in use, and one is empty. `best`: of the far pile, as the bits of a float.
struct State {
    Item near[2], far[2], pieces[2];
    int best;
    Item supersteps, thresholds;
    int threshold;  // if each step is a launch
    Total edges;
    Item superstep, pile;  // likewise; `superstep` also after short lists
    Item listed, reached;  // of the list that follows short ones: its length, and its superstep
    Item leaves, left;     // 1: it has items whose edges are too many for one block; before all blocks wait, and after
};

__device__ inline bool better(float a, float b) { return LEAST ? a < b : a > b; }

// Other blocks write at the same time, or before the last barrier: reads go past the caches of multiprocessors.
template <class Value> __device__ inline Value seen(const Value* place) { return *(const volatile Value*)place; }

// Replaces a value if the other one is better; returns the bits before. Floats of one sign are ordered like their bits.
__device__ inline int replaced(float* place, float value)
{
    const int bits = __float_as_int(value);
    int* const whole = (int*)place;
    unsigned* const positive = (unsigned*)place;
    if (LEAST) return bits >= 0 ? atomicMin(whole, bits) : int(atomicMax(positive, unsigned(bits)));
    return bits >= 0 ? atomicMax(whole, bits) : int(atomicMin(positive, unsigned(bits)));
}

// Returns whether a value has replaced these bits.
__device__ inline bool has_replaced(float value, int before)
{
    const int bits = __float_as_int(value);
    if (LEAST) return bits >= 0 ? bits < before : unsigned(bits) > unsigned(before);
    return bits >= 0 ? bits > before : unsigned(bits) < unsigned(before);
}

// Replaces a value by a better one; returns whether it did. `first`: look at the value before, which saves the atomic
// operation of most messages and takes another access to memory.
__device__ inline bool improve(float* place, float value, bool first)
{
    if (value != value || (first && !better(value, seen(place)))) return false;
    return has_replaced(value, replaced(place, value));
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

// Items whose edges all warps of a block share; `edges`: of a short list.
struct Rows {
    Item count, edges;
    Item items[LANE_GROUPS];
};

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
    Rows* rows;                   // likewise
    float threshold;
    Item superstep, pile;  // pile: which of the two far lists is in use
    Item edges;            // that this thread visited
    bool looks;            // at a value before an atomic operation on it
    bool alone;            // a block sends short lists

    __device__ Item* near(int which) const { return which ? near_1 : near_0; }
    __device__ Item* far(int which) const { return which ? far_1 : far_0; }
    __device__ int next() const { return (superstep + 1) & 1; }  // the near list that the next superstep sends
    __device__ Item* length() const { return alone ? &state->listed : state->near + next(); }  // of that list
    __device__ bool is_near(float value) const { return !better(threshold, value); }

    // Sends along `count` edges from `begin` on: this thread along number i, and so on with a stride. Accesses to memory
    // for DEPTH of them overlap.
    template <int DEPTH>
    __device__ void send(Item item, float value, Position begin, Item count, Item i, Item stride)
    {
        for (; i < count; i += stride * DEPTH) {
            Item reached[DEPTH];
            float sent[DEPTH];
            int before[DEPTH];
            bool improves[DEPTH], enters[DEPTH];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                const Item mine = i + d * stride, at = DEPTH == 1 || mine < count ? mine : count - 1;
                reached[d] = neighbours[begin + at] * Item(LANES) + item % Item(LANES);
                sent[d] = message(value, begin + at);
                improves[d] = at == mine && sent[d] == sent[d];
                edges += at == mine;
            }
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
                if (looks) improves[d] = improves[d] && better(sent[d], seen(values + reached[d]));
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
                if (improves[d]) before[d] = replaced(values + reached[d], sent[d]);
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                enters[d] = improves[d] && has_replaced(sent[d], before[d]);
                if (enters[d]) enters[d] = is_near(sent[d]) ? is_new(reached[d]) : starts_to_wait(reached[d]);
            }
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
                if (enters[d]) is_near(sent[d]) ? enter_near(reached[d]) : enter_far(reached[d], pile);
        }
    }

    __device__ bool is_new(Item item) { return atomicExch(noted + item, superstep + 1) != superstep + 1; }
    __device__ bool starts_to_wait(Item item) { return atomicExch(waits + item, 1u) == 0; }
    __device__ void enter_near(Item item) { append(*nearest, near(next()), length(), item); }
    __device__ void enter_far(Item item, int which) { append(*others, far(which), state->far + which, item); }

    // Appends what the block has collected to the next near list and to a far list. Every thread of a block calls this.
    __device__ void flush(int which)
    {
        __syncthreads();
        const Item listed = nearest->held(), piled = others->held();
        if (threadIdx.x == 0 && listed) nearest->first = atomicAdd(length(), listed);
        if (threadIdx.x == 32 % BLOCK && piled) others->first = atomicAdd(state->far + which, piled);
        __syncthreads();
        for (Item i = threadIdx.x; i < listed; i += BLOCK) near(next())[nearest->first + i] = nearest->items[i];
        for (Item i = threadIdx.x; i < piled; i += BLOCK) far(which)[others->first + i] = others->items[i];
        if (threadIdx.x == 0) nearest->count = others->count = 0;
        __syncthreads();
    }

    // Sends an item of a near list if it has few edges. LANES_OF lanes, of which this is number `lane`, share them. Warps
    // share those of more; returns the number of edges that nothing sends, to the first of the lanes.
    template <int LANES_OF, int DEPTH> __device__ Position send_item(Item item, Item lane)
    {
        const Item u = item / Item(LANES);
        const float value = seen(values + item);
        const Position begin = offsets[u], count = offsets[u + 1] - begin;
        if (count <= (alone ? OF_LANE_OF_SHORT : OF_LANE) * LANES_OF) {
            send<DEPTH>(item, value, begin, Item(count), lane, LANES_OF);
        } else if (lane == 0) {
            if (count > (alone ? MOST_EDGES : LONG)) return count;
            if (alone && atomicAdd(&rows->edges, Item(count)) + count > MOST_EDGES) return count;
            const Item place = atomicAdd(&rows->count, 1u);
            if (place >= LANE_GROUPS) return count;  // a short list has more lane groups
            rows->items[place] = item;
        }
        return 0;
    }

    // Sends the items whose edges warps share; the fewer there are, the more warps share one. Every thread of a block
    // calls this.
    __device__ void send_rows()
    {
        __syncthreads();
        const Item count = rows->count < LANE_GROUPS ? rows->count : LANE_GROUPS;
        Item threads = BLOCK;  // that share an item
        while (threads > 32 && BLOCK / threads < count) threads /= 2;
        for (Item at = threadIdx.x / threads; at < count; at += BLOCK / threads) {
            const Item item = rows->items[at], u = item / Item(LANES);
            const Position begin = offsets[u];
            send<AHEAD>(item, seen(values + item), begin, Item(offsets[u + 1] - begin), threadIdx.x % threads, threads);
        }
        __syncthreads();
        if (threadIdx.x == 0) rows->count = rows->edges = 0;
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
                if (const Position many = send_item<LANES_OF_GROUP, 1>(item, lane)) cut(item, many);
            }
            send_rows();
            flush(pile);
        }
    }

    __device__ void cut(Item item, Position many)
    {
        const Item parts = Item((many + LONG - 1) / LONG), place = atomicAdd(state->pieces + (superstep & 1), parts);
        for (Item i = 0; i < parts; ++i) {
            pieces[2 * Position(place + i)] = item;
            pieces[2 * Position(place + i) + 1] = i;
        }
    }

    __device__ void send_pieces(Item count)
    {
        looks = true;
        for (Item at = blockIdx.x; at < count; at += gridDim.x) {
            const Item item = seen(pieces + 2 * Position(at)), part = seen(pieces + 2 * Position(at) + 1);
            const Item u = item / Item(LANES);
            const Position begin = offsets[u] + Position(part) * LONG, left = offsets[u + 1] - begin;
            send<1>(item, seen(values + item), begin, Item(left < LONG ? left : LONG), threadIdx.x, BLOCK);
            flush(pile);
        }
    }

    // Sends a list in shared memory. Items that nothing sends enter the next list, and `left` is set.
    template <int LANES_OF, int DEPTH> __device__ void send_own(const Item* own, Item count, Item* left)
    {
        for (Item at = threadIdx.x / LANES_OF; at < count; at += BLOCK / LANES_OF)
            if (send_item<LANES_OF, DEPTH>(own[at], threadIdx.x % LANES_OF)) {
                *left = 1;
                if (is_new(own[at])) enter_near(own[at]);
            }
    }

    // Sends a short list, and those that follow while they are short. Other blocks wait meanwhile: no step needs a global
    // barrier, and the lists are in shared memory. Items with many edges are left for the step after, in which all
    // blocks send. Every thread of the block calls this.
    __device__ void send_short(Item count)
    {
        __shared__ Item own[SHORT + 1], left;
        alone = true;
        looks = false;
        for (Item i = threadIdx.x; i < count; i += BLOCK) own[i] = seen(near(superstep & 1) + i);
        if (threadIdx.x == 0) left = 0;
        for (Item steps = 1;; ++steps, ++superstep) {
            __syncthreads();
            if (count <= LANE_GROUPS) send_own<LANES_OF_GROUP, 1>(own, count, &left);
            else send_own<LANES_OF_SHORT, AHEAD>(own, count, &left);
            send_rows();
            count = nearest->count;
            if (!count || count > SHORT || left || steps == MOST_SHORT) break;
            for (Item i = threadIdx.x; i < count; i += BLOCK) own[i] = nearest->items[i];
            __syncthreads();
            if (threadIdx.x == 0) nearest->count = 0;
        }
        flush(pile);
        alone = false;
        if (threadIdx.x == 0) {
            state->reached = superstep + 1;
            state->leaves = left;
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
    __shared__ Rows rows;                                                                                        \
    if (threadIdx.x == 0) nearest.count = others.count = rows.count = rows.edges = 0;                            \
    __syncthreads();                                                                                             \
    Run run{offsets, neighbours, values, near_0, near_1, far_0, far_1, pieces, noted, waits, state,              \
            Message{parameters GIVEN}, &nearest, &others, &rows, threshold, superstep, pile, 0, true, false}

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

__device__ inline void add_edges(State* state, Item visited)
{
    Total edges = visited;
    for (int offset = 16; offset > 0; offset /= 2) edges += __shfl_xor_sync(0xffffffffu, edges, offset);
    if (threadIdx.x % 32 == 0 && edges) atomicAdd(&state->edges, edges);
}

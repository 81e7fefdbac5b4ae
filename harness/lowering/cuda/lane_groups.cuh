// Lane groups, and rows: the features of one value, spread over a lane group.
//
// The generated file defines LANES (lanes of a lane group, 1 to 32), WIDTH (consecutive features that a lane loads at
// once: 1, 2 or 4) and BLOCK (threads of a block) and then includes this one. A warp holds 32 / LANES lane groups;
// spare lanes are idle. With LANES == 1 a thread loops over all features of its vertex or edge, as conventional
// frameworks do. Lane m of a lane group holds features m * WIDTH .. m * WIDTH + WIDTH - 1 of every LANES * WIDTH of
// them, so consecutive lanes access consecutive addresses. Slots of a row beyond its length are undefined, and no
// reduction reads them.
#pragma once

typedef unsigned int Id;

constexpr unsigned WARP = 0xffffffffu;
constexpr int LANE_GROUPS = 32 / LANES;
#define INFINITE __int_as_float(0x7f800000)

__host__ __device__ constexpr int slots(int n) { return WIDTH * ((n + LANES * WIDTH - 1) / (LANES * WIDTH)); }
__host__ __device__ constexpr bool fills(int n) { return n % (LANES * WIDTH) == 0; }
constexpr int UNROLL = LANES == 1 && WIDTH == 1 ? 16 : 64;  // loops over longer rows are not unrolled

// A loop over the slots of a row of n features; over the rows of a matrix in registers.
#define FEATURES(slot, n) _Pragma("unroll UNROLL") for (int slot = 0; slot < slots(n); ++slot)
#define ROWS(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
#define LOOP(i, n) _Pragma("unroll 1") for (int i = 0; i < (n); ++i)
#define STRIP(i, n) _Pragma("unroll 4") for (int i = 0; i < (n); ++i)  // rows in memory, some at a time

__device__ inline int lane_id() { return threadIdx.x & 31; }

struct LaneGroup {
    int number;     // of the lane group within its warp; LANE_GROUPS for spare lanes
    int member;     // of the lane within its lane group
    unsigned mask;  // the lanes of the lane group

    __device__ LaneGroup() : number(lane_id() / LANES), member(lane_id() % LANES), mask(WARP)
    {
        if (LANES < 32) mask = ((1u << (LANES % 32)) - 1u) << (number * LANES % 32);
    }
    __device__ bool idle() const { return 32 % LANES != 0 && number >= LANE_GROUPS; }
    __device__ bool leads() const { return member == 0; }
    __device__ int feature(int slot) const
    {
        return slot / WIDTH * (LANES * WIDTH) + member * WIDTH + slot % WIDTH;
    }
    __device__ bool holds(int slot, int n) const { return fills(n) || feature(slot) < n; }
    template <class Value> __device__ Value from(Value value, int other) const
    {
        if constexpr (LANES == 1) return value;
        else return __shfl_sync(mask, value, number * LANES + other);
    }
    __device__ void sync() const
    {
        if constexpr (LANES > 1) __syncwarp(mask);
    }
};

template <int N, class Value = float> struct Row {
    Value at[slots(N)];
    __device__ Value& operator[](int slot) { return at[slot]; }
    __device__ const Value& operator[](int slot) const { return at[slot]; }
};

// Elementwise functions that CUDA spells otherwise --------------------------------------------------------------------
// NaN wins. Lane groups use one instruction instead of three for maxima of whole rows. Threads that loop over features
// hold more values, and compilers needed more registers with that instruction.
#if __CUDA_ARCH__ >= 800 && LANES > 1
__device__ inline float minimum(float a, float b)
{
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ inline float maximum(float a, float b)
{
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
#else
__device__ inline float minimum(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
#endif
__device__ inline float square(float a) { return a * a; }
// Return the logarithm of x that is not a positive number, for any base: NaN, infinite, or NaN if x is negative.
__device__ inline float logarithm_of_none(float x)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return logf(x);
#endif
}
// Return the logarithm of x > 0, within 1.3 units in the last place, and of infinity and NaN; negative numbers give
// NaN. For x = m 2^i with m in [2/3, 4/3) it is i log 2 + log(1 + f), by the polynomial of least relative error.
__device__ inline float log_of_positive(float x)
{
    const bool subnormal = x < 1.17549435e-38f;
    const float normal = subnormal ? x * 8388608.0f : x;
    const int bits = __float_as_int(normal), scale = (bits - 0x3f2aaaab) & int(0xff800000u);
    const float f = __int_as_float(bits - scale) - 1.0f;
    float p = 0.138202354f;
    p = p * f - 0.151221797f;
    p = p * f + 0.140423089f;
    p = p * f - 0.164723262f;
    p = p * f + 0.200079188f;
    p = p * f - 0.250042379f;
    p = p * f + 0.333332658f;
    p = p * f - 0.5f;
    const float exponent = float(scale) * 1.1920929e-7f + (subnormal ? -23.0f : 0.0f);
    const float result = exponent * 0.693147181f + (f * (p * f) + f);
    return unsigned(bits) < 0x7f800000u ? result : logarithm_of_none(normal);
}
// Both values are computed, so that lanes with different conditions do not diverge.
template <class Value> __device__ inline Value choose(bool first, Value a, Value b) { return first ? a : b; }
__device__ inline bool differs(float before, float now) { return now != before; }
__device__ inline bool differs(bool before, bool now) { return now != before; }
// NaN is always far; equal infinities are not.
__device__ inline bool far(float before, float now, float margin)
{
    return now != before & !(fabsf(now - before) <= margin);  // no branch
}

// Memory --------------------------------------------------------------------------------------------------------------
struct alignas(4 * WIDTH) Chunk {  // what a lane loads at once
    float at[WIDTH];
};

// Read a number, or a chunk, of a row. In COHERENT modules others write rows during a kernel, and the caches of
// multiprocessors do not see that: these reads are served by the cache that all of them share.
#if defined(COHERENT) && __CUDA_ARCH__ >= 800
__device__ inline float seen(const float* source) { return __ldcg(source); }
__device__ inline Chunk seen(const Chunk* source)
{
    Chunk chunk;
#if WIDTH == 4
    const float4 values = __ldcg(reinterpret_cast<const float4*>(source));
    chunk.at[0] = values.x, chunk.at[1] = values.y, chunk.at[2] = values.z, chunk.at[3] = values.w;
#elif WIDTH == 2
    const float2 values = __ldcg(reinterpret_cast<const float2*>(source));
    chunk.at[0] = values.x, chunk.at[1] = values.y;
#else
    chunk.at[0] = __ldcg(reinterpret_cast<const float*>(source));
#endif
    return chunk;
}
#else
__device__ inline float seen(const float* source) { return *source; }
__device__ inline Chunk seen(const Chunk* source) { return *source; }
#endif
__device__ inline bool seen(const bool* source) { return *source; }

// The row of N features at `start`; rows have stride STRIDE, so chunks are aligned if STRIDE is a multiple of WIDTH.
template <int N, int STRIDE, class Value>
__device__ inline Row<N, Value> load(const LaneGroup& group, const Value* start)
{
    Row<N, Value> row;
    if constexpr (WIDTH > 1 && STRIDE % WIDTH == 0 && sizeof(Value) == 4) {
        _Pragma("unroll UNROLL") for (int slot = 0; slot < slots(N); slot += WIDTH) {
            if (group.holds(slot, N)) {
                const Chunk chunk = seen(reinterpret_cast<const Chunk*>(start + group.feature(slot)));
                _Pragma("unroll") for (int i = 0; i < WIDTH; ++i) row[slot + i] = chunk.at[i];
            }
        }
    } else {
        FEATURES(slot, N) row[slot] = group.holds(slot, N) ? seen(start + group.feature(slot)) : Value(0);
    }
    return row;
}

template <int N, int STRIDE, class Value>
__device__ inline void store(const LaneGroup& group, Value* start, const Row<N, Value>& row)
{
    if constexpr (WIDTH > 1 && STRIDE % WIDTH == 0 && sizeof(Value) == 4) {
        _Pragma("unroll UNROLL") for (int slot = 0; slot < slots(N); slot += WIDTH) {
            if (group.holds(slot, N)) {
                Chunk chunk;
                _Pragma("unroll") for (int i = 0; i < WIDTH; ++i) chunk.at[i] = row[slot + i];
                *reinterpret_cast<Chunk*>(start + group.feature(slot)) = chunk;
            }
        }
    } else {
        FEATURES(slot, N) if (group.holds(slot, N)) start[group.feature(slot)] = row[slot];
    }
}

template <int N, class Value> __device__ inline Row<N, Value> filled(Value value)
{
    Row<N, Value> row;
    FEATURES(slot, N) row[slot] = value;
    return row;
}

// Reductions into memory that others write at the same time -----------------------------------------------------------
struct Add {
    static constexpr bool ADDS = true;
    static __device__ float identity() { return 0.0f; }
    __device__ float operator()(float a, float b) const { return a + b; }
    static __device__ void into(float* target, float value) { atomicAdd(target, value); }
};
struct Min {
    static constexpr bool ADDS = false;
    static __device__ float identity() { return INFINITE; }
    __device__ float operator()(float a, float b) const { return minimum(a, b); }
    // Floats of one sign are ordered like their bits: non-negative ones in the same order, negative ones in reverse.
    // Return whether the value replaced another.
    static __device__ bool into(float* target, float value)
    {
        if (!(value < __ldca(target))) return false;  // a stale value suffices: the target only decreases
        const int bits = __float_as_int(value);
        if (bits >= 0) return bits < atomicMin(reinterpret_cast<int*>(target), bits);
        return unsigned(bits) > atomicMax(reinterpret_cast<unsigned*>(target), unsigned(bits));
    }
};
struct Max {
    static constexpr bool ADDS = false;
    static __device__ float identity() { return -INFINITE; }
    __device__ float operator()(float a, float b) const { return maximum(a, b); }
    static __device__ bool into(float* target, float value)
    {
        if (!(value > __ldca(target))) return false;
        const int bits = __float_as_int(value);
        if (bits >= 0) return bits > atomicMax(reinterpret_cast<int*>(target), bits);
        return unsigned(bits) < atomicMin(reinterpret_cast<unsigned*>(target), unsigned(bits));
    }
};

// Add WIDTH features in one transaction, if the chip has such reductions (sm_90 and later).
__device__ inline void add_chunk(float* target, const float* values)
{
#if __CUDA_ARCH__ >= 900 && WIDTH == 4
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(target), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]) : "memory");
#elif __CUDA_ARCH__ >= 900 && WIDTH == 2
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(target), "f"(values[0]), "f"(values[1]) : "memory");
#else
    for (int i = 0; i < WIDTH; ++i) atomicAdd(target + i, values[i]);
#endif
}

template <class Reducer> __device__ inline void reduce_into(const LaneGroup& group, float* target, float value)
{
    if (group.leads()) Reducer::into(target, value);
}

template <class Reducer, int STRIDE, int N>
__device__ inline void reduce_into(const LaneGroup& group, float* start, const Row<N>& row)
{
    _Pragma("unroll UNROLL") for (int slot = 0; slot < slots(N); slot += WIDTH) {
        // Values that a chunk adds to the padding of a row are never read.
        if constexpr (WIDTH > 1 && STRIDE % WIDTH == 0 && Reducer::ADDS) {
            if (group.holds(slot, N)) add_chunk(start + group.feature(slot), row.at + slot);
        } else {
            for (int i = 0; i < WIDTH; ++i)
                if (group.holds(slot + i, N)) Reducer::into(start + group.feature(slot + i), row[slot + i]);
        }
    }
}

// The same for extrema. Return whether a value of this lane replaced another.
template <class Reducer> __device__ inline bool offer_to(const LaneGroup& group, float* target, float value)
{
    return group.leads() && Reducer::into(target, value);
}
template <class Reducer, int STRIDE, int N>
__device__ inline bool offer_to(const LaneGroup& group, float* start, const Row<N>& row)
{
    bool replaced = false;
    FEATURES(slot, N)
        if (group.holds(slot, N)) replaced |= Reducer::into(start + group.feature(slot), row[slot]);
    return replaced;
}

// Collective operations of a lane group (fig. 5.4) --------------------------------------------------------------------
template <class Value, class Operation>
__device__ inline Value across(const LaneGroup& group, Value value, Operation combine)
{
    if constexpr (LANES == 1) {
        return value;
    } else if constexpr ((LANES & (LANES - 1)) == 0) {
        _Pragma("unroll") for (int offset = LANES / 2; offset > 0; offset /= 2)
            value = combine(value, __shfl_xor_sync(group.mask, value, offset));
        return value;
    } else {
        _Pragma("unroll") for (int offset = 1; offset < LANES; offset *= 2) {
            const Value other = __shfl_down_sync(group.mask, value, offset);
            if (group.member + offset < LANES) value = combine(value, other);
        }
        return group.from(value, 0);
    }
}

template <class Operation, int N> __device__ inline float reduced(const LaneGroup& group, const Row<N>& row)
{
    float value = Operation::identity();
    FEATURES(slot, N) if (group.holds(slot, N)) value = Operation()(value, row[slot]);
    return across(group, value, Operation());
}
// Return whether the lane holds a feature that is not zero.
__device__ inline bool some(const LaneGroup&, float value) { return value != 0.0f; }
template <int N> __device__ inline bool some(const LaneGroup& group, const Row<N>& row)
{
    bool found = false;
    FEATURES(slot, N) found |= group.holds(slot, N) & row[slot] != 0.0f;
    return found;
}
template <int N>
__device__ inline float total(const LaneGroup& group, const Row<N>& row) { return reduced<Add>(group, row); }
template <int N>
__device__ inline float smallest(const LaneGroup& group, const Row<N>& row) { return reduced<Min>(group, row); }
template <int N>
__device__ inline float largest(const LaneGroup& group, const Row<N>& row) { return reduced<Max>(group, row); }

__device__ inline bool any(const LaneGroup& group, bool mine)
{
    return LANES == 1 ? mine : __ballot_sync(group.mask, mine) & group.mask;
}
template <int N> __device__ inline bool any_feature(const LaneGroup& group, const Row<N, bool>& row)
{
    bool mine = false;
    FEATURES(slot, N) mine = mine || (group.holds(slot, N) && row[slot]);
    return any(group, mine);
}
template <int N> __device__ inline bool all_features(const LaneGroup& group, const Row<N, bool>& row)
{
    bool mine = true;
    FEATURES(slot, N) mine = mine && (!group.holds(slot, N) || row[slot]);
    return !any(group, !mine);
}

template <int N> __device__ inline float dot(const LaneGroup& group, const Row<N>& a, const Row<N>& b)
{
    Row<N> products;
    FEATURES(slot, N) products[slot] = a[slot] * b[slot];
    return total(group, products);
}

// Return feature i of a row to every lane.
template <int N, class Value> __device__ inline Value pick(const LaneGroup& group, const Row<N, Value>& row, int i)
{
    if constexpr (LANES == 1) {
        return row[i];
    } else {
        const int wanted = i / (LANES * WIDTH) * WIDTH + i % WIDTH;
        Value value = row[0];
        _Pragma("unroll") for (int slot = 1; slot < slots(N); ++slot)
            if (slot == wanted) value = row[slot];
        return group.from(value, i / WIDTH % LANES);
    }
}
template <int N, class Value>
__device__ inline void place(const LaneGroup& group, Row<N, Value>& row, int i, Value value)
{
    FEATURES(slot, N) if (group.feature(slot) == i) row[slot] = value;
}

template <int N> __device__ inline Row<N> scaled_by_inverse(Row<N> row, float size)
{
    const float scale = size != 0.0f ? 1.0f / size : 1.0f;  // a zero vector stays zero
    FEATURES(slot, N) row[slot] *= scale;
    return row;
}
template <int N> __device__ inline Row<N> normalized_l1(const LaneGroup& group, const Row<N>& row)
{
    Row<N> sizes;
    FEATURES(slot, N) sizes[slot] = fabsf(row[slot]);
    return scaled_by_inverse(row, total(group, sizes));
}
template <int N> __device__ inline Row<N> normalized_l2(const LaneGroup& group, const Row<N>& row)
{
    return scaled_by_inverse(row, sqrtf(dot(group, row, row)));
}
template <int N> __device__ inline Row<N> normalized_softmax(const LaneGroup& group, const Row<N>& row)
{
    const float top = largest(group, row);
    Row<N> powers;
    FEATURES(slot, N) powers[slot] = expf(row[slot] - top);
    return scaled_by_inverse(powers, total(group, powers));
}

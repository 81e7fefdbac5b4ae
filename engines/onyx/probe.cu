// Loops like those of Onyx's pulls and pushes, from whose times both are estimated. A row has 1 float, or 16 in four
// lanes.
typedef int Id;
typedef long long Count;

constexpr int DEGREE = 16;  // edges of an owner, or of a source

template <int LANES> struct Row;
template <> struct Row<1> { using Part = float; };
template <> struct Row<4> { using Part = float4; };

__device__ inline float joined(float one, float other, bool least) { return least ? fminf(one, other) : one + other; }
__device__ inline float4 joined(float4 one, float4 other, bool least)
{
    return {joined(one.x, other.x, least), joined(one.y, other.y, least), joined(one.z, other.z, least),
            joined(one.w, other.w, least)};
}
__device__ inline float lower(float value, float by) { return value - by; }
__device__ inline float4 lower(float4 value, float by)
{
    return {value.x - by, value.y - by, value.z - by, value.w - by};
}

__device__ inline void add(float* into, float value) { atomicAdd(into, value); }
__device__ inline void add(float4* into, float4 value)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "l"(into), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
#else
    float* const parts = reinterpret_cast<float*>(into);
    atomicAdd(parts, value.x), atomicAdd(parts + 1, value.y), atomicAdd(parts + 2, value.z), atomicAdd(parts + 3, value.w);
#endif
}

// Values are positive, so that their bits compare as integers.
__device__ inline bool offer(float* into, float value)
{
    if (!(value < __ldcg(into))) return false;
    atomicMin(reinterpret_cast<int*>(into), __float_as_int(value));
    return true;
}
__device__ inline bool offer(float4* into, float4 value)
{
    const float4 kept = __ldcg(into);
    int* const parts = reinterpret_cast<int*>(into);
    const bool better[4] = {value.x < kept.x, value.y < kept.y, value.z < kept.z, value.w < kept.w};
    if (better[0]) atomicMin(parts, __float_as_int(value.x));
    if (better[1]) atomicMin(parts + 1, __float_as_int(value.y));
    if (better[2]) atomicMin(parts + 2, __float_as_int(value.z));
    if (better[3]) atomicMin(parts + 3, __float_as_int(value.w));
    return better[0] || better[1] || better[2] || better[3];
}

// Each lane group gathers the rows of the ends of the edges of its vertices.
template <int LANES> __device__ inline void pull(const Id* ends, const float* x, float* y, Count owners, bool least)
{
    using Part = typename Row<LANES>::Part;
    const Part* const rows = reinterpret_cast<const Part*>(x);
    const Count step = Count(gridDim.x) * blockDim.x / LANES, lane = threadIdx.x % LANES;
    for (Count v = (Count(blockIdx.x) * blockDim.x + threadIdx.x) / LANES; v < owners; v += step) {
        Part total = rows[Count(ends[v * DEGREE]) * LANES + lane];
        _Pragma("unroll 4") for (int e = 1; e < DEGREE; ++e)
            total = joined(total, rows[Count(ends[v * DEGREE + e]) * LANES + lane], least);
        reinterpret_cast<Part*>(y)[v * LANES + lane] = total;
    }
}

// Each lane group sends the row of the source of its edges to their ends. Lower values are sent in each pass.
template <int LANES, bool LEAST> __device__ inline void push(
    const Id* ends, const float* x, float* y, unsigned char* flags, Count edges, float by)
{
    using Part = typename Row<LANES>::Part;
    const Count step = Count(gridDim.x) * blockDim.x / LANES, lane = threadIdx.x % LANES;
    for (Count e = (Count(blockIdx.x) * blockDim.x + threadIdx.x) / LANES; e < edges; e += step) {
        const Count v = ends[e];
        const Part sent = lower(reinterpret_cast<const Part*>(x)[e / DEGREE * LANES + lane], by);
        Part* const into = reinterpret_cast<Part*>(y) + v * LANES + lane;
        bool moved = true;
        if constexpr (LEAST) moved = offer(into, sent);
        else add(into, sent);
        if (moved) flags[v] = 1;
    }
}

#define PULL(name, LANES, least) extern "C" __global__ void name( \
    const Id* ends, const float* x, float* y, unsigned char* flags, Count edges, float by) \
    { pull<LANES>(ends, x, y, edges / DEGREE, least); }
#define PUSH(name, LANES, LEAST) extern "C" __global__ void name( \
    const Id* ends, const float* x, float* y, unsigned char* flags, Count edges, float by) \
    { push<LANES, LEAST>(ends, x, y, flags, edges, by); }
PULL(gather_1, 1, false)
PULL(gather_16, 4, false)
PULL(least_1, 1, true)
PULL(least_16, 4, true)
PUSH(add_1, 1, false)
PUSH(add_16, 4, false)
PUSH(offer_1, 1, true)
PUSH(offer_16, 4, true)

extern "C" __global__ void copied(const float4* source, float4* target, Count count)
{
    const Count step = Count(gridDim.x) * blockDim.x;
    for (Count i = Count(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) target[i] = source[i];
}

extern "C" __global__ void nothing() {}

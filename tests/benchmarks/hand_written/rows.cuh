// Rows of K features (a power of two, K <= 128), shared by LANES lanes, VEC consecutive features each. The driver defines
// K and BLOCK. Rows lie K floats apart, as in Onyx's layout.
#pragma once

constexpr int VEC = K < 4 ? K : 4;
constexpr int LANES = K / VEC;

struct alignas(4 * VEC) Part {  // a lane's features of a row
    float at[VEC];
};

#define EACH(i) _Pragma("unroll") for (int i = 0; i < VEC; ++i)

// Only the lanes of one team talk to each other; teams of a warp may be at different places.
__device__ inline unsigned team_mask()
{
    const unsigned lane = threadIdx.x % 32;
    return LANES == 32 ? 0xffffffffu : ((1u << (LANES % 32)) - 1u) << (lane / LANES * LANES);
}
__device__ inline float team_sum(unsigned mask, float value)
{
    _Pragma("unroll") for (int offset = LANES / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(mask, value, offset);
    return value;
}
__device__ inline float team_max(unsigned mask, float value)
{
    _Pragma("unroll") for (int offset = LANES / 2; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(mask, value, offset));
    return value;
}
__device__ inline Part splat(float value)
{
    Part part;
    EACH(i) part.at[i] = value;
    return part;
}
__device__ inline float sum_of(const Part& part)
{
    float total = 0.0f;
    EACH(i) total += part.at[i];
    return total;
}
// One reduction in memory for all features of the lane, where the chip has it.
__device__ inline void add_into(Part* target, const Part& value)
{
#if __CUDA_ARCH__ >= 900
    if constexpr (VEC == 4) {
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                     :: "l"(target), "f"(value.at[0]), "f"(value.at[1]), "f"(value.at[2]), "f"(value.at[3]) : "memory");
        return;
    }
#endif
    EACH(i) atomicAdd(target->at + i, value.at[i]);
}
// How many threads of the block say so, added to a counter by one of them; all threads of the block call it.
__device__ inline void count_moved(unsigned* counter, int mine)
{
    __shared__ unsigned of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    mine = __reduce_add_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0 && mine) atomicAdd(&of_block, mine);
    __syncthreads();
    if (threadIdx.x == 0 && of_block) atomicAdd(counter, of_block);
}

// A replay of an aggregation: gather the rows of x in the graph's own column order, and sum them; nothing is balanced,
// weighted, reduced by destination or stored. Column ids are loaded by whole warps and handed round by shuffles.
#include "rows.cuh"

constexpr int TEAMS = 32 / LANES;  // of a warp
constexpr int DEPTH = TEAMS >= 8 ? 4 : 8;

extern "C" __global__ void __launch_bounds__(BLOCK) replay(
    const unsigned* __restrict__ neighbours, const Part* __restrict__ x, unsigned arcs, float* __restrict__ out)
{
    const unsigned lane = threadIdx.x % 32, team = lane / LANES, member = lane % LANES;
    const unsigned warps = gridDim.x * (BLOCK / 32), warp = (blockIdx.x * BLOCK + threadIdx.x) / 32;
    Part sum = splat(0.0f);
    for (size_t base = (size_t)warp * 32; base + 32 <= arcs; base += (size_t)warps * 32) {
        const unsigned mine = neighbours[base + lane];
        for (unsigned first = 0; first < 32; first += TEAMS * DEPTH) {
            Part row[DEPTH];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                const unsigned u = __shfl_sync(0xffffffffu, mine, (first + d * TEAMS + team) % 32);
                if (first + d * TEAMS < 32) row[d] = x[(size_t)u * LANES + member];
                else row[d] = splat(0.0f);
            }
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) EACH(i) sum.at[i] += row[d].at[i];
        }
    }
    out[blockIdx.x * BLOCK + threadIdx.x] = sum_of(sum);
}

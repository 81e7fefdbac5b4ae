// A superstep of label propagation as one kernel, folded and optimised by hand (fig. 7.4, "hand-optimized").
//
// A team of lanes owns a vertex: DEPTH rows of neighbours are in flight at once, the weighted sum stays in registers, and
// so does all that follows: both normalisations take one reduction over the team together, as labels and weights are not
// negative: of alpha * a / |a| + (1 - alpha) * x the sum is known from |a| and |x|.
// SKIP: what is clamped is not gathered, which no vertex step after an edge step can say in the program.
#include "rows.cuh"

constexpr int DEPTH = K <= 4 ? 8 : 4;

extern "C" __global__ void __launch_bounds__(BLOCK) superstep(
    const unsigned* __restrict__ offsets, const unsigned* __restrict__ neighbours, const float* __restrict__ weights,
    const Part* __restrict__ labels, const Part* __restrict__ seeds, const bool* __restrict__ labelled,
    Part* __restrict__ next, unsigned vertices, float alpha, float tolerance, unsigned* moved)
{
    const unsigned mask = team_mask();
    const unsigned v = (blockIdx.x * BLOCK + threadIdx.x) / LANES, member = threadIdx.x % LANES;
    bool moves = false;
    if (v < vertices) {
        const bool clamped = labelled[v];
        const unsigned end = offsets[v + 1];
        Part sum = splat(0.0f);
        for (unsigned e = SKIP && clamped ? end : offsets[v]; e < end; e += DEPTH) {
            unsigned u[DEPTH];
            float w[DEPTH];
            Part x[DEPTH];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                u[d] = e + d < end ? neighbours[e + d] : 0;
                w[d] = e + d < end ? weights[e + d] : 0.0f;
            }
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
                x[d] = e + d < end ? labels[(size_t)u[d] * LANES + member] : splat(0.0f);
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) EACH(i) sum.at[i] += w[d] * x[d].at[i];
        }
        const size_t mine = (size_t)v * LANES + member;
        const Part old = labels[mine];
        Part result;
        if (clamped) {
            result = seeds[mine];
        } else {
            float size = sum_of(sum), before = sum_of(old);
            _Pragma("unroll") for (int offset = LANES / 2; offset > 0; offset /= 2) {
                size += __shfl_xor_sync(mask, size, offset);
                before += __shfl_xor_sync(mask, before, offset);
            }
            const float total = (size > 0.0f ? alpha : 0.0f) + (1.0f - alpha) * before;
            const float scale = total > 0.0f ? 1.0f / total : 1.0f;
            const float fresh = size > 0.0f ? scale * alpha / size : 0.0f, kept = scale * (1.0f - alpha);
            EACH(i) result.at[i] = fresh * sum.at[i] + kept * old.at[i];
        }
        EACH(i) moves = moves || fabsf(result.at[i] - old.at[i]) > tolerance;
        next[mine] = result;
        moves = __ballot_sync(mask, moves) & mask;
    }
    count_moved(moved, moves && member == 0);
}

// Supersteps of sum-product belief propagation with one positive k x k potential, folded and optimised by hand (fig. 7.4).
//
// Messages are positive, so a product of them is a sum of logarithms alone. One kernel a superstep goes over the arcs in
// CSC order in equal tiles: it makes the new message of every arc and at once adds its logarithm to its destination's sum
// for the next superstep, in registers while the destination stays the same. A small one makes beliefs of the sums and
// sets the next ones to log phi. The rows of arcs are staged in shared memory with coalesced loads.
#include "rows.cuh"

constexpr int TEAMS = BLOCK / LANES;
constexpr int RUN = LANES == 1 ? 8 : 16;  // consecutive arcs of a team
constexpr int TILE = TEAMS * RUN;         // of a block
constexpr int DEPTH = K <= 8 ? 4 : 2;
constexpr bool IN_REGISTERS = K <= 8;  // the lane's columns of the potential

struct Arcs {
    unsigned row[TILE], source[TILE], reverse[TILE];
};

// The logarithms of a message, less their mean: sums over a hub stay small.
__device__ inline Part logarithms(unsigned mask, const Part& message)
{
    Part logs;
    EACH(i) logs.at[i] = logf(message.at[i]);
    const float mean = team_sum(mask, sum_of(logs)) / K;
    EACH(i) logs.at[i] -= mean;
    return logs;
}

// others @ psi: every lane adds up its columns, to which each of the others is told in turn.
__device__ inline Part times(unsigned mask, const Part& others, const Part* columns, const Part* psi)
{
    Part said = splat(0.0f);
    _Pragma("unroll 8") for (int lane = 0; lane < LANES; ++lane)
        EACH(i) {
            const float factor = __shfl_sync(mask, others.at[i], lane, LANES);
            const Part column = IN_REGISTERS ? columns[lane * VEC + i] : psi[(lane * VEC + i) * LANES];
            EACH(j) said.at[j] += factor * column.at[j];
        }
    return said;
}

// sums: of the superstep's products; next_sums begins as log phi.
extern "C" __global__ void __launch_bounds__(BLOCK) messages(
    const unsigned* __restrict__ rows, const unsigned* __restrict__ neighbours, const unsigned* __restrict__ reverse,
    const Part* __restrict__ psi, const Part* __restrict__ sums, const Part* __restrict__ old, Part* __restrict__ next,
    Part* next_sums, unsigned arcs, float tolerance, unsigned* moved)
{
    extern __shared__ float4 memory[];
    __shared__ Arcs tile;
    const unsigned mask = team_mask(), member = threadIdx.x % LANES, team = threadIdx.x / LANES;
    Part* shared_psi = reinterpret_cast<Part*>(memory);
    Part columns[IN_REGISTERS ? K : 1];
    if constexpr (IN_REGISTERS) {
        _Pragma("unroll") for (int x = 0; x < K; ++x) columns[x] = psi[x * LANES + member];
    } else {
        for (int i = threadIdx.x; i < K * LANES; i += BLOCK) shared_psi[i] = psi[i];
    }
    int moves = 0;
    for (unsigned base = blockIdx.x * TILE; base < arcs; base += gridDim.x * TILE) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < TILE && base + i < arcs; i += BLOCK) {
            tile.row[i] = rows[base + i];
            tile.source[i] = neighbours[base + i];
            tile.reverse[i] = reverse[base + i];
        }
        __syncthreads();
        const unsigned first = team * RUN, last = min((unsigned)(first + RUN), arcs - min(arcs, base));
        if (first >= last) continue;
        unsigned row = tile.row[first];
        Part sum = splat(0.0f);
        for (unsigned at = first; at < last; at += DEPTH) {
            Part from[DEPTH], back[DEPTH], before[DEPTH];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                const unsigned i = min(at + d, last - 1);
                from[d] = sums[(size_t)tile.source[i] * LANES + member];
                back[d] = old[(size_t)tile.reverse[i] * LANES + member];
                before[d] = old[(size_t)(base + i) * LANES + member];
            }
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) {
                if (at + d >= last) break;
                const Part taken = logarithms(mask, back[d]);
                Part others;
                EACH(i) others.at[i] = from[d].at[i] - taken.at[i];
                float top = others.at[0];
                EACH(i) top = fmaxf(top, others.at[i]);
                top = team_max(mask, top);
                EACH(i) others.at[i] = expf(others.at[i] - top);
                Part message = times(mask, others, columns, shared_psi + member);
                const float scale = 1.0f / team_sum(mask, sum_of(message));
                bool differs = false;
                EACH(i) {
                    message.at[i] *= scale;
                    differs = differs || fabsf(message.at[i] - before[d].at[i]) > tolerance;
                }
                moves += differs;
                next[(size_t)(base + at + d) * LANES + member] = message;
                if (tile.row[at + d] != row) {
                    add_into(next_sums + (size_t)row * LANES + member, sum);
                    row = tile.row[at + d];
                    sum = splat(0.0f);
                }
                const Part logs = logarithms(mask, message);
                EACH(i) sum.at[i] += logs.at[i];
            }
        }
        add_into(next_sums + (size_t)row * LANES + member, sum);
    }
    count_moved(moved, moves);
}

// belief = sums as probabilities; `blank` becomes log phi, to be added to in the next superstep.
extern "C" __global__ void __launch_bounds__(BLOCK) beliefs(
    const Part* __restrict__ phi, const Part* __restrict__ sums, Part* __restrict__ belief, Part* __restrict__ blank,
    unsigned vertices)
{
    const unsigned mask = team_mask();
    const unsigned v = (blockIdx.x * BLOCK + threadIdx.x) / LANES;
    if (v >= vertices) return;
    const size_t mine = (size_t)v * LANES + threadIdx.x % LANES;
    const Part given = phi[mine], sum = sums[mine];
    float top = sum.at[0];
    EACH(i) top = fmaxf(top, sum.at[i]);
    top = team_max(mask, top);
    Part result, start;
    EACH(i) result.at[i] = expf(sum.at[i] - top);
    const float scale = 1.0f / team_sum(mask, sum_of(result));
    EACH(i) {
        result.at[i] *= scale;
        start.at[i] = logf(given.at[i]);
    }
    belief[mine] = result;
    blank[mine] = start;
}

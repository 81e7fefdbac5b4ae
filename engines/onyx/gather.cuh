// Pull with balance=warp: SHARE teams of a warp own a vertex, gather over its in-edges, and go on with its vertex steps.
#pragma once

#include "vertexmap.cuh"

// The lanes of the SHARE teams that own a vertex together.
template <int SHARE> __device__ inline unsigned owners(const Team& team)
{
    if (SHARE * LANES == 32) return WARP;
    return ((1u << (SHARE * LANES % 32)) - 1u) << (team.number / SHARE * SHARE * LANES);
}

// Whether v is wanted: one lane of its owners looks, as another may take the flag back while some have yet to read it.
template <int SHARE, class Wanted> __device__ inline bool owners_want(const Team& team, Wanted wanted, Id v)
{
    return __shfl_sync(owners<SHARE>(team), wanted(v), team.number / SHARE * SHARE * LANES);
}
template <int SHARE> __device__ inline bool owners_want(const Team&, Every, Id) { return true; }

// Adds up what the SHARE teams of a vertex have; all of them know the result.
template <int SHARE, class Operation> __device__ inline float across_teams(const Team& team, float value)
{
    const unsigned mask = owners<SHARE>(team);
    _Pragma("unroll") for (int offset = SHARE / 2; offset > 0; offset /= 2)
        value = Operation()(value, __shfl_sync(mask, value, (team.number ^ offset) * LANES + team.member));
    return value;
}
template <int SHARE, class Operation, int N> __device__ inline Row<N> across_teams(const Team& team, Row<N> row)
{
    FEATURES(slot, N) row[slot] = across_teams<SHARE, Operation>(team, row[slot]);
    return row;
}
template <int SHARE, class Operation, int M, int N>
__device__ inline Matrix<M, N> across_teams(const Team& team, Matrix<M, N> matrix)
{
    ROWS(i, M) matrix.row[i] = across_teams<SHARE, Operation>(team, matrix.row[i]);
    return matrix;
}

// For the wanted vertices: start(v); visit(got, u, v, e) for its in-edges, each team of its own ones; join() brings the
// teams' sums together; finish(v) by one team. The vertices of ROUNDS rounds of a block lie together, and there are as
// many blocks as that takes; ROUNDS = 0: they lie the whole grid apart, and any number of blocks will do.
template <int SHARE, int DEPTH, int ROUNDS, class Wanted, class Start, class Fetch, class Visit, class Join, class Finish>
__device__ inline void gather(const Team& team, const Arc* offsets, const Id* neighbours, Id first, Id last,
                              Wanted wanted, Start start, Fetch fetch, Visit visit, Join join, Finish finish)
{
    constexpr Id PER_WARP = TEAMS / SHARE, PER_BLOCK = BLOCK / 32 * PER_WARP;
    const Id mine = team.number / SHARE;
    const int part = team.number % SHARE;
    const Id piece = first + blockIdx.x * ROUNDS * PER_BLOCK;
    const Id begin = ROUNDS ? piece + threadIdx.x / 32 * PER_WARP : first + warp_of_grid() * PER_WARP;
    const Id all = ROUNDS ? at_most(piece + ROUNDS * PER_BLOCK, last) : last;
    const Id stop = mine < PER_WARP ? all : first;  // left-over teams have no vertex
    for (Id v = begin + mine; v < stop; v += ROUNDS ? PER_BLOCK : warps_of_grid() * PER_WARP) {
        if (!owners_want<SHARE>(team, wanted, v)) continue;
        start(v);
        const Arc end = offsets[v + 1];
        for (Arc e = offsets[v] + part; e < end; e += SHARE * DEPTH) {
            // none of these loads waits for another's answer, as it would behind a branch: the last edge stands in for
            // those that are not there
            Id u[DEPTH];
            decltype(fetch(v, v, e)) got[DEPTH];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) u[d] = neighbours[at_most(e + d * SHARE, end - 1)];
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d) got[d] = fetch(u[d], v, at_most(e + d * SHARE, end - 1));
            _Pragma("unroll") for (int d = 0; d < DEPTH; ++d)
                if (e + d * SHARE < end) visit(got[d], u[d], v, e + d * SHARE);
        }
        join();
        if (part == 0) finish(v);
    }
}

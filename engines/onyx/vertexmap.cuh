// vertexmap (fig. 5.1, lines 76-97): a warp processes 32 vertices, whose features its lane groups share.
#pragma once

#include "run.cuh"

__device__ inline Id warp_of_grid() { return (blockIdx.x * BLOCK + threadIdx.x) / 32; }
__device__ inline Id warps_of_grid() { return gridDim.x * (BLOCK / 32); }

template <class Index> __device__ inline Index at_most(Index i, Index last) { return i < last ? i : last; }

struct Every {  // all vertices
    __device__ bool operator()(Id) const { return true; }
    __device__ bool operator()(Id, EdgeId) const { return true; }  // all edges
};

template <class Wanted> constexpr bool wants_every = false;
template <> constexpr bool wants_every<Every> = true;

// The vertices whose byte of `flags` is set, or every vertex.
struct Flagged {
    const bool* flags;
    bool every;
    __device__ bool operator()(Id v) const { return every || flags[v]; }
};

// The same, for kernels that have no registers left for reading several flags at once.
struct FlaggedOneByOne {
    const bool* flags;
    bool every;
    __device__ bool operator()(Id v) const { return every || flags[v]; }
};

// The vertices that have either flag, or every vertex.
struct FlaggedEither {
    const bool *flags, *others;
    bool every;
    __device__ bool operator()(Id v) const { return every || flags[v] || others[v]; }
};

constexpr int SCANNED = 8;  // chunks of vertices whose flags a warp reads at once, if few are wanted

// Return a bit for each of the next SCANNED chunks: whether any of its vertices is wanted.
template <class Wanted> __device__ inline unsigned wanted_among(Id base, Id stride, Id last, Id size, Wanted wanted)
{
    const Id lane = lane_id();
    bool flags[SCANNED];
    unsigned found = 0;
    _Pragma("unroll") for (int i = 0; i < SCANNED; ++i)  // no load waits behind a branch for an earlier one
        flags[i] = wanted(at_most(base + i * stride + lane, last - 1));
    _Pragma("unroll") for (int i = 0; i < SCANNED; ++i)
        if (__any_sync(WARP, flags[i] && lane < size && base + i * stride + lane < last)) found |= 1u << i;
    return found;
}

// Return whether a chunk of 32 vertices may have a flag: its bytes are read at once if all of them exist.
__device__ inline bool has_flags(const Flagged& wanted, Id base, Id last)
{
    if (base >= last || wanted.every || base + 32 > last) return base < last;
    const uint4* const bytes = reinterpret_cast<const uint4*>(wanted.flags + base);
    const uint4 low = bytes[0], high = bytes[1];
    return low.x | low.y | low.z | low.w | high.x | high.y | high.z | high.w;
}

// The chunks that a warp tests at once, and a bit for each chunk that it must visit. For `Flagged` vertices, a lane
// reads the flags of a chunk of 32, with or without AHEAD. Other tests of several chunks take registers; without AHEAD
// every chunk is visited.
template <bool AHEAD, class Wanted> constexpr int tested = AHEAD && !wants_every<Wanted> ? SCANNED : 1;
template <bool AHEAD> constexpr int tested<AHEAD, Flagged> = 32;
template <bool AHEAD> constexpr int tested<AHEAD, FlaggedEither> = 32;
template <bool AHEAD, class Wanted>
__device__ inline unsigned to_visit(Id base, Id stride, Id last, Id size, const Wanted& wanted)
{
    if constexpr (tested<AHEAD, Wanted> > 1) return wanted_among(base, stride, last, size, wanted);
    return 1;
}
template <bool AHEAD>
__device__ inline unsigned to_visit(Id base, Id stride, Id last, Id size, const Flagged& wanted);
template <bool AHEAD>
__device__ inline unsigned to_visit(Id base, Id stride, Id last, Id size, const FlaggedEither& wanted)
{
    return to_visit<AHEAD>(base, stride, last, size, Flagged{wanted.flags, wanted.every}) |
           to_visit<AHEAD>(base, stride, last, size, Flagged{wanted.others, wanted.every});
}
template <bool AHEAD>
__device__ inline unsigned to_visit(Id base, Id stride, Id last, Id size, const Flagged& wanted)
{
    if (size == 32 && reinterpret_cast<size_t>(wanted.flags + base) % sizeof(uint4) == 0)
        return __ballot_sync(WARP, has_flags(wanted, base + lane_id() * stride, last));
    unsigned found = 0;  // short chunks, which small graphs have, and flags that do not begin at a whole word
    for (int i = 0; i < 32 && base + i * stride < last; i += SCANNED)
        found |= wanted_among(base + i * stride, stride, last, size, wanted) << i;
    return found;
}

// Call chunk(base, some) for every chunk of `size` vertices (at most 32) of first .. last - 1 with `wanted` vertices.
// Flags are bytes, which are set without atomics; a warp combines the flags of a chunk into a bit-vector by a ballot.
// Several chunks are tested at once, because reading one after the other takes most of the time if few vertices are
// wanted.
template <bool AHEAD, class Wanted, class Chunk>
__device__ inline void wanted_chunks(Id first, Id last, Id size, Wanted wanted, Chunk chunk)
{
    const Id stride = size * warps_of_grid(), lane = lane_id();
    for (Id base = first + size * warp_of_grid(); base < last; base += tested<AHEAD, Wanted> * stride) {
        unsigned chunks = to_visit<AHEAD>(base, stride, last, size, wanted);
        for (; chunks; chunks &= chunks - 1) {
            const Id at = base + (__ffs(chunks) - 1) * stride, mine = at + lane;
            const unsigned some = __ballot_sync(WARP, lane < size && mine < last && wanted(mine));
            if (some) chunk(at, some);
        }
    }
}

// Call function(v) for every vertex of first .. last - 1 that is `wanted`; the lanes of a lane group call it together.
template <bool AHEAD = false, class Wanted, class VertexFunction>
__device__ inline void vertexmap(const LaneGroup& group, Id first, Id last, Wanted wanted, VertexFunction function)
{
    wanted_chunks<AHEAD>(first, last, 32, wanted, [&](Id base, unsigned some) {
        for (int i = group.number; i < 32; i += LANE_GROUPS)
            if (!group.idle() && some >> i & 1u) function(base + i);
        __syncwarp();
    });
}

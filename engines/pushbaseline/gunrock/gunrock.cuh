// Advance and filter over an explicit frontier (Wang et al. 2016).
//
// A frontier is a list of vertices, with the position of each one's first edge in the list of all their out-edges. Its
// size is one word, so that one atomic operation reserves space for the vertices of a block and for their edges.
#pragma once

#include "threads.cuh"

typedef unsigned long long Size;
constexpr int EDGE_BITS = 33;
constexpr Id NOWHERE = 0xffffffffu;  // output for an edge that changed nothing

__device__ inline Size size_of(Id vertices, EdgeId edges) { return (Size(vertices) << EDGE_BITS) + Size(edges); }
__device__ inline Id vertices_of(Size size) { return Id(size >> EDGE_BITS); }
__device__ inline EdgeId edges_of(Size size) { return EdgeId(size & ((Size(1) << EDGE_BITS) - 1)); }

// Filter: append the vertices that the threads of a block keep; every thread of the block calls this.
__device__ inline void append(bool keep, Id v, EdgeId degree, Id* vertices, EdgeId* starts, Size* size)
{
    __shared__ Size of_warp[BLOCK / 32], room;
    if (!__syncthreads_or(keep)) return;
    const Size mine = keep ? size_of(1, degree) : 0;
    Size sum = mine;
    _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
        const Size before = __shfl_up_sync(WARP, sum, offset);
        if (lane_id() >= offset) sum += before;
    }
    if (lane_id() == 31) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        Size all = 0;
        for (int warp = 0; warp < BLOCK / 32; ++warp) {
            const Size next = all + of_warp[warp];
            of_warp[warp] = all;
            all = next;
        }
        room = atomicAdd(size, all);
    }
    __syncthreads();
    if (keep) {
        const Size at = room + of_warp[threadIdx.x / 32] + sum - mine;
        vertices[vertices_of(at)] = v;
        if (starts) starts[vertices_of(at)] = edges_of(at);
    }
    __syncthreads();
}

// The part of a frontier that a block advances at a time: edges first .. last - 1 of the list, which are the out-edges
// of its vertices base .. base + count - 1.
struct EdgeRange {
    Id base, count;
    EdgeId first, last;

    // Return the share of one of several blocks that process one range, if there are fewer ranges than blocks.
    __device__ EdgeRange part(Id number, Id all) const
    {
        const EdgeId length = (last - first + all - 1) / all, begin = first + number * length;
        return {base, count, begin < last ? begin : last, begin + length < last ? begin + length : last};
    }
};

// Block-mapped: the edges of as many vertices as a block has threads.
struct BlockMapped {
    static constexpr int VERTICES = BLOCK;
    static __device__ Id ranges(Size size) { return (vertices_of(size) + BLOCK - 1) / BLOCK; }
    static __device__ EdgeRange range(Id number, Size size, const EdgeId* starts)
    {
        const Id all = vertices_of(size), base = number * BLOCK;
        const Id count = all - base < BLOCK ? all - base : BLOCK;
        return {base, count, starts[base], base + count < all ? starts[base + count] : edges_of(size)};
    }
};

// Merge path: an equal number of vertices and edges together per block, cut where the two lists merge.
struct MergePath {
    static constexpr int LENGTH = 4 * BLOCK, VERTICES = LENGTH + 1;
    static __device__ Id ranges(Size size)
    {
        return Id(((Size)vertices_of(size) + edges_of(size) + LENGTH - 1) / LENGTH);
    }
    // Return the number of vertices before step `at` of the merge of the vertices' ends with the edges. The lanes of a
    // warp read 32 places at once. A binary search of one thread would wait for memory 22 times among 4 M vertices,
    // this one 5 times.
    static __device__ Id split(Size at, Size size, const EdgeId* starts)
    {
        const Id all = vertices_of(size);
        const Size edges = edges_of(size);
        Id low = at > edges ? Id(at - edges) : 0, high = at < all ? Id(at) : all;
        while (low < high) {
            const Id step = (high - low + 31) / 32, mine = low + lane_id() * step;
            const bool looks = mine < high;
            const Size end = looks && mine + 1 < all ? starts[mine + 1] : edges;
            const int before = __popc(__ballot_sync(WARP, looks && end + mine < at));
            if (before == 0) break;
            high = before * step < high - low ? low + before * step : high;
            low += (before - 1) * step + 1;
        }
        return low;
    }
    static __device__ EdgeRange range(Id number, Size size, const EdgeId* starts)
    {
        const Size whole = (Size)vertices_of(size) + edges_of(size), begin = (Size)number * LENGTH;
        const Size end = begin + LENGTH < whole ? begin + LENGTH : whole;
        const Id base = split(begin, size, starts), stop = split(end, size, starts);
        const Id count = stop - base + (stop < vertices_of(size));  // the last one may continue in the next range
        return {base, count, EdgeId(begin - base), EdgeId(end - stop)};
    }
};

// A block's range, in shared memory; `find` is the binary search for the source of an edge.
template <class Balance> struct Advance {
    EdgeId starts[Balance::VERTICES], offsets[Balance::VERTICES];
    Id vertices[Balance::VERTICES];

    __device__ void read(const EdgeRange& range, const Id* frontier, const EdgeId* first_edges,
                         const EdgeId* out_offsets)
    {
        __syncthreads();
        for (Id i = threadIdx.x; i < range.count; i += BLOCK) {
            vertices[i] = frontier[range.base + i];
            starts[i] = first_edges[range.base + i];
            offsets[i] = out_offsets[vertices[i]];
        }
        __syncthreads();
    }
    // Return the last vertex whose edges start at or before `at`; vertices without edges precede it.
    __device__ int find(EdgeId at, const EdgeRange& range) const
    {
        int low = 0, high = range.count;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (starts[middle] <= at) low = middle;
            else high = middle;
        }
        return low;
    }
};

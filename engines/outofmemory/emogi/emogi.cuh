// Access patterns of a push over edges in host memory (Min et al. 2020, sec. 4.3), and the requests that they make.
//
// A GPU reads host memory in sectors of 32 bytes. Adjacent sectors in a line of 128 bytes that the lanes of a warp read
// at once are one request over the link. Ids of vertices have 4 bytes.
#pragma once

#include "threads.cuh"

constexpr EdgeId LINE = 32, SECTOR = 8;  // ids
// Lines that a warp requests before it processes the first of them. PageRank on an R-MAT graph of 67 M edges reads, aligned,
// 0.57, 0.69, 0.78 and 0.83 of the rate of copies with 1, 2, 4 and 8 lines (H200, PCIe 5).
constexpr int AHEAD = 8;

// A row of LONG edges takes a warp eight round trips over the link. A block lists at most LONG_ROWS longer rows; its warps
// read further ones alone.
constexpr EdgeId LONG = 2048;
constexpr Id LONG_ROWS = 32;

// LANES_OF_ROW lanes read the edges of a vertex: each from `first` on, STEP edges apart. They take VERTICES vertices in
// turn.
struct Naive {
    static constexpr int LANES_OF_ROW = 1, VERTICES = 1, STEP = 1;
    static __device__ EdgeId first(EdgeId start) { return start; }
    static __device__ bool leads() { return true; }
};
struct Merged {
    static constexpr int LANES_OF_ROW = 32, VERTICES = 1, STEP = 32;
    static __device__ EdgeId first(EdgeId start) { return start + lane_id(); }
    static __device__ bool leads() { return lane_id() == 0; }
};
struct Aligned {  // lanes before the first edge are masked
    static constexpr int LANES_OF_ROW = 32, VERTICES = 1, STEP = 32;
    static __device__ EdgeId first(EdgeId start) { return start / LINE * LINE + lane_id(); }
    static __device__ bool leads() { return lane_id() == 0; }
};
struct EightRows : Aligned {
    static constexpr int VERTICES = 8;
};

// Append the vertices of the lanes with `keep` to a list. Every lane of the warp calls this.
__device__ inline void append(bool keep, Id v, Id* list, Id* length)
{
    const unsigned kept = __ballot_sync(WARP, keep);
    Id at = 0;
    if (lane_id() == 0 && kept) at = atomicAdd(length, Id(__popc(kept)));
    at = __shfl_sync(WARP, at, 0);
    if (keep) list[at + __popc(kept & ((1u << lane_id()) - 1u))] = v;
}

// Append a vertex to the list of a block; return whether there was room. All lanes of a warp call this for the same one.
__device__ inline bool keep(Id u, Id* list, Id* length, Id room)
{
    Id at = 0;
    if (lane_id() == 0) at = atomicAdd(length, Id(1));
    at = __shfl_sync(WARP, at, 0);
    if (lane_id() == 0 && at < room) list[at] = u;
    return at < room;
}

// The active vertices among BLOCK consecutive ones, and the lines of 128 bytes that hold their edges. Each line is listed
// once.
struct Lines {
    EdgeId offsets[BLOCK + 1], first_line[BLOCK];
    Id lines_before[BLOCK + 1];
    bool active[BLOCK];

    // Every thread of the block calls this, for the vertex base + threadIdx.x.
    __device__ void read(Id base, Id last, bool wanted, const EdgeId* out_offsets)
    {
        __shared__ Id of_warp[BLOCK / 32];
        const int i = threadIdx.x;
        const Id v = base + i < last ? base + i : last;
        __syncthreads();
        offsets[i] = out_offsets[v];
        if (i == BLOCK - 1) offsets[BLOCK] = out_offsets[base + i < last ? v + 1 : last];
        __syncthreads();
        const EdgeId start = offsets[i], stop = offsets[i + 1];
        active[i] = wanted && start < stop;
        __syncthreads();
        Id lines = 0;
        if (active[i]) {
            EdgeId line = start / LINE;
            // An earlier active vertex may have edges in the first line; then that vertex lists it.
            for (int j = i - 1; j >= 0 && offsets[j + 1] > line * LINE; --j) {
                if (active[j]) {
                    ++line;
                    break;
                }
            }
            first_line[i] = line;
            lines = Id((stop - 1) / LINE + 1 - line);
        }
        Id sum = lines;
        _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
            const Id before = __shfl_up_sync(WARP, sum, offset);
            if (lane_id() >= offset) sum += before;
        }
        if (lane_id() == 31) of_warp[i / 32] = sum;
        __syncthreads();
        for (int warp = 0; warp < i / 32; ++warp) sum += of_warp[warp];
        lines_before[i] = sum - lines;
        if (i == BLOCK - 1) lines_before[BLOCK] = sum;
        __syncthreads();
    }
    __device__ Id lines() const { return lines_before[BLOCK]; }
    // Return the first edge of a line.
    __device__ EdgeId line(Id number) const
    {
        int low = 0, high = BLOCK;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (lines_before[middle] <= number) low = middle;
            else high = middle;
        }
        return (first_line[low] + (number - lines_before[low])) * LINE;
    }
    // Return the active source of an edge, counted from the first vertex of the tile; -1 if the source is not active.
    __device__ int find(EdgeId e) const
    {
        int low = 0, high = BLOCK;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (offsets[middle] <= e) low = middle;
            else high = middle;
        }
        return offsets[low] <= e && e < offsets[low + 1] && active[low] ? low : -1;
    }
};

// Requests of 32, 64, 96 and 128 bytes, and edges that were read.
struct Requests {
    Count of_sectors[4] = {0, 0, 0, 0}, edges = 0;

    // Add those of one load of a warp of `count` edges: lane 0 would read edge `base`; `lanes`: a bit for every lane
    // that reads what no cache has. One lane calls this. Edges before `base` may be negative, and no lane reads them.
    __device__ void add(EdgeId base, unsigned lanes, int count)
    {
        edges += count;
        int length = 0;
        for (EdgeId sector = base / SECTOR; sector <= (base + 31) / SECTOR; ++sector) {
            const int from = sector * SECTOR < base ? 0 : int(sector * SECTOR - base), to = int((sector + 1) * SECTOR - base);
            const unsigned below = to >= 32 ? WARP : (1u << to) - 1u, before = (1u << from) - 1u;
            const bool reads = lanes & below & ~before;
            if (length && (!reads || sector % 4 == 0)) {
                ++of_sectors[length - 1];
                length = 0;
            }
            length += reads;
        }
        if (length) ++of_sectors[length - 1];
    }
    // Add those of a thread that reads a row alone: one for every sector from edge `fresh` on.
    __device__ void add_alone(EdgeId start, EdgeId fresh, EdgeId stop)
    {
        edges += Count(stop - start);
        if (fresh < stop) of_sectors[0] += Count((stop - 1) / SECTOR - fresh / SECTOR + 1);
    }
};

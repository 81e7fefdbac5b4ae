"""Kernels that move packed rows to their places in a slot of the device."""

from __future__ import annotations

# A block takes the rows of 32 consecutive vertices, and each of its warps finds where these begin. `groups`: for 32
# vertices, a bit for each packed row, and the number of packed edges before them. Threads take consecutive edges.
UNPACK = """
extern "C" __global__ void {name}(const Id* groups, Id first, Id last, const EdgeId* offsets, const {type}* packed, Id width, {type}* slot)
{{
    const Id vertices = last - first;
    for (Id group = blockIdx.x; size_t(group) * 32 < vertices; group += gridDim.x) {{
        const Id rows = groups[2 * group], before = groups[2 * group + 1];
        if (!rows) continue;
        const Id v = first + 32 * group + lane_id();
        const bool taken = rows >> lane_id() & 1u;
        const EdgeId start = taken ? offsets[v] : 0;
        const Id edges = taken ? Id(offsets[v + 1] - start) : 0;
        Id sum = edges;
        _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {{
            const Id below = __shfl_up_sync(WARP, sum, offset);
            if (lane_id() >= offset) sum += below;
        }}
        const Id total = __shfl_sync(WARP, sum, 31);
        for (Id base = threadIdx.x / 32 * 32; base < total; base += BLOCK) {{
            const Id at = base + lane_id();
            int row = 0;
            _Pragma("unroll") for (int step = 16; step > 0; step /= 2)
                if (__shfl_sync(WARP, sum, row + step - 1) <= at) row += step;
            const EdgeId from = __shfl_sync(WARP, start, row);
            const Id of_row = at - __shfl_sync(WARP, sum - edges, row);
            if (at >= total) continue;
            const size_t to = (size_t(from) + of_row) * width, place = (size_t(before) + at) * width;
            for (Id i = 0; i < width; ++i) slot[to + i] = packed[place + i];
        }}
    }}
}}
"""  # noqa: E501  the emulator reads a signature from one line
# Vertices that become active after the rows were packed are held until the packed rows have been processed.
HOLD_LATE = """
extern "C" __global__ void HoldLate(const Id* groups, Id first, Id last, bool* active, bool* late)
{
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {
        const Id i = v - first;
        if (!active[v] || groups[i / 32 * 2] >> i % 32 & 1u) continue;
        active[v] = false;
        late[v] = true;
    }
}
extern "C" __global__ void RestoreLate(const Id* groups, Id first, Id last, bool* active, bool* late)
{
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {
        if (!late[v]) continue;
        active[v] = true;
        late[v] = false;
    }
}
"""
HOLD, RESTORE, LATE = "HoldLate", "RestoreLate", "late"  # the kernels, and their array; no program has such names
WORDS, BYTES = "UnpackWords", "UnpackBytes"  # for edges of elements of 4 bytes, and others
UNPACKING = UNPACK.format(name=WORDS, type="unsigned") + UNPACK.format(name=BYTES, type="unsigned char")

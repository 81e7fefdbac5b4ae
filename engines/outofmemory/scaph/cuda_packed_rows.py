"""Kernels over rows that the host has packed."""

from __future__ import annotations

# A warp takes 32 consecutive vertices. `groups`: for them, a bit for each packed row, and the number of packed edges
# before them. Rows that are not packed are empty.
PLACE = """
extern "C" __global__ void PlaceRows(const Id* groups, Id first, Id last, const EdgeId* offsets, EdgeId* packed)
{
    for (size_t base = first + thread_of_grid() / 32 * 32; base < last; base += threads_of_grid()) {
        const Id v = Id(base) + lane_id(), group = (Id(base) - first) / 32;
        const bool taken = groups[2 * group] >> lane_id() & 1u;
        const Id edges = taken ? Id(offsets[v + 1] - offsets[v]) : 0;
        Id sum = edges;
        _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
            const Id below = __shfl_up_sync(WARP, sum, offset);
            if (lane_id() >= offset) sum += below;
        }
        const EdgeId end = EdgeId(groups[2 * group + 1]) + sum;
        if (v < last) packed[v] = end - edges;
        if (v == last - 1) packed[last] = end;
    }
}
"""
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
PLACED = "PlaceRows"

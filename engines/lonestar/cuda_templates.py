"""The bodies of the CUDA kernels, in which ``@name`` is replaced by generated statements.

Edges are in the order of the CSC: edge ``e`` leads from ``in_neighbours[e]`` to ``in_rows[e]``.
"""

from __future__ import annotations

# Batches `first` to `last - 1`, with a barrier of the grid after each but the last.
BATCHED = """
    @kernel
    GlobalBarrier barrier(arrivals);
    for (Id batch = first; batch < last; ++batch) {{
        const EdgeId end = batches[batch + 1];
        if (!team.idle()) for (EdgeId i = batches[batch] + team_of_grid(team); i < end; i += teams_of_grid()) {{
            {edge}
        }}
        if (batch + 1 < last) wait_for_all(barrier);
    }}
"""
EACH = """const EdgeId e = order_edges[i];
            const Id u = order_sources[i], v = order_destinations[i];
            @edge"""
IN_UNITS = """const EdgeId after = units[i + 1];
            for (EdgeId j = units[i]; j < after; ++j) {
                const EdgeId e = order_edges[j];
                const Id u = order_sources[j], v = order_destinations[j];
                @edge
                team.sync();
            }"""
# Passes `first` to `last - 1` over the edges that are left; those that cannot lock both ends are left to the next.
EDGE_LOCKED = """
    @kernel
    GlobalBarrier barrier(arrivals);
    const bool stamping = taking[0] != 0;
    for (Id pass = first; pass < last; ++pass) {
        const EdgeId count = edges_of_pass(sizes, pass);
        if (count == 0) break;
        const EdgeId* const listed = pass & 1 ? list_1 : list_0;
        EdgeId* const later = pass & 1 ? list_0 : list_1;
        if (!team.idle()) for (EdgeId i = team_of_grid(team); i < count; i += teams_of_grid()) {
            const EdgeId e = listed[i];
            const Id u = in_neighbours[e], v = in_rows[e];
            if (try_both(team, locks, u, v)) {
                @edge
                stamp(team, stamping, stamps, counters, e, u, v);
                unlock_both(team, locks, u, v);
            } else if (team.leads()) {
                later[atomicAdd(size_of(sizes, pass + 1), Number(1))] = e;
            }
        }
        if (pass + 1 < last) wait_for_all(barrier);
    }
"""
# One pass over columns; a team keeps a column's values in registers while it runs the column's edges.
NODE_LOCKED = """
    @kernel
    const bool stamping = taking[0] != 0;
    if (!team.idle()) for (Id n = first + team_of_grid(team); n < last; n += teams_of_grid()) {{
        const Id v = {column};
        const EdgeId end = in_offsets[v + 1];
        Number missing = 0;
        @column
        for (EdgeId base = in_offsets[v]; base < end; base += {depth}) {{
            struct {{
                @fields
            }} fetched[{depth}];
            const unsigned locked = lock_sources<{depth}>(team, locks, done, in_neighbours, base, end, missing);
            if (!locked) continue;
            _Pragma("unroll") for (int d = 0; d < {depth}; ++d) {{
                const EdgeId e = base + d;
                auto& got = fetched[d];
                if (locked >> d & 1u) {{
                    const Id u = in_neighbours[e];
                    @fetch
                }}
            }}
            _Pragma("unroll") for (int d = 0; d < {depth}; ++d) {{
                const EdgeId e = base + d;
                const auto& got = fetched[d];
                if (locked >> d & 1u) {{
                    const Id u = in_neighbours[e];
                    @visit
                    stamp(team, stamping, stamps, counters, e, u, v);
                }}
            }}
            unlock_sources<{depth}>(team, locks, done, in_neighbours, base, locked);
        }}
        @finish
        if (team.leads() && missing) atomicAdd(size_of(sizes, 0), missing);
    }}
"""
# The edges that passes over columns have left, in the order of the first list.
REMAINING = """
    @kernel
    for (EdgeId i = first + blockIdx.x * BLOCK + threadIdx.x; i < last; i += gridDim.x * BLOCK) {
        const EdgeId e = first_list[i];
        if (!done[e]) list_0[atomicAdd(size_of(sizes, 0), Number(1))] = e;
    }
"""
# Block rows `first` to `last - 1`, one for each team, which tries to lock the block columns.
WAVEFRONT = """
    @kernel
    const bool stamping = taking[0] != 0;
    if (!team.idle()) for (Id row = first + team_across_blocks(team); row < last; row += teams_of_grid()) {{
        Number missing = 0;
        for (Id n = 0; n < {columns}; ++n) {{
            const Id c = visits[row * {columns} + n], block = row * {columns} + c;
            if (done_blocks[block]) continue;
            if (!try_lock(team, locks, c)) {{
                ++missing;
                continue;
            }}
            const EdgeId end = wave_bounds[block + 1];
            for (EdgeId j = wave_bounds[block]; j < end; ++j) {{
                const EdgeId e = order_edges[j];
                const Id u = order_sources[j], v = order_destinations[j];
                @edge
                stamp(team, stamping, stamps, counters, e, u, v);
                team.sync();
            }}
            if (team.leads()) done_blocks[block] = true;
            unlock(team, locks, c);
        }}
        if (team.leads() && missing) atomicAdd(size_of(sizes, 0), missing);
    }}
"""
# `first` teams without locks, each of which takes `batch` edges of the list at a time.
LOSSY = """
    @kernel
    const bool counting = taking[0] != 0;
    const Id number = team_across_blocks(team);
    if (!team.idle() && number < first) {{
        for (EdgeId base = EdgeId(number) * {batch}; base < {edges}; base += EdgeId(first) * {batch}) {{
            const EdgeId end = base + {batch} < {edges} ? base + {batch} : {edges};
            for (EdgeId i = base; i < end; ++i) {{
                const EdgeId e = first_list[i];
                const Id u = in_neighbours[e], v = in_rows[e];
                const Counted counted(team, counting, counters, u, v);
                @edge
                counted.write();
                team.sync();
            }}
        }}
    }}
"""

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
        if (!group.idle()) for (EdgeId i = batches[batch] + group_of_grid(group); i < end; i += groups_of_grid()) {{
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
                group.sync();
            }"""
# Passes `first` to `last - 1` over the edges that are left; those that cannot lock both ends are left to the next. They
# end early if one of them runs so few of its edges that the rest is to be handed over to lane groups that own hubs.
EDGE_LOCKED = """
    @kernel
    GlobalBarrier barrier(arrivals);
    const bool stamping = taking[0] != 0;
    EdgeId before = 0;
    for (Id pass = first; pass < last; ++pass) {{
        if ({hand_over} && pass > first && starving<{share}, {least}>(before, edges_left(sizes, pass))) break;
        const EdgeId count = edges_of_pass(sizes, pass);
        if (count == 0) break;
        before = count;
        const Turn turn(pass / {turn}, count);
        const EdgeId* const listed = pass & 1 ? list_1 : list_0;
        EdgeId* const later = pass & 1 ? list_0 : list_1;
        if (!group.idle()) for (EdgeId i = group_of_grid(group); i < turn.places; i += groups_of_grid()) {{
            const EdgeId place = turn.place(i);
            if (place >= count) continue;
            const EdgeId e = listed[place];
            const Id u = in_neighbours[e], v = in_rows[e];
            if (try_both(group, locks, u, v)) {{
                @edge
                stamp(group, stamping, stamps, counters, e, u, v);
                unlock_both(group, locks, u, v);
            }} else if (group.leads()) {{
                later[atomicAdd(size_of(sizes, pass + 1), Number(1))] = e;
            }}
        }}
        if (pass + 1 < last) wait_for_all(barrier);
    }}
"""
# One pass over units `first` to `last - 1` of the edges of list_0; a lane group runs the edges of a hub in turn.
OWNED = """
    @kernel
    const bool stamping = taking[0] != 0;
    if (!group.idle()) for (Id unit = first + group_across_blocks(group); unit < last; unit += groups_of_grid()) {
        const EdgeId end = owned[unit + 1];
        for (EdgeId i = owned[unit]; i < end; ++i) {
            const EdgeId e = list_0[i];
            const Id u = in_neighbours[e], v = in_rows[e];
            if (try_both(group, locks, u, v)) {
                @edge
                stamp(group, stamping, stamps, counters, e, u, v);
                unlock_both(group, locks, u, v);
            } else if (group.leads()) {
                list_1[atomicAdd(size_of(sizes, 1), Number(1))] = e;
            }
        }
    }
"""
# The same for units of one destination each, whose lock and values a lane group keeps while it runs the unit's edges.
OWNED_COLUMNS = """
    @kernel
    const bool stamping = taking[0] != 0;
    EdgeId* const later = list_1;
    if (!group.idle()) for (Id unit = first + group_across_blocks(group); unit < last; unit += groups_of_grid()) {{
        const EdgeId end = owned[unit + 1];
        const Id v = in_rows[list_0[owned[unit]]];
        if (!try_lock(group, locks, v)) {{
            if (group.leads())
                for (EdgeId i = owned[unit]; i < end; ++i) later[atomicAdd(size_of(sizes, 1), Number(1))] = list_0[i];
            continue;
        }}
        @column
        for (EdgeId base = owned[unit]; base < end; base += {depth}) {{
            struct {{
                @fields
            }} fetched[{depth}];
            const unsigned locked = lock_listed<{depth}>(group, locks, list_0, in_neighbours, base, end, later, sizes);
            if (!locked) continue;
            _Pragma("unroll") for (int d = 0; d < {depth}; ++d) {{
                auto& got = fetched[d];
                if (locked >> d & 1u) {{
                    const EdgeId e = list_0[base + d];
                    const Id u = in_neighbours[e];
                    @fetch
                }}
            }}
            _Pragma("unroll") for (int d = 0; d < {depth}; ++d) {{
                const auto& got = fetched[d];
                if (locked >> d & 1u) {{
                    const EdgeId e = list_0[base + d];
                    const Id u = in_neighbours[e];
                    @visit
                    stamp(group, stamping, stamps, counters, e, u, v);
                }}
            }}
            unlock_listed<{depth}>(group, locks, list_0, in_neighbours, base, locked);
        }}
        @finish
        unlock(group, locks, v);
    }}
"""
# One pass over columns; a lane group keeps a column's values in registers while it runs the column's edges. Adjacent
# columns, which have sources in common in road networks, are in different blocks.
NODE_LOCKED = """
    @kernel
    const bool stamping = taking[0] != 0;
    if (!group.idle()) for (Id n = first + group_across_blocks(group); n < last; n += groups_of_grid()) {{
        const Id v = {column};
        const EdgeId end = in_offsets[v + 1];
        Number missing = 0;
        @column
        for (EdgeId base = in_offsets[v]; base < end; base += {depth}) {{
            struct {{
                @fields
            }} fetched[{depth}];
            const unsigned locked = lock_sources<{depth}>(group, locks, done, in_neighbours, base, end, missing);
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
                    stamp(group, stamping, stamps, counters, e, u, v);
                }}
            }}
            unlock_sources<{depth}>(group, locks, done, in_neighbours, base, locked);
        }}
        @finish
        if (group.leads() && missing) atomicAdd(size_of(sizes, 0), missing);
    }}
"""
# Edges `first` to `last - 1` of list_0 wait for a pass over columns.
PENDING = """
    @kernel
    for (EdgeId i = first + blockIdx.x * BLOCK + threadIdx.x; i < last; i += gridDim.x * BLOCK) done[list_0[i]] = false;
"""
# The edges that passes over columns have left, in the order of the first list.
REMAINING = """
    @kernel
    for (EdgeId i = first + blockIdx.x * BLOCK + threadIdx.x; i < last; i += gridDim.x * BLOCK) {
        const EdgeId e = first_list[i];
        if (!done[e]) list_0[atomicAdd(size_of(sizes, 0), Number(1))] = e;
    }
"""
# Block rows `first` to `last - 1`, one for each lane group, which tries to lock the block columns.
WAVEFRONT = """
    @kernel
    const bool stamping = taking[0] != 0;
    if (!group.idle()) for (Id row = first + group_across_blocks(group); row < last; row += groups_of_grid()) {{
        Number missing = 0;
        for (Id n = 0; n < {columns}; ++n) {{
            const Id c = visits[row * {columns} + n], block = row * {columns} + c;
            if (done_blocks[block]) continue;
            if (!try_lock(group, locks, c)) {{
                ++missing;
                continue;
            }}
            const EdgeId end = wave_bounds[block + 1];
            for (EdgeId j = wave_bounds[block]; j < end; ++j) {{
                const EdgeId e = order_edges[j];
                const Id u = order_sources[j], v = order_destinations[j];
                @edge
                stamp(group, stamping, stamps, counters, e, u, v);
                group.sync();
            }}
            if (group.leads()) done_blocks[block] = true;
            unlock(group, locks, c);
        }}
        if (group.leads() && missing) atomicAdd(size_of(sizes, 0), missing);
    }}
"""
# `first` lane groups without locks, each of which takes `batch` edges of the list at a time.
LOSSY = """
    @kernel
    const bool counting = taking[0] != 0;
    const Id number = group_across_blocks(group);
    if (!group.idle() && number < first) {{
        for (EdgeId base = EdgeId(number) * {batch}; base < {edges}; base += EdgeId(first) * {batch}) {{
            const EdgeId end = base + {batch} < {edges} ? base + {batch} : {edges};
            for (EdgeId i = base; i < end; ++i) {{
                const EdgeId e = first_list[i];
                const Id u = in_neighbours[e], v = in_rows[e];
                const Counted counted(group, counting, counters, u, v);
                @edge
                counted.write();
                group.sync();
            }}
        }}
    }}
"""
# The same without lost updates: changes are added to rows atomically. Ends of edges are in the order of the list, and
# their values too, if a kernel has listed these. A lane group's share is divided into equal batches of at most `batch`
# edges. All lanes have read what the leader adds to before it does.
ADDING = """
    @kernel
    const bool counting = taking[0] != 0;
    const Id number = group_across_blocks(group);
    if (!group.idle() && number < first) {{
        const EdgeId share = ({edges} - 1) / first + 1, batches = (share - 1) / {batch} + 1;
        const EdgeId batch = (share - 1) / batches + 1;
        for (EdgeId base = EdgeId(number) * batch; base < {edges}; base += EdgeId(first) * batch) {{
            const EdgeId end = base + batch < {edges} ? base + batch : {edges};
            for (EdgeId i = base; i < end; ++i) {{
                const EdgeId e = {place};
                const Id u = listed_sources[i], v = listed_destinations[i];
                struct {{
                    @fields
                }} got;
                @fetch
                group.sync();
                @visit
                count_both(group, counting, counters, u, v);
            }}
        }}
    }}
"""
# Values of edges in the order of the list, from `first` to `last - 1`.
LISTING = """
    @kernel
    for (EdgeId i = first + blockIdx.x * BLOCK + threadIdx.x; i < last; i += gridDim.x * BLOCK) {{
        const EdgeId e = first_list[i];
        {copies}
    }}
"""

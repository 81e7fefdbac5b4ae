"""Onyx on CUDA: the bodies of its kernels, in which ``@name`` is replaced by generated statements.

``WANTED`` selects the vertices that a kernel processes, ``FLAGGED`` is the test of vertices by their flags, and
``ENOUGH`` is when a kernel has read enough of a row.
"""

from __future__ import annotations

RANGE = [("first", "Id"), ("last", "Id")]
VERTEX = """
    @kernel
    vertexmap{ahead}(group, first, last, WANTED, [&](Id v) {
        @vertex
    });
    @end
"""
FETCH = """[&](Id {row}, Id {other}, EdgeId e{more}) {{
            struct {{
                @fields
            }} got;
        @fetch
            return got;
        }}"""
EDGES = """
    @kernel
    {map}(group, {edge_arrays}, first, last, WANTED,
        FETCH,
        [&](const auto& got, Id {row}, Id {other}, EdgeId e) {{
        @visit
        }});
"""
GATHER = """
    @kernel
    {map}(group, {edge_arrays}, first, last, WANTED,
        [&](Id v) {{
      @start
        }},
        FETCH,
        [&](const auto& got, Id u, Id v, EdgeId e) {{
        @visit
        }},
        ENOUGH,
        [&]() {{
        @join
        }},
        [&](Id v) {{
        @finish
        }});
"""
WHOLE_ROW = "WholeRow()"
UNTIL = """[&]() {
        @enough
        }"""
SEGMENTS = """
    @kernel
    segments<{run}, {depth}, {abreast}, {reverses}>(group, in_rows, in_neighbours, {reverse}, first, last,
        [&]() {{
      @start
        }},
        FETCH,
        [&](const auto& got, Id u, Id v, EdgeId e, Id back) {{
        @visit
        }},
        [&](Id v, bool whole) {{
        @store
        }});
"""
MARK = """
    @kernel
    if (run->sparse({number})) followed = mark(out_offsets, out_neighbours, first, last, FLAGGED{{{active}, false}},
                                               {dirty});
    vertexmap<true>(group, first, last, FLAGGED{{{active}, {resuming}}}, [&](Id u) {{
        @source
        {active}[u] = false;
    }});
"""
VERTEX_AND_SENT = """
    @kernel
    const bool all_send = {all_send}, all_step = {all_step};
    vertexmap(group, first, last, FlaggedEither{{{dirty}, {active}, all_send || all_step}}, [&](Id v) {{
        const Id u = v;
        const bool sends = all_send || {active}[v], steps = all_step || {dirty}[v];
        __syncwarp(group.mask);  // a lane clears the flags after all have read them
        if (sends) {{
            @source
            if (group.leads()) {active}[v] = false;
        }}
        if (!steps) return;
        @vertex
    }});
    @end
"""
SENT = """
    @kernel
    vertexmap(group, first, last, FLAGGED{{{active}, {every}}}, [&](Id u) {{
        @source
        {active}[u] = false;
    }});
"""
COMMIT = """
    @kernel
    if (!run->sparse({number})) {{
        if (blockIdx.x == 0 && threadIdx.x == 0) {{ {flip} }}
        return;
    }}
    vertexmap<true>(group, first, last, FLAGGED{{{fresh}, false}}, [&](Id v) {{
        @vertex
        {fresh}[v] = false;
    }});
"""
FORGET = """
    @kernel
    vertexmap(group, first, last, FLAGGED{{{rows}, false}}, [&](Id u) {{ {rows}[u] = false; }});
"""
MARK_ROWS = """
    @kernel
    {mark}
    vertexmap(group, first, last, FLAGGED{{{active}, {resuming}}}, [&](Id u) {{
        @source
        {dirty}[u] = true;
        {active}[u] = false;
    }});
"""
COUNT_ROWS = """
    @kernel
    edges += count_edges(out_offsets, first, last, {dirty}, next_{dirty});
"""
REDUCE = """
    @kernel
    for (Id v = share_of_group(group, first + blockIdx.x * LANE_GROUPS_OF_BLOCK, last); v < last; v += groups_of_grid())
    {{
        @vertex
{chosen}    }}
    @join
    if (threadIdx.x < LANES) {{
        @store
    }}
    if (!last_block({ticket})) return;
    @again
    for (Id i = share_of_group(group, 0, gridDim.x); i < gridDim.x; i += LANE_GROUPS_OF_BLOCK) {{
        @part
    }}
    @whole
    if (threadIdx.x < LANES) {{
        @result
    }}
"""
CHOSEN = """\
        if (chosen) {
            @chosen
        }
"""


def fetch(row: str, other: str, more: str = "") -> str:
    """Return the lambda that reads the operands of an edge; ``more``: parameters after the usual ones."""
    return FETCH.format(row=row, other=other, more=more)


def flagged(flags: str, *every: str) -> str:
    """Return the test of vertices by an array of flags; all are wanted if one of the conditions ``every`` holds."""
    return f"FLAGGED{{{flags}, {' || '.join(every) or 'false'}}}"


def vertices(wanted: str, *, ahead: bool = False) -> str:
    """Return the body of a kernel over wanted vertices; ``ahead``: it reads flags ahead (``vertexmap.cuh``)."""
    return VERTEX.replace("{ahead}", "<true>" * ahead).replace("WANTED", wanted)


def reduce(ticket: str, *, chosen: bool) -> str:
    """Return the body of a reduction over the graph; ``chosen``: a condition chooses the vertices that take part."""
    return REDUCE.format(ticket=ticket, chosen=CHOSEN if chosen else "")

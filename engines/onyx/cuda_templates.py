"""Onyx on CUDA: the bodies of its kernels, in which ``@name`` is replaced by generated statements.

``WANTED`` selects the vertices that a kernel processes.
"""

from __future__ import annotations

RANGE = [("first", "Id"), ("last", "Id")]
VERTEX = """
    @kernel
    vertexmap(team, first, last, WANTED, [&](Id v) {
        @vertex
    });
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
    {map}(team, {walked}, first, last, WANTED,
        FETCH,
        [&](const auto& got, Id {row}, Id {other}, EdgeId e) {{
        @visit
        }});
"""
GATHER = """
    @kernel
    {map}(team, {walked}, first, last, WANTED,
        [&](Id v) {{
      @start
        }},
        FETCH,
        [&](const auto& got, Id u, Id v, EdgeId e) {{
        @visit
        }},
        [&]() {{
        @join
        }},
        [&](Id v) {{
        @finish
        }});
"""
SEGMENTS = """
    @kernel
    segments<{run}, {depth}, {abreast}, {reverses}>(team, in_rows, in_neighbours, {reverse}, first, last,
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
    if (run->sparse({number})) followed = mark(out_offsets, out_neighbours, first, last, {active}, {dirty});
    vertexmap(team, first, last, [&](Id u) {{ return {active}[u]{resuming}; }}, [&](Id u) {{
        @source
        {active}[u] = false;
    }});
"""
SENT = """
    @kernel
    vertexmap(team, first, last, [&](Id u) {{ return {active}[u] || run->rebuilding; }}, [&](Id u) {{
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
    vertexmap(team, first, last, [&](Id v) {{ return {fresh}[v]; }}, [&](Id v) {{
        @vertex
        {fresh}[v] = false;
    }});
"""
FORGET = """
    @kernel
    vertexmap(team, first, last, [&](Id u) {{ return {rows}[u]; }}, [&](Id u) {{ {rows}[u] = false; }});
"""
MARK_ROWS = """
    @kernel
    {mark}
    vertexmap(team, first, last, [&](Id u) {{ return {active}[u]{resuming}; }}, [&](Id u) {{
        @source
        {dirty}[u] = true;
        {active}[u] = false;
    }});
"""
COUNT_ROWS = """
    @kernel
    edges += count_edges(out_offsets, first, last, {dirty}, next_{dirty});
"""
JOIN = """
    @kernel
    if (warp_of_grid() == 0 && team.number == 0) {
        for (Id v = first; v < last; ++v) {
            @vertex
        }
        @end
    }
"""
PARTIAL = """
    @kernel
    vertexmap(team, first, last, Every(), [&](Id v) {
        @vertex
    });
    @end
"""


def fetch(row: str, other: str, more: str = "") -> str:
    """Return the lambda that reads the operands of an edge; ``more``: parameters after the usual ones."""
    return FETCH.format(row=row, other=other, more=more)

"""Templates of kernels that read the edges of active vertices, and that count the requests of doing so."""

from __future__ import annotations

TYPES = {"naive": "Naive", "merged": "Merged", "aligned": "Aligned", "chunk": "EightRows"}

# Vertices are taken from all consecutive ones, or from a list; VERTICES of them by the same lanes.
VERTICES = """
    @kernel
{counting}    typedef {access} Access;
    const size_t workers = threads_of_grid() / Access::LANES_OF_ROW, each = Access::VERTICES;
    const size_t end = {end};
    for (size_t base = {begin} + thread_of_grid() / Access::LANES_OF_ROW * each; base < end; base += workers * each) {{
        for (size_t i = base; i < base + each && i < end; ++i) {{
            const Id u = {vertex};
            if (!({active})) continue;
            const EdgeId start = out_offsets[u], stop = out_offsets[u + 1];
            if (start == stop) continue;
{row}
        }}
    }}
"""
READ = """\
            {counter}@source
            for (EdgeId e = Access::first(start); e < stop; e += Access::STEP) {{
                if (e < start) continue;
                const Id v = out_neighbours[e];
                @edge
            }}"""
COUNT_ALONE = "            read.add_alone(start, stop);"
COUNT = """\
            for (EdgeId base = Access::first(start) - lane_id(); base < stop; base += Access::STEP) {
                const EdgeId e = base + lane_id();
                const unsigned lanes = __ballot_sync(WARP, e >= start && e < stop);
                if (lane_id() == 0) read.add(base, lanes);
            }"""

# A block takes as many consecutive vertices as it has threads; its warps take the lines with their edges.
TILES = """
    @kernel
{counting}    __shared__ Lines tile;
    for (Id base = first + blockIdx.x * BLOCK; base < last; base += threads_of_grid()) {{
        const Id mine = base + threadIdx.x;
        bool wanted = false;
        if (mine < last) {{
            const Id u = mine;
            wanted = {active};
        }}
        tile.read(base, last, wanted, out_offsets);
{counter}        for (Id line = threadIdx.x / 32; line < tile.lines(); line += BLOCK / 32) {{
            const EdgeId begin = tile.line(line), e = begin + lane_id();
            const int found = tile.find(e);
{line}
        }}
    }}
"""
READ_LINE = """\
            if (found < 0) continue;
            const Id u = base + found;
            @source
            {
                const Id v = out_neighbours[e];
                @edge
            }"""
COUNT_LINE = """\
            const unsigned lanes = __ballot_sync(WARP, found >= 0);
            if (lane_id() == 0) read.add(begin, lanes);"""
VISITED = """\
        const int lane = threadIdx.x;
        if (tile.active[lane]) visited += tile.offsets[lane + 1] - tile.offsets[lane];
"""
TOTAL = "    @total\n"
COUNTING = "    Requests read;\n"


def visit_template(access: str, active: str, *, listing: bool, counted: bool) -> str:
    """Return the template of a kernel with the blocks ``source``, at vertex ``u``, and ``edge``, at its edge ``e``.

    ``active``: the condition on ``u``. ``listing``: vertices are those of a list. ``counted``: the edges are added to
    the variable ``visited``.
    """
    if access == "tiled":
        counter = VISITED if counted else ""
        return TILES.format(counting="", active=active, counter=counter, line=READ_LINE)
    counter = "if (Access::leads()) visited += stop - start;\n            " if counted else ""
    return _over_vertices(access, active, READ.format(counter=counter), listing=listing)


def count_template(access: str, active: str, *, listing: bool) -> str:
    """Return the template of a kernel that counts in ``read`` the requests for one array of edges; its block
    ``total`` follows the loops."""
    if access == "tiled":
        return TILES.format(counting=COUNTING, active=active, counter="", line=COUNT_LINE) + TOTAL
    row = COUNT_ALONE if access == "naive" else COUNT
    return _over_vertices(access, active, row, listing=listing, counting=COUNTING) + TOTAL


def _over_vertices(access: str, active: str, row: str, *, listing: bool, counting: str = "") -> str:
    begin, end, vertex = ("size_t(0)", "listed[0]", "frontier[i]") if listing else ("size_t(first)", "last", "Id(i)")
    return VERTICES.format(
        counting=counting, access=TYPES[access], begin=begin, end=end, vertex=vertex, active=active, row=row
    )

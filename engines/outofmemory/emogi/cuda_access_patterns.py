"""Templates of kernels that read the edges of active vertices, and of kernels that count their requests."""

from __future__ import annotations

TYPES = {"naive": "Naive", "merged": "Merged", "aligned": "Aligned", "chunk": "EightRows"}

# The same lanes take VERTICES vertices in turn: from a range of consecutive vertices, or from a list.
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
# Each lane finds one of the next 32 vertices that the warp takes, and where its row is: a warp alone with one inactive
# vertex after the other would wait for each of their flags. Then the warp reads the rows of the active ones in turn.
# A warp requests AHEAD lines before it processes any: the warp of a long row alone would wait for each of its lines.
# Rows of LONG edges and more are left until the block has processed the others. Then all its warps read each of them:
# the last rows of a launch would otherwise be read by few warps, at a fraction of the rate of the link.
VERTICES_AHEAD = """
    @kernel
    typedef {access} Access;
    __shared__ Id long_rows[LONG_ROWS], long_count;
    if (threadIdx.x == 0) long_count = 0;
    __syncthreads();
    for (int pass = 0; pass < 2; ++pass) {{
        const bool whole = pass == 0;  // a warp reads a row
        if (!whole) __syncthreads();
        const Id begin = whole ? {begin} + Id(thread_of_grid() / Access::LANES_OF_ROW) * Access::VERTICES : 0;
        const Id end = whole ? {end} : long_count < LONG_ROWS ? long_count : LONG_ROWS;
        const Id next = Id(threads_of_grid() / Access::LANES_OF_ROW) * Access::VERTICES;
        for (Id first_row = begin; first_row < end; first_row += whole ? 32 / Access::VERTICES * next : 1) {{
            const Id of_lane = lane_id() / Access::VERTICES * next + lane_id() % Access::VERTICES;
            const Id i = first_row + (whole ? of_lane : 0);
            Id found = 0;
            EdgeId begins = 0, ends = 0;
            if (i < end) {{
                const Id u = found = whole ? {vertex} : long_rows[i];
                if (!whole || {active}) {{
                    begins = out_offsets[u];
                    ends = out_offsets[u + 1];
                }}
            }}
            const unsigned rows = __ballot_sync(WARP, begins < ends) & (whole ? WARP : 1u);
            for (unsigned left = rows; left; left &= left - 1) {{
                const int lane = __ffs(left) - 1;
                const Id u = __shfl_sync(WARP, found, lane);
                const EdgeId start = __shfl_sync(WARP, begins, lane), stop = __shfl_sync(WARP, ends, lane);
                EdgeId from = Access::first(start), step = AHEAD * Access::STEP;
                if (whole) {{
                    {counter}if (stop - start >= LONG && keep(u, long_rows, &long_count, LONG_ROWS)) continue;
                }} else {{
                    from += threadIdx.x / 32 * step;
                    step *= BLOCK / 32;
                }}
                @source
                for (EdgeId base = from; base < stop; base += step) {{
                    Id ahead[AHEAD];
                    @declare
                    _Pragma("unroll") for (int i = 0; i < AHEAD; ++i) {{
                        const EdgeId e = base + i * Access::STEP;
                        if (e >= stop) break;
                        if (e >= start) {{
                            ahead[i] = out_neighbours[e];
                            @ahead
                        }}
                    }}
                    _Pragma("unroll") for (int i = 0; i < AHEAD; ++i) {{
                        const EdgeId e = base + i * Access::STEP;
                        if (e >= stop) break;
                        if (e < start) continue;
                        const Id v = ahead[i];
                        @edge
                    }}
                }}
            }}
        }}
    }}
"""
# If an earlier row has edges in the sector in which this row begins and is read, too, caches still have the sector.
SHARED = """\
            EdgeId fresh = start;
            const EdgeId sector = start / SECTOR * SECTOR;
            for (Id later = u; later && fresh == start && out_offsets[later] > sector; --later) {{
                const Id u = later - 1;
                if (out_offsets[u] < out_offsets[later] && ({before})) fresh = sector + SECTOR;
            }}
"""
COUNT_ALONE = "            read.add_alone(start, fresh, stop);"
COUNT = """\
            for (EdgeId base = Access::first(start) - lane_id(); base < stop; base += Access::STEP) {
                if (base > start && base % SECTOR) fresh = base / SECTOR * SECTOR + SECTOR;
                const EdgeId e = base + lane_id();
                const unsigned lanes = __ballot_sync(WARP, e >= fresh && e < stop);
                const unsigned edges = __ballot_sync(WARP, e >= start && e < stop);
                if (lane_id() == 0) read.add(base, lanes, __popc(edges));
            }"""

# A block takes BLOCK consecutive vertices. Its warps take the lines of 128 bytes that hold their edges.
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
{counter}{lines}    }}
"""
READ_LINES = """\
        for (Id line = threadIdx.x / 32; line < tile.lines(); line += AHEAD * (BLOCK / 32)) {
            EdgeId edges[AHEAD];
            Id ahead[AHEAD];
            int found[AHEAD];
            @declare
            _Pragma("unroll") for (int i = 0; i < AHEAD; ++i) {
                const Id number = line + i * (BLOCK / 32);
                const EdgeId e = number < tile.lines() ? tile.line(number) + lane_id() : 0;
                edges[i] = e;
                found[i] = number < tile.lines() ? tile.find(e) : -1;
                if (found[i] >= 0) {
                    ahead[i] = out_neighbours[e];
                    @ahead
                }
            }
            _Pragma("unroll") for (int i = 0; i < AHEAD; ++i) {
                if (found[i] < 0) continue;
                const EdgeId e = edges[i];
                const Id u = base + found[i];
                @source
                {
                    const Id v = ahead[i];
                    @edge
                }
            }
        }
"""
COUNT_LINES = """\
        for (Id line = threadIdx.x / 32; line < tile.lines(); line += BLOCK / 32) {
            const EdgeId begin = tile.line(line);
            const unsigned lanes = __ballot_sync(WARP, tile.find(begin + lane_id()) >= 0);
            if (lane_id() == 0) read.add(begin, lanes, __popc(lanes));
        }
"""
VISITED = """\
        const int lane = threadIdx.x;
        if (tile.active[lane]) visited += tile.offsets[lane + 1] - tile.offsets[lane];
"""
TOTAL = "    @total\n"
COUNTING = "    Requests read;\n"


def visit_template(access: str, active: str, *, listing: bool, counted: bool) -> str:
    """Return the template of a kernel with the blocks ``source``, at vertex ``u``, and ``edge``, at its edge ``e``.

    ``active``: the condition on ``u``. ``listing``: vertices are those of a list. ``counted``: the edges are added to
    the variable ``visited``. If :func:`reads_ahead`, block ``ahead`` reads what ``edge`` needs of edge ``e`` into
    elements ``i`` of arrays that block ``declare`` declares.
    """
    if access == "tiled":
        counter = VISITED if counted else ""
        return TILES.format(counting="", active=active, counter=counter, lines=READ_LINES)
    counter = "if (Access::leads()) visited += stop - start;\n            " if counted else ""
    if not reads_ahead(access):
        return _over_vertices(access, active, READ.format(counter=counter), listing=listing)
    begin, end, vertex = ("Id(0)", "listed[0]", "frontier[i]") if listing else ("first", "last", "i")
    return VERTICES_AHEAD.format(
        access=TYPES[access], begin=begin, end=end, vertex=vertex, active=active,
        counter=counter.replace("\n", "\n        "),
    )  # fmt: skip


def reads_ahead(access: str) -> bool:
    """Return whether a worker of an access pattern requests several lines before it processes the first."""
    return access != "naive"


def count_template(access: str, active: str, before: str, *, listing: bool) -> str:
    """Return the template of a kernel that counts in ``read`` the requests for one array of edges; its block
    ``total`` follows the loops.

    ``before``: the condition on a vertex ``u`` under which its edges are read in the same superstep.
    """
    if access == "tiled":
        return TILES.format(counting=COUNTING, active=active, counter="", lines=COUNT_LINES) + TOTAL
    row = SHARED.format(before=before) + (COUNT_ALONE if access == "naive" else COUNT)
    return _over_vertices(access, active, row, listing=listing, counting=COUNTING) + TOTAL


def _over_vertices(access: str, active: str, row: str, *, listing: bool, counting: str = "") -> str:
    begin, end, vertex = ("size_t(0)", "listed[0]", "frontier[i]") if listing else ("size_t(first)", "last", "Id(i)")
    return VERTICES.format(
        counting=counting, access=TYPES[access], begin=begin, end=end, vertex=vertex, active=active, row=row
    )

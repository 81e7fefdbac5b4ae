"""The vertex or edge that each lane of a warp processes at each step, in the traversals of the ``.cuh`` files in this
folder, for the memory transaction model.

Each function repeats the steps of some warps as its C++ template does, in a superstep in which everything is active.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import Load, Mapped, Step, arc_range, look_ups, neighbours_of, repeated, rows_of, with_looked_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.api.cuda import Adjacency, Lanes, Work

WARP = 32
LANE = np.arange(WARP)
IN_ONE_RUN = re.compile(r"needs_no_clearing<(\d+)>")
IN_DEGREE = re.compile(r"float\(in_offsets\[(\w) \+ 1\] - in_offsets\[\1\]\)")  # of a vertex of the visited edge


def vertexmap(work: Work) -> Iterator[Step]:
    """Yield the steps of a warp with 32 vertices, which its teams process in turn."""
    first = work.uniform(-(-(work.last - work.first) // WARP))
    base = work.first + WARP * first["unit"]
    lanes = first.where(base + LANE < work.last).having(v=base + LANE)
    yield Step(lanes, work.flags("v"))
    number = work.team_number
    lanes = repeated(first.where(number < work.team.teams), "i", number, np.int64(WARP), work.team.teams)
    v = work.first + WARP * lanes["unit"] + lanes["i"]
    lanes = lanes.where(v < work.last).having(v=v, u=v)
    found = IN_ONE_RUN.search(work.kernel.source)
    if found is not None:
        begin, end = arc_range(work.graph.csc.offsets, lanes, "v")
        lanes = lanes.having(next=lanes["v"] + 1, first=np.full((1, WARP), work.first))
        yield Step(lanes, tuple(Load("in_offsets", at, work.arc) for at in ("v", "next", "first")))
        origin, run = work.graph.csc.offsets[work.first], int(found[1])
        whole = (end > begin) & ((begin - origin) // run == (end - 1 - origin) // run)
        lanes = lanes.where(~whole)
    yield Step(lanes, blocks=("vertex", "source"))


def one_team(work: Work) -> Iterator[Step]:
    """Yield the steps of the grid's first team, which processes one vertex after another."""
    lanes = work.uniform(1).where(work.team_number == 0)
    v = np.int64(work.first), np.int64(work.last)
    yield Step(repeated(lanes, "v", *v), blocks=("vertex",))


# edgemap.cuh ----------------------------------------------------------------------------------------------------------
def edgemap(work: Work) -> Iterator[Step]:
    """Yield the steps over the edges of 32 vertices: each lane finds an edge, then the teams process these in turn."""
    side, adjacency = _side(work)
    ends = np.append(np.arange(work.first, work.last, WARP), work.last)
    warps = work.picked(np.diff(adjacency.offsets[ends]))
    vertex = work.first + WARP * warps["unit"] + LANE
    lanes = warps.where(vertex < work.last).having(v=vertex, next=vertex + 1)
    offsets = Load(f"{side}_offsets", "v", work.arc), Load(f"{side}_offsets", "next", work.arc)
    yield Step(lanes, (*work.flags("v"), *offsets))
    begin = adjacency.offsets[ends[warps["unit"]]]
    end = adjacency.offsets[ends[warps["unit"] + 1]]
    found = repeated(warps.having(begin=begin, end=end), "base", begin, end, WARP)
    found = found.having(e=found["base"] + LANE)
    found = found.where(found["e"] < found["end"])
    yield Step(found, (Load(f"{side}_neighbours", "e"),))
    yield from _visited(work, found, adjacency)


def edgemap_tiles(work: Work) -> Iterator[Step]:
    """Yield the steps over tiles of 32 edges: each lane reads one, then the teams process these in turn."""
    side, adjacency = _side(work)
    warps = work.uniform(-(-(work.last - work.first) // WARP))
    base = work.first + WARP * warps["unit"]
    found = warps.having(e=base + LANE, base=base, end=np.full_like(base, work.last))
    found = found.where(found["e"] < work.last)
    found = found.having(row=rows_of(adjacency.offsets, found["e"]))
    yield Step(found, (Load(f"{side}_rows", "e"), *work.flags("row"), Load(f"{side}_neighbours", "e")))
    yield from _visited(work, found, adjacency)


def _visited(work: Work, found: Lanes, adjacency: Adjacency) -> Iterator[Step]:
    """Yield the visits of edges that lanes have found, one for each team at once."""
    base, stop = found["base"], np.minimum(found["base"] + WARP, found["end"])
    number, teams = work.team_number, work.team.teams
    lanes = found.everywhere().where(number < teams).having(last=stop - 1)
    chunks = repeated(lanes, "chunk", base, stop, teams * work.number("depth"))
    depth = min(work.number("depth"), -(-WARP // teams))  # beyond, the compiler can prove that there are no edges
    yield from _fetched_ahead(work, chunks.having(chunk=chunks["chunk"] + number), teams, depth, adjacency)


def _fetched_ahead(
    work: Work, chunks: Lanes, stride: int, depth: int, adjacency: Adjacency, loads: tuple[Load, ...] = ()
) -> Iterator[Step]:
    """Yield the visits of edges ``stride`` apart, starting at ``chunk``.

    ``depth`` of them are fetched before the first is visited. The edge ``last`` replaces those that do not exist.
    ``loads``: additional loads of each fetched edge.
    """
    row, other = ("v", "u") if adjacency is work.graph.csc else ("u", "v")

    def at(edges: Lanes) -> Lanes:
        ends = {row: rows_of(adjacency.offsets, edges["e"]), other: neighbours_of(adjacency.neighbours, edges)}
        following = {f"{vertex} + 1": value + 1 for vertex, value in ends.items()}
        return with_looked_up(work, edges.having(**ends, **following))

    asked = [at for vertex in IN_DEGREE.findall(work.kernel.source) for at in (f"{vertex} + 1", vertex)]
    degrees = tuple(Load("in_offsets", at, work.arc) for at in asked)

    for ahead in range(depth):
        e = chunks["chunk"] + ahead * stride
        yield Step(at(chunks.having(e=np.minimum(e, chunks["last"]))), (*loads, *look_ups(work)), ("fetch",))
        yield Step(at(chunks.where(e <= chunks["last"]).having(e=e)), degrees, ("visit",))


# changes.cuh ----------------------------------------------------------------------------------------------------------
def count_edges(work: Work) -> Iterator[Step]:
    """Yield the steps with a lane per vertex: its flag, and the bounds of its edges."""
    warps = work.uniform(-(-(work.last - work.first) // WARP))
    u = work.first + WARP * warps["unit"] + LANE
    lanes = warps.where(u < work.last).having(u=u, next=u + 1)
    offsets = Load("out_offsets", "u", work.arc), Load("out_offsets", "next", work.arc)
    yield Step(lanes, (Load(f"dirty_{work.captured['group']}", "u", 1), *offsets))


def nothing(work: Work) -> Iterator[Step]:
    """Yield no steps: the kernel returns at once if everything is active."""
    work.uniform(0)
    yield from ()


# gather.cuh -----------------------------------------------------------------------------------------------------------
def gather(work: Work) -> Iterator[Step]:
    """Yield the steps with ``share`` teams of a warp per vertex that is not a hub; each takes its edges in turn."""
    share, depth, offsets = work.number("share"), work.number("depth"), work.graph.csc.offsets
    owners = work.team.teams // share
    ends = np.append(np.arange(work.first, work.last, owners), work.last)
    warps = work.picked(np.diff(offsets[ends]))
    mine, part = np.divmod(work.team_number, share)
    v = work.first + warps["unit"] * owners + mine
    lanes = warps.where((mine < owners) & (v < work.last)).having(v=v, next=v + 1)
    yield Step(lanes, (*work.flags("v"), *_bounds(work)))
    begin, end = arc_range(offsets, lanes, "v")
    if work.number("hub"):
        lanes = lanes.where(end - begin < work.number("hub"))
    yield Step(lanes, blocks=("start",))
    chunks = repeated(lanes.having(last=end - 1), "chunk", begin + part, end, share * depth)
    yield from _fetched_ahead(work, chunks, share, depth, work.graph.csc, (Load("in_neighbours", "e"),))
    yield Step(lanes.where(part == 0), blocks=("finish",))


def gather_hubs(work: Work) -> Iterator[Step]:
    """Yield the steps with a block per hub, whose edges the first ``share`` teams of its warps take in turn."""
    share, depth, offsets = work.number("share"), work.number("depth"), work.graph.csc.offsets
    hubs = work.tables["hubs"].astype(np.int64)
    blocks = work.picked(np.diff(offsets)[hubs[work.first : work.last]])
    work.busy_blocks = work.last - work.first
    place, of_block = work.first + blocks["unit"], work.block // WARP
    blocks = blocks.having(place=place, v=hubs[place], next=hubs[place] + 1)
    warps = repeated(blocks, "warp", np.int64(0), np.int64(of_block))
    yield Step(warps, (Load("hubs", "place"), *work.flags("v"), *_bounds(work)))
    number = work.team_number
    lanes = warps.where(number < share)
    yield Step(lanes, blocks=("start",))
    begin, end = arc_range(offsets, lanes, "v")
    stride = of_block * share
    parts = begin + lanes["warp"] * share + number
    chunks = repeated(lanes.having(last=end - 1), "chunk", parts, end, stride * depth)
    yield from _fetched_ahead(work, chunks, stride, depth, work.graph.csc, (Load("in_neighbours", "e"),))
    yield Step(lanes.where((lanes["warp"] == 0) & (number == 0)), blocks=("finish",))


def _bounds(work: Work) -> tuple[Load, ...]:
    return Load("in_offsets", "next", work.arc), Load("in_offsets", "v", work.arc)


# segments.cuh ---------------------------------------------------------------------------------------------------------
def segments(work: Work) -> Iterator[Step]:
    """Yield the steps of blocks that stage tiles of edges.

    A block's teams process runs of its tile, some interleaved with others, and store, or reduce, a row whenever it
    ends.
    """
    run, abreast, teams, adjacency = work.number("run"), work.number("abreast"), work.team.teams, work.graph.csc
    of_block = work.block // WARP
    tile = run * teams * of_block
    blocks = work.picked(np.full(-(-(work.last - work.first) // tile), tile))
    blocks = blocks.having(base=work.first + tile * blocks["unit"])
    blocks = blocks.having(end=np.minimum(blocks["base"] + tile, work.last))
    staged = repeated(blocks, "at", blocks["base"], blocks["end"], WARP)
    staged = staged.having(e=staged["at"] + LANE)
    tables = ("in_rows", "in_neighbours", *(("reverse",) if work.captured["reverses"] == "true" else ()))
    yield Step(staged.where(staged["e"] < staged["end"]), tuple(Load(table, "e") for table in tables))
    edge = blocks.where(LANE == 0).having(before=blocks["base"] - 1)
    yield Step(edge.where(edge["before"] >= work.first), (Load("in_rows", "before"),))
    yield Step(edge.where(edge["end"] < work.last), (Load("in_rows", "end"),))
    begins = blocks["base"], blocks["base"] + tile
    warps = repeated(blocks, "warp", *begins, run * teams)
    mine = (warps["warp"] - warps["base"]) // run + work.team_number
    begin = warps["base"] + mine // abreast * abreast * run + mine % abreast
    stop = np.minimum(warps["base"] + (mine // abreast + 1) * abreast * run, warps["end"])
    lanes = warps.where((work.team_number < teams) & (begin < stop)).having(begin=begin, stop=stop)
    last = begin + (stop - 1 - begin) // abreast * abreast
    chunks = repeated(lanes.having(last=last), "chunk", begin, stop, abreast * work.number("depth"))
    yield from _fetched_ahead(work, chunks, abreast, work.number("depth"), adjacency)
    if abreast == 1 and "if (whole) {" in work.kernel.source:
        yield from _reduced(work, lanes, adjacency.offsets)
    else:
        yield from _parts_reduced(lanes, abreast, run, adjacency.offsets)


def _parts_reduced(runs: Lanes, abreast: int, run: int, offsets: NDArray[np.int64]) -> Iterator[Step]:
    """Yield the reduction of every team's part of every row in its run."""
    row = rows_of(offsets, np.where(runs.active, runs["begin"], 0))
    for place in range(1, run):
        e = runs["begin"] + place * abreast
        there = runs.active & (e < runs["stop"])
        now = np.where(there, rows_of(offsets, np.where(there, e, 0)), row)
        yield Step(runs.where(now != row).having(v=row), blocks=("store",), kinds=("reduce",))
        row = now
    yield Step(runs.having(v=row), blocks=("store",), kinds=("reduce",))


def _reduced(work: Work, runs: Lanes, offsets: NDArray[np.int64]) -> Iterator[Step]:
    """Yield the reduction of rows that span several runs: a run's first, if it began before, and its last, if it
    continues."""
    first, last = (rows_of(offsets, np.where(runs.active, at, 0)) for at in (runs["begin"], runs["stop"] - 1))
    ends_within = (first != last) & (offsets[first] < runs["begin"]) & (offsets[first] >= work.first)
    begun = (first == last) & (offsets[first] < runs["begin"]) & (runs["begin"] > work.first)
    goes_on = (offsets[last + 1] > runs["stop"]) & (runs["stop"] < work.last)
    # teams whose first rows end after the same number of edges reduce them together
    turn = _ranks(np.where(runs.active & ends_within, offsets[first + 1] - runs["begin"], 0))
    for place in range(int(turn.max(initial=0)) + 1):
        yield Step(runs.where(ends_within & (turn == place)).having(v=first), blocks=("store",), kinds=("reduce",))
    yield Step(runs.where(begun | goes_on).having(v=last), blocks=("store",), kinds=("reduce",))


def _ranks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each value the number of different smaller values in its row."""
    order = np.argsort(values, axis=1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=1)
    ranks = np.cumsum(np.diff(ascending, axis=1, prepend=ascending[:, :1]) > 0, axis=1)
    found = np.empty_like(ranks)
    np.put_along_axis(found, order, ranks, axis=1)
    return found


def _side(work: Work) -> tuple[str, Adjacency]:
    side = "in" if "in_neighbours" in work.kernel.arguments else "out"
    return side, work.graph.csc if side == "in" else work.graph.csr


_EDGES = (
    "for (Arc e = begin; e < end; e += STRIDE * DEPTH) {",
    "u[d] = neighbours[at_most(e + d * STRIDE, end - 1)];",
)
_VISITS = (
    "for (int first = 0; first < count; first += TEAMS * DEPTH) {",
    "const int there = lane < count && some >> lane & 1u ? lane : count - 1;",
)
MAPPINGS = (
    # buffers are swapped instead of rows being copied
    Mapped(nothing, ("if (!run->{sparse}({number})) {", "return;")),
    Mapped(
        count_edges,
        ("count_edges(out_offsets, first, last, dirty_{group}, next_dirty_{group_too});",),
        (
            "for (Id u = first + 32 * warp_of_grid() + lane_id(); u < last; u += 32 * warps_of_grid()) {",
            "if (dirty[u]) edges += offsets[u + 1] - offsets[u];",
        ),
    ),
    Mapped(
        gather,
        ("gather<{share}, {depth}, {rounds}, {hub}>(team, in_offsets, in_neighbours, first, last,",),
        (
            *_EDGES,
            "for (Id v = begin + mine; v < stop; v += ROUNDS ? PER_BLOCK : warps_of_grid() * PER_WARP) {",
            "if (HUB && end - edge >= HUB) continue;",
            "visit_edges<SHARE, DEPTH>(v, edge + part, end, neighbours, fetch, visit);",
        ),
    ),
    Mapped(
        gather_hubs,
        ("gather_hubs<{share}, {depth}>(team, hubs, in_offsets, in_neighbours, first, last,",),
        (
            *_EDGES,
            "const int part = threadIdx.x / 32 * SHARE + team.number;",
            "for (Id i = first + blockIdx.x; i < last; i += gridDim.x) {",
            "if (team.number < SHARE) start(v);",
            "if (team.number < SHARE) visit_edges<STRIDE, DEPTH>(v, offsets[v] + part, end, neighbours, fetch, visit);",
        ),
    ),
    Mapped(
        segments,
        ("segments<{run}, {depth}, {abreast}, {reverses}>(team, in_rows, in_neighbours, {reverse}, first, last,",),
        (
            "const int begin = mine / ABREAST * ABREAST * RUN + mine % ABREAST;",
            "for (int i = threadIdx.x; i < count; i += BLOCK) {",
            "for (int i = begin; i < end; i += DEPTH * ABREAST) {",
            "const int there = at_most(i + d * ABREAST, final);",
        ),
    ),
    Mapped(
        edgemap_tiles,
        ("edgemap_tiles<{depth}>(team,",),
        (*_VISITS, "for (Arc e = first + (Arc)32 * warp_of_grid(); e < last; e += (Arc)32 * warps_of_grid()) {"),
    ),
    *(
        Mapped(edgemap, (line,), (*_VISITS, "const Edge mine = PIPELINE || e == 0 ? next :"))
        for line in ("edgemap<{pipeline}, {depth}>(team,", "edgemap_listed<{pipeline}, {depth}>(team,")
    ),
    Mapped(vertexmap, ("vertexmap(team, first, last,",), ("for (int i = team.number; i < 32; i += TEAMS)",)),
    Mapped(one_team, ("if (warp_of_grid() == 0 && team.number == 0) {", "for (Id v = first; v < last; ++v) {")),
)

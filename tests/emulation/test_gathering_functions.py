"""The functions of Onyx's pulls, emulated: gathers by lane groups, warps and blocks, and tiles of edges."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from tests.emulation.kernels import EMULATED, Kernels, headers, heading
from tests.emulation.test_edge_functions import DEGREES, graph, within

pytestmark = EMULATED

BLOCK, MANY = 128, 20  # threads; edges of a vertex that gather leaves out
GATHER = """
extern "C" __global__ void gather_{number}(
    const Id* offsets, const Id* neighbours, const bool* flags, const Id* listed, Id first, Id last, float* sums,
    int* visits, int* counts)
{{
    const LaneGroup group;
    float sum = 0.0f;
    bool stops = false;
    const auto start = [&](Id v) {{
        sum = 0.0f;
        stops = false;
        atomicAdd(counts + 2 * v, 1);
    }};
    const auto fetch = [&](Id u, Id v, EdgeId e) {{
        atomicAdd(counts + 2 * {vertices}, 1);
        return e + u + v;
    }};
    const auto visit = [&](Id got, Id u, Id v, EdgeId e) {{
        atomicAdd(visits + e, got == e + u + v ? 1 : 1000);
        sum += u;
        stops = stops || u == {stop};
    }};
    const auto finish = [&](Id v) {{
        atomicAdd(counts + 2 * v + 1, 1);
        if (group.leads()) sums[v] = sum;
    }};
    const {wanted};
    const auto enough = {enough};
    {call}
}}
"""
CALLS = {
    "lanes": """const auto join = [&] {{ sum = across_groups<{share}, Add>(group, sum); }};
    gather<{share}, {depth}, {rounds}, {ahead}, {many}>(
        group, offsets, neighbours, first, last, wanted, start, fetch, visit, enough, join, finish);""",
    "warps": """const auto join = [&] {{ sum = across_groups<{share}, Add>(group, sum); }};
    gather_middle<{share}, {depth}, {ahead}>(
        group, listed, offsets, neighbours, first, last, wanted, start, fetch, visit, enough, join, finish);""",
    "blocks": """const auto join = [&] {{ sum = across_block<{share}, Add>(group, sum); }};
    gather_hubs<{share}, {depth}, {ahead}>(
        group, listed, offsets, neighbours, first, last, wanted, start, fetch, visit, enough, join, finish);""",
}
USUAL = {"share": 1, "depth": 1, "rounds": 0, "ahead": False, "many": 0, "wanted": "Flagged", "enough": False}
WAYS = [
    {"call": "lanes", "wanted": "Every", "rounds": 2},
    {"call": "lanes", "share": 2, "depth": 2, "rounds": 1},
    {"call": "lanes", "share": 4, "depth": 3, "many": MANY},
    {"call": "lanes", "share": 2, "ahead": True, "depth": 2},
    {"call": "lanes", "share": 2, "depth": 2, "enough": True},
    {"call": "warps", "share": 4, "depth": 2},
    {"call": "warps", "share": 2, "ahead": True, "enough": True},
    {"call": "blocks", "share": 2, "depth": 2, "wanted": "Every"},
    {"call": "blocks", "share": 4, "ahead": True},
]
WAYS = [USUAL | way for way in WAYS]
VERTICES, STOP = 230, 3  # a group has enough once it has read vertex number STOP
SEGMENTS = """
extern "C" __global__ void segments_{number}(
    const Id* rows, const Id* neighbours, const Id* reverse, Id first, Id last, int* visits, int* starts, int* whole,
    int* parts, float* sums)
{{
    const LaneGroup group;
    float sum = 0.0f;
    segments<{run}, {depth}, {abreast}, {reverses}>(
        group, rows, neighbours, reverse, first, last,
        [&] {{
            sum = 0.0f;
            if (group.leads()) atomicAdd(starts, 1);
        }},
        [&](Id u, Id v, EdgeId e, Id back) {{ return u + v + e + back; }},
        [&](Id got, Id u, Id v, EdgeId e, Id back) {{
            const bool right = got == u + v + e + back && v == rows[e] && u == neighbours[e];
            atomicAdd(visits + e, right && back == ({reverses} ? reverse[e] : 0) ? 1 : 1000);
            sum += u + 1;
        }},
        [&](Id v, bool all) {{
            if (!group.leads()) return;
            atomicAdd((all ? whole : parts) + v, 1);
            if (all) sums[v] = sum;
            else atomicAdd(sums + v, sum);
        }});
}}
extern "C" __global__ void clearing_{number}(const Id* offsets, Id origin, Id vertices, bool all, bool* kept)
{{
    const Id v = blockIdx.x * BLOCK + threadIdx.x;
    if (v < vertices) kept[v] = needs_no_clearing<{run}>(offsets, v, origin, all);
}}
"""
TILES = [(4, 1, 1, False), (3, 2, 1, True), (4, 3, 4, False), (2, 1, 2, True)]  # RUN, DEPTH, ABREAST, REVERSES


@pytest.fixture(scope="module", params=[4, 5])
def kernels(request):
    lanes = request.param
    gathers = []
    for number, way in enumerate(WAYS):
        wanted = "Every wanted" if way["wanted"] == "Every" else "Flagged wanted{flags, false}"
        enough = "[&] { return stops; }" if way["enough"] else "WholeRow()"
        call = CALLS[way["call"]].format(**way | {"ahead": str(way["ahead"]).lower()})
        gathers.append(
            GATHER.format(number=number, vertices=VERTICES, stop=STOP, wanted=wanted, enough=enough, call=call)
        )
    tiles = [
        SEGMENTS.format(number=number, run=run, depth=depth, abreast=abreast, reverses=str(reverses).lower())
        for number, (run, depth, abreast, reverses) in enumerate(TILES)
    ]
    head = heading("matrices.cuh", "gather.cuh", "segments.cuh", lanes=lanes, block=BLOCK)
    made = Kernels("\n".join([head, *gathers, *tiles]), headers(FOLDER), BLOCK)
    made.lanes, made.lane_groups = lanes, 32 // lanes
    return made


def read_until_enough(row, share, parts, depth):
    """Return the edges of a row that ``parts`` groups read, of which the ``share`` of a warp stop together."""
    read = np.zeros(len(row), np.bool_)
    for begin in range(0, parts, share):
        for at in range(0, len(row), parts * depth):
            mine = [
                e
                for part in range(begin, begin + share)
                for e in range(at + part, min(at + part + parts * depth, len(row)), parts)
            ]
            read[mine] = True
            if (row[mine] == STOP).any():
                break
    return read


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("number", range(len(WAYS)))
def test_edges_of_wanted_vertices_are_gathered_once(kernels, number, blocks):
    way = WAYS[number]
    call, share, depth, rounds = (way[name] for name in ("call", "share", "depth", "rounds"))
    per_block = BLOCK // 32 * (kernels.lane_groups // share)
    degrees = np.random.default_rng(number).integers(0, 40, VERTICES)
    degrees[::7] = 0
    offsets, sources, neighbours = graph(5, degrees)
    neighbours %= 40  # vertex number STOP is in many rows
    flags = np.random.default_rng(1).random(VERTICES) < 0.3
    listed = np.random.default_rng(2).permutation(VERTICES).astype(np.uint32)
    for first, last in ((0, VERTICES), (9, 9 + min(150, blocks * rounds * per_block or 150)), (4, 4)):
        if rounds and last - first > blocks * rounds * per_block:
            continue
        space = (np.zeros(VERTICES, np.float32), np.zeros(len(sources), np.int32), np.zeros(2 * VERTICES + 1, np.int32))
        *_, sums, visits, counts = kernels(
            f"gather_{number}", blocks, offsets, neighbours, flags, listed, np.uint32(first), np.uint32(last), *space
        )
        chosen = within(first, last, VERTICES)
        if call != "lanes":
            chosen = np.isin(np.arange(VERTICES), listed[first:last])
        if way["wanted"] == "Flagged":
            chosen &= flags
        if way["many"]:
            chosen &= degrees < way["many"]
        parts = share * (BLOCK // 32 if call == "blocks" else 1)
        read, fetched = np.zeros(len(sources), np.bool_), 0
        for v in np.flatnonzero(chosen):
            row = slice(offsets[v], offsets[v + 1])
            enough = way["enough"]
            read[row] = read_until_enough(neighbours[row], share, parts, depth) if enough else True
            fetched += sum(-(-len(range(part, degrees[v], parts)) // depth) for part in range(parts))
        assert np.array_equal(visits, kernels.lanes * read)
        wanted = np.bincount(sources, neighbours * read, VERTICES)
        assert np.array_equal(sums, wanted)
        assert np.array_equal(counts[:-1:2], chosen * parts * kernels.lanes)
        assert np.array_equal(counts[1:-1:2], chosen * kernels.lanes)
        if not way["enough"]:
            assert counts[-1] == fetched * depth * kernels.lanes


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("number", range(len(TILES)))
@pytest.mark.parametrize("name", ["one", "hub", "mixed"])
def test_tiles_of_edges_store_whole_rows_and_reduce_parts_of_others(kernels, number, name, blocks):
    run, _, abreast, _ = TILES[number]
    offsets, sources, neighbours = graph(6, DEGREES[name])
    n, edges = len(offsets) - 1, len(sources)
    reverse = np.random.default_rng(1).permutation(edges).astype(np.uint32)
    for first, last in ((0, edges), (5, edges - 3), (3, 3)):
        if first > last:
            continue
        given = (np.uint32(first), np.uint32(last))
        space = (np.zeros(count, np.int32) for count in (edges, 1, n, n))
        *_, visits, starts, whole, parts, sums = kernels(
            f"segments_{number}", blocks, sources, neighbours, reverse, *given, *space, np.zeros(n, np.float32)
        )
        inside = within(first, last, edges)
        assert np.array_equal(visits, kernels.lanes * inside)
        assert np.array_equal(sums, np.bincount(sources, (neighbours + 1.0) * inside, n))
        groups = (np.arange(edges) - first) // (run * abreast) * abreast + (np.arange(edges) - first) % abreast
        pieces = np.array([len(set(groups[inside & (sources == v)])) for v in range(n)])
        tile = run * (BLOCK // 32) * kernels.lane_groups
        if abreast == 1:
            assert tile % run == 0
            assert np.array_equal(whole, pieces == 1)
            assert np.array_equal(parts, np.where(pieces > 1, pieces, 0))
            inner = (offsets[:-1] >= first) & (offsets[1:] <= last)
            for every in (False, True):
                given = (np.uint32(first), np.uint32(n), np.bool_(every), np.zeros(n, np.bool_))
                _, kept = kernels(f"clearing_{number}", -(-n // BLOCK), offsets, *given)
                assert np.array_equal(kept[inner], (pieces == 1)[inner] | ((pieces == 0)[inner] & (not every)))
        elif tile % (run * abreast) == 0:
            assert not whole.any()
            assert np.array_equal(parts, pieces)
        assert starts.tolist() == [whole.sum() + parts.sum()]

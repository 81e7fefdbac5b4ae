"""The traversals of vertices and edges that Onyx's kernels are made of, emulated: each wanted one once,
at a known cost."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from tests.emulation.kernels import EMULATED, Kernels, headers, heading

pytestmark = EMULATED

BLOCK, AHEAD = 64, 8  # chunks that a warp tests at once
SOURCE = """
struct Tested {
    const bool* flags;
    int* tests;
    __device__ bool operator()(Id v) const
    {
        atomicAdd(tests + v, 1);
        return flags[v];
    }
    __device__ bool operator()(Id, EdgeId e) const
    {
        atomicAdd(tests + e, 1);
        return flags[e];
    }
};
extern "C" __global__ void vertices(const bool* flags, Id first, Id last, int way, int* visits, int* tests)
{
    const LaneGroup group;
    const auto visit = [&](Id v) { atomicAdd(visits + v, 1); };
    switch (way) {
        case 0: vertexmap(group, first, last, Every(), visit); break;
        case 1: vertexmap(group, first, last, Flagged{flags, true}, visit); break;
        case 2: vertexmap<true>(group, first, last, FlaggedOneByOne{flags, true}, visit); break;
        case 3: vertexmap(group, first, last, Flagged{flags, false}, visit); break;
        case 4: vertexmap<true>(group, first, last, Flagged{flags, false}, visit); break;
        case 5: vertexmap<true>(group, first, last, FlaggedOneByOne{flags, false}, visit); break;
        case 6: vertexmap(group, first, last, Tested{flags, tests}, visit); break;
        case 7: vertexmap<true>(group, first, last, Tested{flags, tests}, visit); break;
    }
}
extern "C" __global__ void chunks(const bool* flags, Id shift, Id first, Id last, Id size, Id* some, int* calls)
{
    wanted_chunks<true>(first, last, size, Flagged{flags + shift, false}, [&](Id base, unsigned mask) {
        some[base] = mask;
        if (lane_id() == 0) atomicAdd(calls + base, 1);
    });
}
extern "C" __global__ void flagged(const bool* flags, bool every, const Id* bases, Id last, int* found)
{
    found[threadIdx.x] = has_flags(Flagged{flags, every}, bases[threadIdx.x], last);
}
extern "C" __global__ void edges(
    const Id* offsets, const Id* sources, const Id* neighbours, const bool* wanted, const bool* listed, Id first,
    Id last, int way, Id* rows, Id* others, int* visits, int* tests, int* fetches)
{
    const LaneGroup group;
    const auto fetch = [&](Id row, Id other, EdgeId at) {
        atomicAdd(fetches, 1);
        return at + row + other;
    };
    const auto visit = [&](Id got, Id row, Id other, EdgeId at) {
        atomicAdd(visits + at, got == at + row + other ? 1 : 1000);
        rows[at] = row;
        others[at] = other;
    };
    const Flagged flagged{wanted, false};
    const Tested tested{listed, tests};
    switch (way) {
        case 0: edgemap<false, 1>(group, offsets, neighbours, first, last, flagged, fetch, visit); break;
        case 1: edgemap<true, 3>(group, offsets, neighbours, first, last, flagged, fetch, visit); break;
        case 2: edgemap<true, 1>(group, offsets, neighbours, first, last, Every(), fetch, visit); break;
        case 3: edgemap_listed<false, 2>(group, offsets, neighbours, first, last, flagged, tested, fetch, visit); break;
        case 4: edgemap_listed<true, 1>(group, offsets, neighbours, first, last, Every(), tested, fetch, visit); break;
        case 5: edgemap_tiles<1>(group, sources, neighbours, first, last, tested, fetch, visit); break;
        case 6: edgemap_tiles<3>(group, sources, neighbours, first, last, tested, fetch, visit); break;
    }
}
extern "C" __global__ void marked(
    const Id* offsets, const Id* neighbours, const bool* active, Id first, Id last, bool* dirty, Count* followed)
{
    add_counts(followed, mark(offsets, neighbours, first, last, Flagged{active, false}, dirty));
}
extern "C" __global__ void counted(const Id* offsets, const bool* dirty, Id first, Id last, bool* next, Count* edges)
{
    add_counts(edges, count_edges(offsets, first, last, dirty, next));
}
"""


@pytest.fixture(scope="module", params=[4, 5])
def kernels(request):
    head = heading("changes.cuh", lanes=request.param, block=BLOCK)
    made = Kernels(head + SOURCE, headers(FOLDER), BLOCK)
    made.lanes, made.lane_groups = request.param, 32 // request.param
    return made


VERTICES = 700
RANGES = [(0, 1), (0, 31), (3, 35), (7, 7), (0, 256), (5, 645), (1, VERTICES)]
MASKS = {
    "none": np.zeros(VERTICES, np.bool_),
    "few": np.isin(np.arange(VERTICES), [0, 5, 33, 34, 130, 255, 256, 644, 645, VERTICES - 1]),
    "all": np.ones(VERTICES, np.bool_),
}


def within(first, last, count=VERTICES):
    return (np.arange(count) >= first) & (np.arange(count) < last)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("first", "last"), RANGES)
def test_wanted_vertices_are_visited_once_by_every_lane_of_one_group(kernels, first, last, name, blocks):
    flags, inside, none = MASKS[name], within(first, last), np.zeros(VERTICES, np.int32)
    ways = (0, 1, 2, 3, 4, 5, 6, 7) if name == "few" else (3, 4, 7)
    warps = blocks * BLOCK // 32
    for way in ways:
        *_, visits, tests = kernels(
            "vertices", blocks, flags, np.uint32(first), np.uint32(last), np.int32(way), none, none
        )
        wanted = inside if way < 3 else inside & flags
        assert np.array_equal(visits, kernels.lanes * wanted), way
        if way == 6:
            assert np.array_equal(tests, inside)
        if way == 7:
            chunks = [flags[base : min(base + 32, last)] for base in range(first, last, 32)]
            batches = sum(len(range(first + 32 * warp, last, AHEAD * 32 * warps)) for warp in range(warps))
            assert tests.sum() == batches * AHEAD * 32 + sum(len(chunk) for chunk in chunks if chunk.any())


@pytest.mark.parametrize("size", [1, 4, 32])
@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("first", "last"), RANGES)
def test_chunks_with_wanted_vertices_are_met_once(kernels, first, last, name, shift, size):
    flags, none = MASKS[name], np.zeros(VERTICES)
    shifted = np.concatenate([np.ones(shift, np.bool_), flags])
    given = (np.uint32(one) for one in (shift, first, last, size))
    *_, some, calls = kernels("chunks", 1, shifted, *given, none.astype(np.uint32), none.astype(np.int32))
    masks = np.zeros(VERTICES, np.uint32)
    for base in range(first, last, size):
        masks[base] = sum(1 << i for i in range(min(size, last - base)) if flags[base + i])
    assert np.array_equal(some, masks)
    assert np.array_equal(calls, masks != 0)


def test_a_chunk_whose_flags_are_clear_is_passed_over(kernels):
    last, bases = 90, np.arange(0, 4 * BLOCK, 4, dtype=np.uint32)
    for at in (0, 3, 4, 15, 16, 19, 31, 32, 50, 63, 70, 89):
        flags = np.arange(4 * BLOCK + 32) == at
        *_, found = kernels("flagged", 1, flags, np.bool_(False), bases, np.uint32(last), np.zeros(BLOCK, np.int32))
        partial = (bases + 32 > last) & (bases < last)  # visited in any case
        assert np.array_equal(found != 0, partial | ((bases <= at) & (at < bases + 32) & (bases + 32 <= last)))
    *_, found = kernels("flagged", 1, flags, np.bool_(True), bases, np.uint32(last), np.zeros(BLOCK, np.int32))
    assert np.array_equal(found != 0, bases < last)


def graph(seed, degrees):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.uint32)
    sources = np.repeat(np.arange(len(degrees)), degrees).astype(np.uint32)
    return offsets, sources, rng.integers(0, len(degrees), len(sources)).astype(np.uint32)


DEGREES = {
    "one": [1],
    "none": [0] * 40,
    "full warps": [1] * 32 + [32, 0, 0, 32] + [0] * 28,
    "hub": [0, 3, 300, 1, *[2] * 70, 33, 31],
    "mixed": np.random.default_rng(3).integers(0, 9, 230).tolist(),
}


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", DEGREES)
def test_edges_of_wanted_vertices_are_visited_once(kernels, name, blocks):
    offsets, sources, neighbours = graph(1, DEGREES[name])
    n, edges = len(offsets) - 1, len(sources)
    rng = np.random.default_rng(2)
    flags, listed = rng.random(n) < 0.6, rng.random(max(edges, 1)) < 0.4
    depths = {0: 1, 1: 3, 2: 1, 3: 2, 4: 1, 5: 1, 6: 3}
    for way, depth in depths.items():
        for first, last in ((0, n), (1, n - 1)) if way < 5 else ((0, edges), (3, edges - 2)):
            if first >= last:
                continue
            marks = [np.full(max(edges, 1), 7777, np.uint32)] * 2
            counts = [np.zeros(max(edges, 1), np.int32)] * 2
            given = (np.uint32(first), np.uint32(last), np.int32(way))
            *_, rows, others, visits, tests, fetches = kernels(
                "edges", blocks, offsets, sources, neighbours, flags, listed, *given, *marks, *counts,
                np.zeros(1, np.int32),
            )  # fmt: skip
            wanted = within(first, last, n)[sources] if way < 5 else within(first, last, edges)
            if way in (0, 1, 3):
                wanted &= flags[sources]
            chosen = wanted & listed[:edges] if way >= 3 else wanted
            assert np.array_equal(visits[:edges], kernels.lanes * chosen), way
            assert np.array_equal(rows[:edges][chosen], sources[chosen])
            assert np.array_equal(others[:edges][chosen], neighbours[chosen])
            assert np.array_equal(tests[:edges], wanted if way >= 3 else 0 * wanted)
            if way == 5:
                bounds = range(first, last, 32)
            elif way < 2:
                bounds = None
            else:
                continue
            if bounds is None:  # the fetches of a warp: all its groups in rounds of `depth` edges each
                lists = [
                    np.count_nonzero(wanted & (sources >= base) & (sources < base + 32))
                    for base in range(first, last, 32)
                ]
                parts = [min(32, size - at) for size in lists for at in range(0, size, 32)]
            else:
                ends = [np.flatnonzero(chosen[base : min(base + 32, last)]) for base in bounds]
                parts = [int(found[-1]) + 1 for found in ends if len(found)]
            rounds = sum(-(-size // (kernels.lane_groups * depth)) for size in parts)
            assert fetches.tolist() == [rounds * depth * kernels.lane_groups * kernels.lanes]


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", DEGREES)
def test_ends_of_edges_of_active_sources_are_marked_and_counted(kernels, name, blocks):
    offsets, sources, neighbours = graph(1, DEGREES[name])
    n = len(offsets) - 1
    active = np.random.default_rng(4).random(n) < 0.3
    for first, last in ((0, n), (1, n - 1)):
        if first >= last:
            continue
        given = (np.uint32(first), np.uint32(last))
        *_, dirty, followed = kernels(
            "marked", blocks, offsets, neighbours, active, *given, np.zeros(n, np.bool_), np.array([5])
        )
        sent = (active & within(first, last, n))[sources]
        assert np.array_equal(np.flatnonzero(dirty), np.unique(neighbours[sent]))
        assert followed.tolist() == [5 + np.count_nonzero(sent)]
        *_, left, edges = kernels("counted", blocks, offsets, active, *given, np.ones(n, np.bool_), np.array([7]))
        assert np.array_equal(left, ~within(first, last, n))
        assert edges.tolist() == [7 + np.count_nonzero(sent)]

"""The device functions of the engines in the style of Gunrock, Tigr and EMOGI, emulated and compared with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.outofmemory.emogi import cuda_plan as emogi
from engines.pushbaseline.gunrock import cuda_plan as gunrock
from engines.pushbaseline.tigr import cuda_plan as tigr
from tests.emulation.kernels import EMULATED, Kernels, headers, heading

pytestmark = EMULATED

BLOCK = 64
EDGE_BITS = gunrock.EDGE_BITS
FRONTIERS = "\n".join(
    f"""
extern "C" __global__ void advance_{name}(
    const Size* size, const Id* frontier, const Id* starts, const Id* out_offsets, int* visits, Id* sources, Id* edges,
    Id* pieces)
{{
    __shared__ Advance<{name}> mine;
    const Id all = {name}::ranges(*size), sharers = all < gridDim.x ? gridDim.x / max(all, 1u) : 1;
    for (Id number = blockIdx.x / sharers; number < all; number += gridDim.x / sharers) {{
        const EdgeRange whole = {name}::range(number, *size, starts), piece = whole.part(blockIdx.x % sharers, sharers);
        mine.read(piece, frontier, starts, out_offsets);
        if (threadIdx.x == 0 && blockIdx.x % sharers == 0) {{
            pieces[4 * number] = whole.base, pieces[4 * number + 1] = whole.count;
            pieces[4 * number + 2] = whole.first, pieces[4 * number + 3] = whole.last;
        }}
        for (EdgeId at = piece.first + threadIdx.x; at < piece.last; at += BLOCK) {{
            const int i = mine.find(at, piece);
            atomicAdd(visits + at, 1);
            sources[at] = mine.vertices[i];
            edges[at] = mine.offsets[i] + (at - mine.starts[i]);
        }}
    }}
}}
extern "C" __global__ void shares_{name}(const Size* size, Id* found)
{{
    *found = {name}::ranges(*size);
}}"""
    for name in ("BlockMapped", "MergePath")
)
FILTER = """
extern "C" __global__ void filter(
    const bool* keep, const Id* degrees, Id* vertices, Id* starts, Size* size, bool several)
{
    const Id v = blockIdx.x * BLOCK + threadIdx.x;
    for (int turn = 0; turn <= several; ++turn)
        append(keep[v], v, degrees[v], vertices, several ? nullptr : starts, size);
}
"""


@pytest.fixture(scope="module")
def frontiers():
    return Kernels(heading("gunrock.cuh") + FRONTIERS + FILTER, headers(gunrock.FOLDER))


def size_of(vertices, edges):
    return np.array([vertices << EDGE_BITS | edges], np.uint64)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("density", [0.0, 0.03, 0.7, 1.0])
def test_a_filter_lists_what_is_kept_with_the_positions_of_its_edges(frontiers, blocks, density):
    rng, threads = np.random.default_rng(1), blocks * BLOCK
    keep, degrees = rng.random(threads) < density, rng.integers(0, 1 << 20, threads).astype(np.uint32)
    keep[5:7] = density > 0
    space = np.full(2 * threads + 2, 7, np.uint32)
    before = size_of(1, 10)
    _, _, vertices, starts, size = frontiers("filter", blocks, keep, degrees, space, space, before, np.bool_(False))
    kept = np.flatnonzero(keep)
    assert np.array_equal(size, before + size_of(len(kept), degrees[kept].sum()))
    assert np.array_equal(vertices[1 : len(kept) + 1], kept)
    assert np.array_equal(starts[1 : len(kept) + 1], 10 + np.cumsum(degrees[kept]) - degrees[kept])
    assert (np.delete(vertices, np.s_[1 : len(kept) + 1]) == 7).all()
    _, _, vertices, starts, size = frontiers("filter", blocks, keep, degrees, space, space, before, np.bool_(True))
    assert sorted(vertices[1 : 2 * len(kept) + 1]) == sorted([*kept, *kept])
    assert (starts == 7).all()


LENGTH = 4 * BLOCK  # vertices and edges of a piece of a merge path
FRONTIER_DEGREES = {
    "one vertex": [5],
    "no edges": [0] * (BLOCK + 1),
    "a block": [1] * BLOCK,
    "a block and one": [2] * (BLOCK + 1),
    "a whole piece": [3] * BLOCK,
    "a hub": [0, 0, 3 * LENGTH + 1, 0, 4],
    "a hub last": [*[1] * 200, 700],
    "mixed": np.random.default_rng(2).choice([0, 0, 1, 5, 90], 333).tolist(),
}


@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("name", FRONTIER_DEGREES)
@pytest.mark.parametrize("balance", ["BlockMapped", "MergePath"])
def test_blocks_share_the_edges_of_a_frontier(frontiers, balance, name, blocks):
    degrees = np.array(FRONTIER_DEGREES[name])
    count, edges = len(degrees), int(degrees.sum())
    starts = np.cumsum(degrees) - degrees
    frontier = np.random.default_rng(1).permutation(count).astype(np.uint32)
    all_degrees = np.zeros(count + 1, np.int64)
    all_degrees[frontier + 1] = degrees
    offsets = np.cumsum(all_degrees).astype(np.uint32)
    number = -(-count // BLOCK) if balance == "BlockMapped" else -(-(count + edges) // LENGTH)
    space = (np.zeros(edges, np.int32), *[np.zeros(edges, np.uint32)] * 2, np.zeros((number, 4), np.uint32))
    *_, visits, sources, positions, pieces = frontiers(
        f"advance_{balance}", blocks, size_of(count, edges), frontier, starts.astype(np.uint32), offsets, *space
    )
    assert np.array_equal(visits, np.ones(edges))
    owners = np.repeat(np.arange(count), degrees)
    assert np.array_equal(sources, frontier[owners])
    assert np.array_equal(positions, offsets[frontier[owners]] + np.arange(edges) - starts[owners])
    base, vertices, first, last = pieces.T.astype(np.int64)
    assert first[0] == base[0] == 0
    assert last[-1] == edges
    assert np.array_equal(first[1:], last[:-1])
    if balance == "MergePath":  # pieces are equal: so many vertices end in one, and it has so many edges
        ends = np.append(base[1:], count)
        assert np.array_equal(
            ends - base + last - first, np.minimum(LENGTH, count + edges - LENGTH * np.arange(number))
        )
        assert np.array_equal(vertices, ends - base + (ends < count))
    else:
        assert np.array_equal(base, BLOCK * np.arange(number))
        assert np.array_equal(vertices, np.minimum(BLOCK, count - base))


def test_an_empty_frontier_has_no_piece_and_a_large_one_has_all(frontiers):
    for count, edges in ((0, 0), (1, 0), (BLOCK, (1 << 32) - 7), ((1 << 31) - 1, 3)):
        for name, pieces in (("BlockMapped", -(-count // BLOCK)), ("MergePath", -(-(count + edges) // LENGTH))):
            _, found = frontiers(f"shares_{name}", 1, size_of(count, edges), np.zeros(1, np.uint32))
            assert found.tolist() == [pieces]


def test_virtual_nodes_take_every_edge_of_a_vertex_once():
    source = """
extern "C" __global__ void parts(const Id* offsets, Id source, int* visits, int* longest)
{
    const VirtualNode<5> node(source, threadIdx.x, offsets);
    if (threadIdx.x >= node.stride) return;
    int mine = 0;
    for (EdgeId e = node.first; e < node.last; e += node.stride, ++mine) atomicAdd(visits + e, 1 + 100 * threadIdx.x);
    atomicMax(longest, mine);
}
"""
    nodes = Kernels(heading("tigr.cuh") + source, headers(Path(tigr.__file__).parent))
    for degree in (0, 1, 4, 5, 6, 11, 300):
        offsets = np.array([0, 3, 3 + degree, 999], np.uint32)
        *_, visits, longest = nodes(
            "parts", 1, offsets, np.uint32(1), np.zeros(degree + 4, np.int32), np.zeros(1, np.int32)
        )
        parts = -(-degree // 5)
        assert np.array_equal(visits[3:-1], 1 + 100 * (np.arange(degree) % max(parts, 1)))
        assert not visits[[0, 1, 2, -1]].any()
        assert longest[0] == -(-degree // max(parts, 1))


HOST = """
extern "C" __global__ void listed(const bool* keep, Id* list, Id* length)
{
    const Id v = blockIdx.x * BLOCK + threadIdx.x;
    append(keep[v], v, list, length);
}
extern "C" __global__ void lines(
    const EdgeId* offsets, const bool* wanted, Id last, Id* found, Id* firsts, int* owners, int* visits)
{
    __shared__ Lines tile;
    for (Id base = blockIdx.x * BLOCK; base < last; base += threads_of_grid()) {
        const Id mine = base + threadIdx.x;
        tile.read(base, last, mine < last && wanted[mine], offsets);
        if (threadIdx.x == 0) found[base / BLOCK] = tile.lines();
        for (Id line = threadIdx.x / 32; line < tile.lines(); line += BLOCK / 32) {
            const EdgeId e = tile.line(line) + lane_id();
            if (lane_id() == 0) atomicAdd(firsts + e / LINE, 1u);
            const int owner = tile.find(e);
            if (owner >= 0) atomicAdd(visits + e, 1), owners[e] = base + owner;
        }
    }
}
extern "C" __global__ void requests(const EdgeId* bases, const unsigned* lanes, const EdgeId* stops, Count* found)
{
    const Id i = threadIdx.x;
    Requests read, alone;
    read.add(bases[i], lanes[i], __popc(lanes[i]));
    read.add(bases[i], 0u, 0);
    if (stops[i] > bases[i]) alone.add_alone(bases[i], bases[i], stops[i]);
    for (int size = 0; size < 4; ++size) {
        found[10 * i + size] = read.of_sectors[size];
        found[10 * i + 5 + size] = alone.of_sectors[size];
    }
    found[10 * i + 4] = read.edges, found[10 * i + 9] = alone.edges;
}
"""


@pytest.fixture(scope="module")
def host_edges():
    head = heading("emogi.cuh", edge_id="int")
    return Kernels(head + HOST, headers(Path(emogi.__file__).parent))


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.6, 1.0])
def test_active_vertices_are_listed(host_edges, density, blocks):
    keep = np.random.default_rng(1).random(blocks * BLOCK) < density
    _, found, length = host_edges("listed", blocks, keep, np.zeros(len(keep) + 1, np.uint32), np.ones(1, np.uint32))
    assert length.tolist() == [1 + np.count_nonzero(keep)]
    assert np.array_equal(np.sort(found[1 : length[0]]), np.flatnonzero(keep))


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("vertices", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 1])
def test_lines_with_edges_of_active_vertices_are_met_once_in_a_tile(host_edges, vertices, density, blocks):
    rng = np.random.default_rng(vertices)
    degrees = rng.choice([0, 1, 3, 8, 40, 100], vertices)
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    wanted = rng.random(vertices) < density
    edges, tiles = int(degrees.sum()), -(-vertices // BLOCK)
    owners = np.repeat(np.arange(vertices), degrees)
    active = wanted[owners]
    space = (np.zeros(tiles, np.uint32), np.zeros(edges // 32 + 2, np.uint32), *[np.zeros(edges + 64, np.int32)] * 2)
    *_, lines, firsts, found, visits = host_edges("lines", blocks, offsets, wanted, np.uint32(vertices), *space)
    assert np.array_equal(visits[:edges], active)
    assert np.array_equal(found[:edges][active], owners[active])
    read = [np.unique(np.flatnonzero(active & (owners // BLOCK == tile)) // 32) for tile in range(tiles)]
    assert lines.tolist() == [len(one) for one in read]
    assert np.array_equal(firsts, np.bincount(np.concatenate(read).astype(int), minlength=len(firsts)))


def requested(base, lanes):
    """Return the requests of 1 to 4 sectors that a load makes, and its edges; ``base``: of lane 0."""
    edges = [base + lane for lane in range(32) if lanes >> lane & 1]
    sectors, sizes = sorted({edge // 8 for edge in edges}), [0] * 4
    while sectors:
        length = 1
        while length < len(sectors) and sectors[length] == sectors[0] + length and sectors[length] % 4:
            length += 1
        sizes[length - 1] += 1
        del sectors[:length]
    return [*sizes, len(edges)]


def test_adjacent_sectors_of_a_line_are_one_request(host_edges):
    rng = np.random.default_rng(1)
    bases = rng.integers(0, 90, BLOCK).astype(np.int32)
    lanes = rng.integers(0, 1 << 32, BLOCK, np.uint32) & rng.integers(0, 1 << 32, BLOCK, np.uint32)
    lanes[::3] = [sum(1 << lane for lane in range(rng.integers(0, 32), 32)) for _ in lanes[::3]]
    lanes[1::3] = [0xFF << int(shift) & 0xFFFFFFFF for shift in rng.integers(0, 32, len(lanes[1::3]))]
    lanes[:4], bases[:4] = [0, 0xFFFFFFFF, 0xFFFFFFFF, 1 << 31], [64, 64, 71, 33]
    stops = (bases + rng.integers(0, 40, BLOCK)).astype(np.int32)
    *_, found = host_edges("requests", 1, bases, lanes, stops, np.zeros((BLOCK, 2, 5), np.int64))
    wanted = [requested(int(base), int(mask)) for base, mask in zip(bases, lanes, strict=True)]
    assert found[:, 0].tolist() == wanted
    rows = [(stop - 1) // 8 - base // 8 + 1 if stop > base else 0 for base, stop in zip(bases, stops, strict=True)]
    assert found[:, 1].tolist() == [
        [one, 0, 0, 0, stop - base] for one, base, stop in zip(rows, bases, stops, strict=True)
    ]

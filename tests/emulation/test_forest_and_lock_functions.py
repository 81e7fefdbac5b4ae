"""The kernels of hooking and the device functions of Lonestar's locks, each emulated by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from engines.lonestar import cuda_plan as lonestar
from engines.onyx import cuda_hooking
from tests.emulation.kernels import EMULATED, Kernels, headers, heading

pytestmark = EMULATED

BLOCK, LONG = 64, 9
SIZES = [1, BLOCK, BLOCK + 1, 3 * BLOCK - 1]


def source_of_hooking(least, before=""):
    text = Path(cuda_hooking.__file__).with_name("hooking.cu").read_text(encoding="utf-8")
    return f"#define BLOCK {BLOCK}\n#define LEAST {least}\n#define LONG {LONG}\n{before}{text}"


@pytest.fixture(scope="module", params=[1, 0], ids=["least", "largest"])
def hooking(request):
    made = Kernels(source_of_hooking(request.param), {}, BLOCK)
    made.least = bool(request.param)
    return made


def launch(kernels, name, vertices, *arguments):
    return kernels(name, -(-vertices // BLOCK), *arguments)


def edges_of(vertices, seed=1):
    """Return offsets and neighbours of a few edges of every vertex, and of very many of some."""
    rng = np.random.default_rng(seed)
    degrees = rng.choice([0, 0, 1, 2, 3], vertices)
    degrees[::17] = rng.choice([LONG + 1, LONG + 2, 40, 75], len(degrees[::17]))
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    return offsets, rng.integers(0, vertices, offsets[-1]).astype(np.uint32)


def least_of_components(vertices, sources, ends, parent):
    """Return the least vertex of every component of the edges and of the edges to parents."""
    sources, ends = np.concatenate([sources, np.arange(vertices)]), np.concatenate([ends, parent])
    matrix = coo_array((np.ones(len(sources)), (sources, ends)), shape=(vertices, vertices))
    _, labels = connected_components(matrix, directed=False)
    least = np.full(labels.max() + 1, vertices)
    np.minimum.at(least, labels, np.arange(vertices))
    return least[labels]


def roots(parent):
    parent = parent.astype(np.int64)
    assert (parent <= np.arange(len(parent))).all()
    for _ in range(len(parent)):
        parent = parent[parent]
    return parent


@pytest.mark.parametrize("vertices", SIZES)
def test_a_forest_of_single_vertices_is_hooked_by_the_first_edges(hooking, vertices):
    (parent,) = launch(hooking, "begin_forest", vertices, np.full(vertices, 9999, np.uint32), np.uint32(vertices))
    assert np.array_equal(parent, np.arange(vertices))
    offsets, neighbours = edges_of(vertices)
    for count in (0, 1, 2, 100):
        given = (offsets, neighbours, parent, np.uint32(vertices), np.int32(count))
        _, _, hooked = launch(hooking, "hook_first", vertices, *given)
        sources = np.repeat(np.arange(vertices), np.diff(offsets))
        first = np.arange(len(sources)) - offsets[sources] < count
        wanted = least_of_components(vertices, sources[first], neighbours[first], parent)
        assert np.array_equal(roots(hooked), wanted)
        (flat,) = launch(hooking, "flatten", vertices, hooked, np.uint32(vertices))
        assert np.array_equal(flat, wanted)


@pytest.mark.parametrize("vertices", [1, 5, BLOCK - 1])
def test_a_vertex_is_flattened_alone(hooking, vertices):
    """Another thread may have stored the root of a vertex on the path, which must stay."""
    count = 3 * BLOCK
    upwards = np.minimum(np.arange(count) + 1, count - 1).astype(np.uint32)  # away from the vertices with threads
    (flat,) = launch(hooking, "flatten", vertices, upwards, np.uint32(vertices))
    assert (flat[:vertices] == count - 1).all()
    assert np.array_equal(flat[vertices:], upwards[vertices:])


RIVALS = """
__device__ inline unsigned after_a_rival(unsigned* target, unsigned wanted, unsigned value)
{
    if (wanted > 1 && wanted % 3 == 0) atomicCAS(target, wanted, wanted - 2);
    return atomicCAS(target, wanted, value);
}
__device__ inline int after_a_rival(int* target, int wanted, int value)
{
    const float old = __int_as_float(wanted), own = __int_as_float(value), between = (old + own) / 2;
    if (old - own > 1 || own - old > 1) atomicCAS(target, wanted, __float_as_int(between));
    return atomicCAS(target, wanted, value);
}
#define atomicCAS(...) after_a_rival(__VA_ARGS__)
"""


@pytest.fixture(scope="module", params=[1, 0], ids=["least", "largest"])
def contended(request):
    """Compile the kernels with compare-and-swaps before which another thread has changed the place."""
    made = Kernels(source_of_hooking(request.param, RIVALS), {}, BLOCK)
    made.least = bool(request.param)
    return made


@pytest.mark.parametrize("vertices", SIZES[2:])
def test_a_root_that_a_rival_has_hooked_is_looked_for_again(contended, vertices):
    """Even vertices are connected, and odd ones; a rival hooks a root to another vertex of its component."""
    rng = np.random.default_rng(vertices)
    above = np.arange(2, vertices)
    below = above % 2 + 2 * (rng.random(len(above)) * (above // 2)).astype(int)
    offsets = np.concatenate([[0, 0], np.arange(vertices - 1)]).astype(np.int64)
    parent = np.arange(vertices, dtype=np.uint32)
    given = (offsets, below.astype(np.uint32), parent, np.uint32(vertices), np.int32(1))
    _, _, hooked = launch(contended, "hook_first", vertices, *given)
    assert np.array_equal(roots(hooked), np.arange(vertices) % 2)
    largest, first = np.full(1, vertices, np.uint32), np.int32(0)
    *_, hooked, _ = launch(contended, "hook_others", vertices, *given[:3], largest, np.uint32(vertices), first)
    assert np.array_equal(roots(hooked), np.arange(vertices) % 2)


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("vertices", SIZES)
def test_a_value_is_offered_again_after_a_rival_has_changed_the_roots(contended, vertices, features):
    """The rival's value is better than the root's, and worse than the own one."""
    rng = np.random.default_rng(vertices)
    root = np.minimum(rng.choice([0, 1], vertices), np.arange(vertices)).astype(np.uint32)
    root[:2] = np.arange(min(2, vertices))
    values = rng.integers(-99, 99, (vertices, features)).astype(np.float32)
    given = (root, values, np.uint32(vertices), np.int32(features))
    _, found = contended("collect", -(-vertices * features // BLOCK), *given)
    wanted = values.copy()
    (np.minimum if contended.least else np.maximum).at(wanted, root, values)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("vertices", [BLOCK + 1, 3 * BLOCK - 1])
@pytest.mark.parametrize("first", [0, 2])
def test_the_other_edges_hook_what_is_outside_of_the_largest_tree(hooking, vertices, first):
    """All edges but the first ones, and those of the largest tree, which lead to a vertex of which nothing is read."""
    rng, tree, nobody = np.random.default_rng(3), vertices // 3, vertices - 1
    u, v = rng.integers(tree, nobody, (2, vertices // 2))
    u[-LONG - 3 :] = tree + 7  # many edges
    sources, ends = (
        np.concatenate([u, v, np.arange(tree, nobody, 9)]),
        np.concatenate([v, u, np.arange(tree, nobody, 9) % tree]),
    )
    rows = [
        [nobody] * first + (ends[sources == i].tolist() if i >= tree else [nobody] * (i % 20)) for i in range(vertices)
    ]
    offsets = np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(np.int64)
    neighbours = np.concatenate([row for row in rows if row]).astype(np.uint32)
    parent = np.where(np.arange(vertices) < tree, 0, np.arange(vertices)).astype(np.uint32)
    given = (offsets, neighbours, parent, np.zeros(1, np.uint32), np.uint32(vertices), np.int32(first))
    for _ in range(2):
        _, _, hooked, _ = launch(hooking, "hook_others", vertices, *given)
        assert np.array_equal(roots(hooked), least_of_components(vertices, sources, ends, parent))


def test_a_path_is_halved_and_then_flattened(hooking):
    count = 3 * BLOCK
    path = np.maximum(np.arange(count) - 1, 0).astype(np.uint32)
    (flat,) = launch(hooking, "flatten", count, path, np.uint32(count))
    assert not flat.any()
    offsets = np.zeros(count + 1, np.int64)
    offsets[-1] = 1  # the last vertex looks for the root of its path
    _, _, halved = launch(
        hooking, "hook_first", count, offsets, np.zeros(1, np.uint32), path, np.uint32(count), np.int32(1)
    )
    changed = np.arange(count - 1, 1, -2)
    wanted = path.copy()
    wanted[changed] = changed - 2
    assert np.array_equal(halved, wanted)


@pytest.mark.parametrize("vertices", [1, 40, BLOCK, 10 * BLOCK + 7])
def test_the_largest_tree_is_that_of_most_samples(hooking, vertices):
    samples = vertices * np.arange(BLOCK) // BLOCK
    for seed in range(4):
        parent = np.random.default_rng(seed).choice([0, 3, 5, 8], vertices).astype(np.uint32)
        counts = np.bincount(parent[samples], minlength=9)
        _, largest = hooking("find_largest", 1, parent, np.full(1, 77, np.uint32), np.uint32(vertices))
        assert counts[largest[0]] == counts.max()


@pytest.mark.parametrize("features", [1, 3, 33])
@pytest.mark.parametrize("vertices", SIZES)
def test_values_are_reduced_into_the_rows_of_roots_and_spread(hooking, vertices, features):
    rng = np.random.default_rng(vertices)
    root = np.minimum(rng.choice([0, 1, vertices // 2], vertices), np.arange(vertices)).astype(np.uint32)
    root[root] = root[root[root]]
    root = roots(root).astype(np.uint32)
    values = rng.integers(-99, 99, (vertices, features)).astype(np.float32)
    blocks = -(-vertices * features // BLOCK)
    _, found = hooking("collect", blocks, root, values, np.uint32(vertices), np.int32(features))
    wanted = values.copy()
    (np.minimum if hooking.least else np.maximum).at(wanted, root, values)
    assert np.array_equal(found, wanted)
    _, found = hooking("spread", blocks, root, values, np.uint32(vertices), np.int32(features))
    assert np.array_equal(found, values[root])


LOCKS = """
extern "C" __global__ void numbers(int* visits, int* across, Id* all)
{
    const LaneGroup group;
    if (group.idle()) return;
    atomicAdd(visits + group_of_grid(group), 1);
    across[group_across_blocks(group)] = blockIdx.x * 1000 + threadIdx.x / 32 * LANE_GROUPS + group.number;
    *all = groups_of_grid();
}
extern "C" __global__ void taken(Id* locks, const Id* u, const Id* v, Id count, bool pairs, bool* answers)
{
    const LaneGroup group;
    if (threadIdx.x >= LANES) return;
    for (Id i = 0; i < count; ++i) {
        const bool mine = pairs ? try_both(group, locks, u[i], v[i]) : try_lock(group, locks, u[i]);
        if (group.member == LANES - 1) answers[i] = mine;
    }
}
extern "C" __global__ void released(Id* locks, const Id* u, const Id* v, Id count, bool pairs)
{
    const LaneGroup group;
    if (threadIdx.x >= LANES) return;
    for (Id i = 0; i < count; ++i)
        if (pairs) unlock_both(group, locks, u[i], v[i]);
        else unlock(group, locks, u[i]);
}
extern "C" __global__ void rows(Id* locks, const Id* u, const Id* v, Id edges, float* sums, int* missed)
{
    const LaneGroup group;
    if (group.idle()) return;
    for (EdgeId e = group_of_grid(group); e < edges; e += groups_of_grid()) {
        if (!try_both(group, locks, u[e], v[e])) {
            if (group.leads()) atomicAdd(missed, 1);
            continue;
        }
        volatile Id* const seen = locks;
        if (!seen[u[e]] || !seen[v[e]]) atomicAdd(missed + 1, 1);
        atomicAdd(sums + u[e] * LANES + group.member, 1.0f);
        atomicAdd(sums + v[e] * LANES + group.member, 1.0f);
        unlock_both(group, locks, u[e], v[e]);
    }
}
extern "C" __global__ void sources(
    Id* locks, bool* done, const Id* u, Id base, Id end, bool release, Id* locked, Number* missing)
{
    const LaneGroup group;
    if (threadIdx.x >= LANES) return;
    Number mine = 0;
    const unsigned bits = lock_sources<4>(group, locks, done, u, base, end, mine);
    if (group.member == LANES - 1) *locked = bits;
    if (group.leads()) *missing += mine;
    if (release) unlock_sources<4>(group, locks, done, u, base, bits);
}
extern "C" __global__ void stamps(
    bool stamping, const Id* u, const Id* v, Id edges, Id* stamps, Id* counters, Id* counted)
{
    const LaneGroup group;
    if (threadIdx.x >= LANES) return;
    for (Id e = 0; e < edges; ++e) {
        stamp(group, stamping, stamps, counters, e, u[e], v[e]);
        const Counted both(group, stamping, counted, u[e], v[e]);
        both.write();
    }
}
extern "C" __global__ void passes(Number* sizes, Id pass, Id* found)
{
    const Id count = edges_of_pass(sizes, pass);
    found[blockIdx.x * BLOCK + threadIdx.x] = count;
}
extern "C" __global__ void waits(Number* lock, Id* marks, int* wrong)
{
    GlobalBarrier barrier(lock);
    for (Id turn = 1; turn <= 3; ++turn) {
        marks[threadIdx.x] = turn;
        wait_for_all(barrier);
        if (marks[BLOCK - 1 - threadIdx.x] != turn) atomicAdd(wrong, 1);
        barrier.wait([&] { atomicAdd(wrong + 1, 1); });
    }
}
"""


@pytest.fixture(scope="module", params=[4, 5])
def locks(request):
    head = heading("in_place.cuh", lanes=request.param, block=BLOCK)
    made = Kernels(head + LOCKS, headers(Path(lonestar.__file__).parent), BLOCK)
    made.lanes, made.lane_groups = request.param, 32 // request.param
    return made


@pytest.mark.parametrize("blocks", [1, 3])
def test_groups_of_the_grid_have_numbers_of_their_own(locks, blocks):
    per_block = BLOCK // 32 * locks.lane_groups
    count = blocks * per_block
    visits, across, number = locks(
        "numbers", blocks, np.zeros(count, np.int32), np.full(count, -1, np.int32), np.zeros(1, np.uint32)
    )
    assert (visits == locks.lanes).all()
    assert number.tolist() == [count]
    assert across.tolist() == [1000 * (i % blocks) + i // blocks for i in range(count)]


def test_locks_are_taken_alone_in_pairs_or_not_at_all(locks):
    rng, count, vertices = np.random.default_rng(1), 30, 25
    u = rng.integers(0, vertices, count).astype(np.uint32)
    v = ((u + rng.integers(1, vertices, count)) % vertices).astype(np.uint32)
    for pairs in (False, True):
        held, answers = set(), []
        for a, b in zip(u.tolist(), v.tolist(), strict=True):
            wanted = {a, b} if pairs else {a}
            answers.append(not wanted & held)
            held |= wanted if answers[-1] else set()
        given = (u, v, np.uint32(count), np.bool_(pairs))
        locked, _, _, found = locks("taken", 1, np.zeros(vertices, np.uint32), *given, np.zeros(count, np.bool_))
        assert found.tolist() == answers
        assert np.flatnonzero(locked).tolist() == sorted(held)
        a, b = u[answers][:3], v[answers][:3]
        left, *_ = locks("released", 1, locked, a, b, np.uint32(len(a)), np.bool_(pairs))
        assert np.flatnonzero(left).tolist() == sorted(held - set(a) - (set(b) if pairs else set()))


@pytest.mark.parametrize("blocks", [1, 3])
def test_rows_are_updated_by_one_group_at_a_time(locks, blocks):
    rng, vertices, edges = np.random.default_rng(2), 40, 150
    u = rng.integers(0, vertices, edges).astype(np.uint32)
    v = ((u + rng.integers(1, vertices, edges)) % vertices).astype(np.uint32)
    space = (np.zeros((vertices, locks.lanes), np.float32), np.zeros(2, np.int32))
    for _ in range(2):  # lanes run in ascending and in descending order
        left, _, _, sums, missed = locks("rows", blocks, np.zeros(vertices, np.uint32), u, v, np.uint32(edges), *space)
        assert not left.any()
        assert missed[1] == 0  # no group has met a lock free that it holds
        assert (sums == sums[:, :1]).all()
        assert sums[:, 0].sum() == 2 * (edges - missed[0])


@pytest.mark.parametrize(("base", "end"), [(0, 12), (4, 8), (9, 12), (11, 12), (12, 12)])
def test_sources_of_several_edges_are_locked_at_once(locks, base, end):
    u = np.array([0, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9], np.uint32)
    done = np.isin(np.arange(12), [1, 6, 11])
    held = np.isin(np.arange(10), [2, 8]).astype(np.uint32)
    taken, locked, missing = set(np.flatnonzero(held)), 0, 0
    for d, e in enumerate(range(base, min(base + 4, end))):
        if not done[e]:
            free = u[e] not in taken
            locked, missing = locked | free << d, missing + (not free)
            taken.add(u[e])
    for release in (False, True):
        given = (np.uint32(base), np.uint32(end), np.bool_(release), np.zeros(1, np.uint32), np.full(1, 3, np.uint64))
        after, marks, _, bits, missed = locks("sources", 1, held, done, u, *given)
        assert (bits.tolist(), missed.tolist()) == ([locked], [3 + missing])
        run = [e for e in range(12) if e >= base and locked >> (e - base) & 1]
        assert np.flatnonzero(after).tolist() == sorted(np.flatnonzero(held) if release else taken)
        assert np.array_equal(marks, done | np.isin(np.arange(12), run if release else []))


@pytest.mark.parametrize("stamping", [False, True])
def test_edges_are_numbered_at_both_of_their_ends(locks, stamping):
    u, v = (np.random.default_rng(seed).integers(0, 9, 20).astype(np.uint32) + low for seed, low in ((1, 0), (2, 9)))
    space = (np.full((20, 2), 99, np.uint32), *[np.zeros(18, np.uint32)] * 2)
    *_, stamps, counters, counted = locks("stamps", 1, np.bool_(stamping), u, v, np.uint32(20), *space)
    before = [[np.count_nonzero(side[:e] == side[e]) for side in (u, v)] for e in range(20)]
    assert stamps.tolist() == (before if stamping else [[99, 99]] * 20)
    totals = np.bincount(np.concatenate([u, v]), minlength=18) * stamping
    assert np.array_equal(counters, totals)
    assert np.array_equal(counted, totals)


@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_pass_clears_the_count_after_the_next_and_is_counted_if_it_has_edges(locks, number):
    for count in (0, 7):
        sizes = np.array([50, 60, 70, 10], np.uint64)
        sizes[number % 3] = count
        after, found = locks("passes", 2, sizes, np.uint32(number), np.zeros(2 * BLOCK, np.uint32))
        assert (found == count).all()
        sizes[(number + 2) % 3] = 0
        sizes[3] += count > 0
        assert np.array_equal(after, sizes)


def test_one_block_waits_for_its_threads(locks):
    lock, _, wrong = locks("waits", 1, np.zeros(64, np.uint64), np.zeros(BLOCK, np.uint32), np.zeros(2, np.int32))
    assert wrong.tolist() == [0, 3]
    assert lock[[0, 32]].tolist() == [3, 3]

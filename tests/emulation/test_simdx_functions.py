"""The device functions in the style of SIMD-X, emulated: workers, bins, both filters, and the choice between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.pullbaseline.simdx import cuda_plan as simdx
from harness.lowering.cuda.run_state import RUN_FIELDS
from tests.emulation.kernels import EMULATED, Kernels, headers, heading
from tests.emulation.test_edge_functions import graph

pytestmark = EMULATED

BLOCK, WARPS, CAPACITY, MOST = 128, 4, 3, 8 * 128
WORKERS = {"Thread": 1, "Warp": 32, "Block": BLOCK}
FILTERS = ("JIT", "ONLINE", "BALLOT")
SOURCE = f"""
typedef Bin<{CAPACITY}> Bins;
template <class Worker> __device__ inline void visit(Id length, int* visits, Id* sizes)
{{
    const Share<Worker> share(length);
    for (Id i = share.first; i < length; i += share.step) {{
        atomicAdd(visits + i * {MOST} + share.member, 1);
        sizes[i] = share.size;
    }}
}}
template <class Worker> __device__ inline void combine(const float* values, float* sums, int* flags, Id* numbers)
{{
    const Id i = thread_of_grid();
    const float sum = Worker::template combined<Add>(values[i]), top = Worker::template combined<Max>(values[i]);
    if (Worker::member() == 0) sums[2 * i] = sum, sums[2 * i + 1] = top;
    flags[i] = Worker::any(values[i] > 40.0f);
    numbers[2 * i] = Worker::number(), numbers[2 * i + 1] = Worker::all();
}}
extern "C" __global__ void applications(const float* messages, float* targets, bool* changed)
{{
    const int i = threadIdx.x;
    changed[4 * i] = applied<Add>(targets + 6 * i, messages[2 * i]);
    changed[4 * i + 1] = applied<Min>(targets + 6 * i + 1, messages[2 * i]);
    changed[4 * i + 2] = applied<Max>(targets + 6 * i + 2, messages[2 * i]);
    Row<2> row;
    row[0] = messages[2 * i], row[1] = messages[2 * i + 1];
    changed[4 * i + 3] = applied<Min>(targets + 6 * i + 4, row);
}}
extern "C" __global__ void decisions(const float* values, bool* found)
{{
    const int i = threadIdx.x;
    Row<2> row;
    row[0] = values[2 * i], row[1] = values[2 * i + 1];
    found[2 * i] = decided<Min>(values[2 * i]);
    found[2 * i + 1] = decided<Min>(row);
}}
extern "C" __global__ void filled_bins(
    const Id* reached, Id each, Id* bins, Id* marks, long long superstep, Tasks* now, Id* counts)
{{
    Bins all(bins, 0), first(bins + {CAPACITY} * threads_of_grid(), 0);
    for (Id i = 0; i < each; ++i) {{
        const Id v = reached[each * thread_of_grid() + i];
        all.add(v);
        first.add_first(v, marks, superstep);
    }}
    first.report(now);
    all.report(now + 1);
    counts[2 * thread_of_grid()] = all.count, counts[2 * thread_of_grid() + 1] = first.count;
}}
extern "C" __global__ void concatenated(
    Id* bins, const Id* counts, const Id* offsets, const bool* moves, Id room, int* steps, Tasks* next, Id* small,
    Id* middle, Id* large)
{{
    for (int turn = 0; turn < 2; ++turn) {{
        const Id at = turn * room;
        const Lists lists = {{small + at, middle + at, large + at, 3, 20}};
        Bins bin(bins + turn * {CAPACITY} * threads_of_grid(), counts[2 * thread_of_grid() + turn]);
        concatenate(bin, next + turn, lists, offsets, [&](Id v) {{
            atomicAdd(steps + v, 1);
            return moves[v];
        }});
    }}
}}
extern "C" __global__ void scanned(
    const Id* offsets, const bool* moves, Id vertices, int* steps, Tasks* next, Id* bits, Id* found)
{{
    const Lists lists = {{nullptr, nullptr, nullptr, 3, 20}};
    Ballot{{bits, found, vertices}}.scan(next, lists, offsets, [&](Id v) {{
        atomicAdd(steps + v, 1);
        return moves[v];
    }});
}}
extern "C" __global__ void written(
    const Id* offsets, Id vertices, Tasks* next, Id* bits, Id* found, Id* small, Id* middle, Id* large)
{{
    Ballot{{bits, found, vertices}}.write(next, Lists{{small, middle, large, 3, 20}}, offsets);
}}
struct Acc {{
    const Id* out_offsets;
    Id* calls;
    template <class Worker, class Bin>
    __device__ void push(const Id* list, Id length, Bin& bin, Count s, bool votes) const
    {{
        if (thread_of_grid() == 0) calls[0] = Worker::SIZE, calls[1] = length, calls[2] = votes, calls[3] = list[0];
        bin.add(7);
    }}
    template <class Worker, class Bin>
    __device__ void pull(const Id* list, Id length, Bin& bin, Count s, bool votes, Count& visited) const
    {{
        if (thread_of_grid() == 0) calls[4] = Worker::SIZE, calls[5] = length, calls[6] = votes, calls[7] = list[0];
        visited += 2;
    }}
    __device__ bool active(Id v) const
    {{
        atomicAdd(calls + 8, 1u);
        return v == 7;
    }}
}};
""" + "".join(
    f"""
extern "C" __global__ void alone_{name}(
    int step, Run* run, TaskManager* tasks, const Id* offsets, Id* calls, Id* bins, Id* counts, Id* lists, Id* bits,
    Id* found)
{{
    const Superstep<Acc, Filter::{name}, {CAPACITY}> steps{{
        {{offsets, calls}}, run, tasks, {{lists, lists + 100, lists + 200, 3, 20}},
        {{lists + 300, lists + 301, lists + 302, 3, 20}}, {{bits, found, Id(tasks->vertices)}}, bins, counts}};
    switch (step) {{
        case 0: steps.push_alone<Block>(2); break;
        case 1: steps.push_alone<Warp>(1); break;
        case 2: steps.pull_alone<Block>(2); break;
        case 3: steps.pull_alone<Thread>(0); break;
        case 4: steps.scan_alone(); break;
        case 5: steps.write_alone(); break;
        case 6: steps.join_alone(); break;
        case 7: if (threadIdx.x == 0) steps.end_alone(); break;
    }}
}}"""
    for name in FILTERS
) + "".join(
    f"""
extern "C" __global__ void shares_{name}(Id length, int* visits, Id* sizes)
{{
    visit<{name}>(length, visits, sizes);
}}
extern "C" __global__ void combined_{name}(const float* values, float* sums, int* flags, Id* numbers)
{{
    combine<{name}>(values, sums, flags, numbers);
}}"""
    for name in WORKERS
)  # fmt: skip


@pytest.fixture(scope="module")
def kernels():
    folder = Path(simdx.__file__).parent
    return Kernels(heading("superstep.cuh", block=BLOCK) + SOURCE, headers(folder), BLOCK)


@pytest.mark.parametrize("blocks", [1, 3, 7])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 13, 29, 300])
@pytest.mark.parametrize("worker", WORKERS)
def test_vertices_of_a_list_are_shared_by_as_many_threads_as_there_are(kernels, worker, length, blocks):
    space = (np.zeros((length + 1, MOST), np.int32), np.zeros(length + 1, np.uint32))
    visits, sizes = kernels(f"shares_{worker}", blocks, np.uint32(length), *space)
    threads, size = blocks * BLOCK, WORKERS[worker]
    if worker == "Thread" and length <= threads // 32:
        size = 32
    if worker == "Block" and 0 < length < blocks:
        size = blocks // length * BLOCK
    assert sizes.tolist() == [size] * length + [0]
    assert np.array_equal(visits[:length], np.broadcast_to(np.arange(MOST) < size, (length, MOST)))
    assert not visits[length].any()


@pytest.mark.parametrize("worker", WORKERS)
def test_the_threads_of_a_worker_combine_their_values(kernels, worker):
    blocks, size = 3, WORKERS[worker]
    values = np.random.default_rng(1).integers(-50, 50, blocks * BLOCK).astype(np.float32)
    values[:BLOCK] = np.minimum(values[:BLOCK], 40)
    space = (
        np.zeros((len(values), 2), np.float32),
        np.zeros(len(values), np.int32),
        np.zeros((len(values), 2), np.uint32),
    )
    _, sums, flags, numbers = kernels(f"combined_{worker}", blocks, values, *space)
    groups = values.reshape(-1, size)
    assert np.array_equal(sums[::size], np.stack([groups.sum(1), groups.max(1)], 1))
    assert np.array_equal(flags != 0, np.repeat((groups > 40).any(1), size))
    assert np.array_equal(numbers[:, 0], np.arange(len(values)) // size)
    assert set(numbers[:, 1]) == {len(values) // size}


def test_messages_tell_whether_they_have_changed_anything(kernels):
    rng, count = np.random.default_rng(2), BLOCK
    messages, targets = rng.integers(-2, 3, (count, 2)), rng.integers(-2, 3, (count, 6))
    one = messages[:, 0]
    floats = targets.astype(np.float32)
    floats[:, 0][one == 0] = -0.0  # the addition of a zero would change its sign
    targets[one == 0, 0] = 0
    sent = messages.astype(np.float32)
    sent[::2][messages[::2] == 0] = -0.0
    given = (sent, floats, np.zeros((count, 4), np.bool_))
    _, found, changed = kernels("applications", 1, *given)
    rows = targets[:, 4:]
    wanted = targets.copy()
    wanted[:, 0] += one
    wanted[:, 1], wanted[:, 2] = np.minimum(targets[:, 1], one), np.maximum(targets[:, 2], one)
    wanted[:, 4:] = np.minimum(rows, messages)
    assert np.array_equal(found, wanted)
    assert np.signbit(found[:, 0][one == 0]).all()
    answers = [one != 0, one < targets[:, 1], one > targets[:, 2], (messages < rows).any(1)]
    assert np.array_equal(changed, np.stack(answers, 1))


def test_a_vertex_is_decided_once_every_feature_has_a_message(kernels):
    values = np.random.default_rng(3).choice([1, np.inf, -np.inf], (BLOCK, 2)).astype(np.float32)
    _, found = kernels("decisions", 1, values, np.zeros((BLOCK, 2), np.bool_))
    known = values != np.inf
    assert np.array_equal(found, np.stack([known[:, 0], known.all(1)], 1))


@pytest.mark.parametrize("each", [0, 1, CAPACITY, CAPACITY + 1, CAPACITY + 3])
def test_bins_hold_what_fits_and_report_more(kernels, each):
    blocks, superstep = 2, 4
    threads = blocks * BLOCK
    reached = np.random.default_rng(4).integers(0, 3 * threads, (threads, max(each, 1))).astype(np.uint32)
    marks = np.where(np.arange(3 * threads) % 5 == 0, superstep + 1, superstep).astype(np.uint32)
    bins = np.full((2, CAPACITY, threads), 9999, np.uint32)
    given = (
        np.uint32(each),
        bins,
        marks,
        np.int64(superstep),
        np.zeros((2, 6), np.int64),
        np.zeros((threads, 2), np.uint32),
    )
    _, bins, after, tasks, counts = kernels("filled_bins", blocks, reached, *given)
    assert set(counts[:, 0]) == {min(each, CAPACITY + 1)}
    kept = min(each, CAPACITY)
    assert np.array_equal(bins[0, :kept], reached[:, :kept].T)
    assert (bins[0, kept:] == 9999).all()
    assert tasks[1].tolist() == [0, 0, 0, 0, int(each > CAPACITY), 0]
    assert tasks[0].tolist() == [0, 0, 0, 0, int((counts[:, 1] > CAPACITY).any()), 0]
    met = np.unique(reached[:, :each])
    assert np.array_equal(after, np.where(np.isin(np.arange(len(marks)), met), superstep + 1, marks))
    if counts[:, 1].max() <= CAPACITY:
        listed = [int(v) for thread in range(threads) for v in bins[1, : counts[thread, 1], thread]]
        assert sorted(listed) == met[met % 5 != 0].tolist()


def listed_by_degree(vertices, degrees):
    return [[v for v in vertices if low <= degrees[v] < high] for low, high in ((0, 3), (3, 21), (21, 1 << 30))]


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.7, 1.0])
def test_bins_are_concatenated_into_lists_by_degree(kernels, density, blocks):
    rng, threads = np.random.default_rng(5), blocks * BLOCK
    vertices = 2 * CAPACITY * threads
    degrees = rng.choice([0, 2, 3, 7, 20, 21, 50], vertices)
    offsets, _, _ = graph(1, degrees)
    bins = rng.permutation(vertices).reshape(2, CAPACITY, threads).astype(np.uint32)
    counts = rng.integers(0, CAPACITY + 1, (threads, 2)).astype(np.uint32)
    moves = rng.random(vertices) < density
    tasks = np.array([[1, 2, 3, 100, 0, 0], [0, 0, 0, 0, 0, 0]])
    room = vertices + 9  # of the lists of a turn
    given = (offsets, moves, np.uint32(room), np.zeros(vertices, np.int32), tasks)
    lists = [np.full((2, room), 9999, np.uint32) for _ in range(3)]
    *_, steps, tasks, small, middle, large = kernels("concatenated", blocks, bins, counts, *given, *lists)
    held = [[int(v) for t in range(threads) for v in bins[turn, : counts[t, turn], t]] for turn in range(2)]
    assert np.array_equal(steps, np.isin(np.arange(vertices), held[0] + held[1]))
    for turn, before in ((0, [1, 2, 3, 100, 0, 0]), (1, [0] * 6)):
        active = [v for v in held[turn] if moves[v]]
        wanted = listed_by_degree(active, degrees)
        sizes = [len(one) for one in wanted]
        assert tasks[turn].tolist() == [*np.add(before[:3], sizes), before[3] + degrees[active].sum(), 0, 0]
        for found, vertices_of_list, begin in zip((small, middle, large), wanted, before, strict=False):
            end = begin + len(vertices_of_list)
            assert found[turn, begin:end].tolist() == vertices_of_list
            assert (np.delete(found[turn], np.s_[begin:end]) == 9999).all()


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("vertices", [1, 31, 33, BLOCK, 3 * BLOCK + 1, 1000])
@pytest.mark.parametrize("density", [0.0, 0.04, 1.0])
def test_the_ballot_filter_lists_active_vertices_in_order(kernels, density, vertices, blocks):
    rng = np.random.default_rng(vertices)
    degrees = rng.choice([0, 2, 3, 7, 20, 21, 50], vertices)
    offsets, _, _ = graph(1, degrees)
    moves = rng.random(vertices) < density
    moves[-1] = density > 0
    bits, found = np.zeros(-(-vertices // 32), np.uint32), np.full(3 * blocks * (1 + WARPS), 9999, np.uint32)
    tasks, steps = np.array([9, 9, 9, 50, 0, 0]), np.zeros(vertices, np.int32)
    given = (offsets, moves, np.uint32(vertices), steps, tasks, bits, found)
    *_, steps, tasks, bits, found = kernels("scanned", blocks, *given)
    assert (steps == 1).all()
    unpacked = np.unpackbits(bits.view(np.uint8), bitorder="little")
    assert np.array_equal(unpacked[:vertices], moves)
    assert not unpacked[vertices:].any()
    assert tasks.tolist() == [9, 9, 9, 50 + degrees[moves].sum(), 0, 0]
    lists = [np.full(vertices + 1, 9999, np.uint32) for _ in range(3)]
    _, tasks, _, _, *lists = kernels("written", blocks, offsets, np.uint32(vertices), tasks, bits, found, *lists)
    wanted = listed_by_degree(np.flatnonzero(moves), degrees)
    assert tasks[:3].tolist() == [len(one) for one in wanted]
    for one, other in zip(lists, wanted, strict=True):
        assert one[: len(other)].tolist() == other
        assert (one[len(other) :] == 9999).all()


STEPS = ("push large", "push middle", "pull large", "pull small", "scan", "write", "join", "end")


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize(
    ("superstep", "edges", "overflowed", "votes"),
    [(0, 10, 0, 0), (1, 10, 0, 0), (1, 11, 0, 1), (1, 11, 0, 0), (2, 10, 1, 0), (5, 3, 0, 1), (2, 3, 0, 0)],
)
@pytest.mark.parametrize("over", [False, True])
def test_a_superstep_runs_the_kernels_of_its_direction_and_of_its_filter(
    kernels, filter_, superstep, edges, overflowed, votes, over
):
    pulls = edges > 10  # the limit of a push
    scans = filter_ == "BALLOT" or superstep == 0 or (filter_ == "JIT" and (pulls or overflowed))
    fails = filter_ == "ONLINE" and overflowed and superstep > 0
    runs = {
        "push large": not pulls, "push middle": not pulls, "pull large": pulls, "pull small": pulls, "scan": scans,
        "write": scans, "join": not scans and not fails, "end": True,
    }  # fmt: skip
    fields = {
        "superstep": superstep,
        "limit": superstep if over else 99,
        "sides": 1,
        "moved": 55,
        "edges": 66,
        "dense": 77,
    }
    extra = {"dense_edges": 10}
    run = np.array([*(({**fields, **extra}).get(name, 0) for name in RUN_FIELDS), 0, 0, 0, 0])
    tasks = np.zeros((3, 6), np.int64)
    now, following, last = ((superstep + turn) % 3 for turn in range(3))
    tasks[now] = 4, 5, 6, edges, overflowed, 30
    tasks[following] = 1, 2, 3, 40, 0, 0
    tasks[last] = 9
    manager = np.concatenate([tasks.ravel(), [votes, 0, BLOCK, 500, 7, 8, 9]])
    offsets = np.arange(BLOCK + 1, dtype=np.uint32)
    counts = np.full(BLOCK, 2, np.uint32)
    bins = np.zeros((CAPACITY, BLOCK), np.uint32)
    bins[:2] = 7
    lists = np.arange(400, dtype=np.uint32)
    for number, name in enumerate(STEPS):
        run_after, after, _, calls, bins_after, counts_after, *_ = kernels(
            f"alone_{filter_}", 1, np.int32(number), run, manager, offsets, np.zeros(9, np.uint32), bins, counts, lists,
            np.full(4, 1 << 7, np.uint32), np.ones(3 * (1 + WARPS), np.uint32),
        )  # fmt: skip
        after_tasks, left = after[:18].reshape(3, 6), after[18:].tolist()
        wanted, steps, left_wanted = tasks.copy(), 0, [votes, 0, BLOCK, 500, 7, 8, 9]
        wanted_calls, wanted_run = [0] * 8, run.tolist()
        place = dict(zip(RUN_FIELDS, range(len(RUN_FIELDS)), strict=True))
        if runs[name] and not over:
            if name.startswith("push"):
                large = name.endswith("large")
                wanted_calls[:4] = [BLOCK, 6, votes, 200] if large else [32, 5, votes, 100]
                assert set(counts_after) == {1 if large else 3}
                assert (bins_after[0 if large else 2] == 7).all()
            elif name.startswith("pull"):
                large = name.endswith("large")
                wanted_calls[4:] = [BLOCK, 9, votes, 302] if large else [1, 7, votes, 300]
                wanted[now, 5] += 2 * BLOCK
                assert set(counts_after) == {0 if large else 2}
            elif name == "scan":
                steps, wanted[following, 3] = BLOCK, 41
            elif name == "write":
                wanted[following, :3] = 1
            elif name == "join":
                steps = 2 * BLOCK
                wanted[following, 0] += 2 * BLOCK
                wanted[following, 3] += 2 * BLOCK
            elif fails:
                left_wanted[1] = wanted_run[place["settled"]] = 1
            else:
                wanted[last] = 0
                visited = edges if not pulls else 30 if votes else 500
                for field, value in (("moved", 6), ("edges", visited), ("dense", pulls + 2 * scans)):
                    wanted_run[place[field]] = value
        assert calls.tolist() == [*wanted_calls, steps], name
        assert np.array_equal(after_tasks, wanted), name
        assert left == left_wanted, name
        assert run_after.tolist() == wanted_run, name

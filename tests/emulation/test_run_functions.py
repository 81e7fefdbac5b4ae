"""The device functions that all engines use for the state and the sums of a run, emulated and compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from harness.lowering.cuda.executor import PAST_FIELDS
from harness.lowering.cuda.movement import BLOCKS, ROWS
from harness.lowering.cuda.run_state import RUN_FIELDS
from tests.emulation.kernels import EMULATED, Kernels, headers_of_lane_groups, heading

pytestmark = EMULATED

BLOCK, GROUPS = 128, 2
SOURCE = (
    heading("threads.cuh", "movement.cuh", block=BLOCK)
    + """
extern "C" __global__ void indices(unsigned* thread, unsigned* all, unsigned long long* ranges)
{
    const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
    thread[i] = thread_of_grid();
    all[i] = threads_of_grid();
    ranges[i] = first_in_block_range(3);
}
extern "C" __global__ void sums(const float* values, float* of_warp, float* of_block)
{
    const float mine = values[thread_of_grid()];
    of_warp[thread_of_grid()] = combined_in_warp<Add>(mine);
    const float found[] = {combined_in_block<Add>(mine), combined_in_block<Min>(mine), combined_in_block<Max>(mine)};
    if (threadIdx.x == 0) for (int i = 0; i < 3; ++i) of_block[3 * blockIdx.x + i] = found[i];
}
extern "C" __global__ void counts(const Count* mine, Count* totals)
{
    add_counts(totals, mine[thread_of_grid()]);
    add_counts(totals + 1, 1);
}
extern "C" __global__ void tickets(Id* ticket, Id* last, Id* seen)
{
    if (threadIdx.x == BLOCK - 1) seen[blockIdx.x] = 1;
    const bool ends = last_block(ticket);
    if (ends && threadIdx.x == 0) for (Id i = 0; i < gridDim.x; ++i) last[blockIdx.x] += seen[i];
    if (ends) atomicAdd(last + gridDim.x, 1u);
}
extern "C" __global__ void ends(Run* run, Past* past)
{
    if (threadIdx.x != 0 || run->over()) return;
    end_superstep(run, past);
    settle_if_within(run);
}
extern "C" __global__ void questions(const Run* run, int* answers)
{
    answers[0] = run->over();
    answers[1] = run->sparse(0);
    answers[2] = run->sparse(1);
}
extern "C" __global__ void columns(
    const float* values, Count first, Count last, Count step, int width, float* found, int* visits)
{
    column_sums(first, last, step, width,
                [&](size_t row, int column, float& a, float& b) {
                    a += values[row * width + column];
                    b += 1.0f;
                    atomicAdd(visits + width, 1);
                },
                [&](int column, float a, float b) {
                    found[column] = a;
                    found[width + column] = b;
                    visits[column] += 1;
                });
}
"""
    + "\n".join(
        f"""
extern "C" __global__ void movement_{norm}(
    const float* a, const float* b, Id n, int stride, int width, float tolerance, float* found)
{{
    measure_movement<Norm::{norm}>(a, b, n, stride, width, tolerance, found);
}}
extern "C" __global__ void within_{norm}(const float* found, int width, float tolerance, int* within)
{{
    for (int turn = 0; turn < 2; ++turn)
        within[turn * BLOCK + threadIdx.x] = movement_is_within<Norm::{norm}>(found, width, tolerance);
}}"""
        for norm in ("SUM", "ABSOLUTE", "RELATIVE")
    )
)


@pytest.fixture(scope="module")
def kernels():
    return Kernels(SOURCE, headers_of_lane_groups(), BLOCK)


def test_indices_of_threads_in_the_grid(kernels):
    number = np.arange(3 * BLOCK)
    thread, all_threads, ranges = kernels(
        "indices", 3, *(np.zeros(3 * BLOCK, kind) for kind in (np.uint32, np.uint32, np.uint64))
    )
    assert np.array_equal(thread, number)
    assert set(all_threads) == {3 * BLOCK}
    assert np.array_equal(ranges, number // BLOCK * 3 * BLOCK + number % BLOCK)


@pytest.mark.parametrize("blocks", [1, 3])
def test_every_lane_has_the_sum_of_its_warp_and_one_thread_that_of_its_block(kernels, blocks):
    values = np.random.default_rng(blocks).integers(-50, 50, blocks * BLOCK).astype(np.float32)
    places = (np.zeros(blocks * BLOCK, np.float32), np.zeros(3 * blocks, np.float32))
    _, of_warp, of_block = kernels("sums", blocks, values, *places)
    assert np.array_equal(of_warp, np.repeat(values.reshape(-1, 32).sum(1), 32))
    rows = values.reshape(blocks, BLOCK)
    assert np.array_equal(of_block.reshape(blocks, 3), np.stack([rows.sum(1), rows.min(1), rows.max(1)], 1))


@pytest.mark.parametrize("blocks", [1, 3])
def test_counts_of_all_threads_are_added(kernels, blocks):
    counts = np.random.default_rng(blocks).integers(0, 1 << 40, blocks * BLOCK)
    _, totals = kernels("counts", blocks, counts, np.array([5, 7], np.int64))
    assert totals.tolist() == [5 + counts.sum(), 7 + blocks * BLOCK]


@pytest.mark.parametrize("blocks", [1, 4])
def test_the_last_block_sees_the_writes_of_all_and_resets_the_ticket(kernels, blocks):
    ticket = np.zeros(1, np.uint32)
    for _ in range(2):
        seen, last = np.zeros(blocks, np.uint32), np.zeros(blocks + 1, np.uint32)
        ticket, last, _ = kernels("tickets", blocks, ticket, last, seen)
        assert ticket.tolist() == [0]
        assert last.tolist() == [0] * (blocks - 1) + [blocks, BLOCK]


def state(frontier=((0, 0), (0, 0)), **fields):
    """Return ``struct Run`` with some fields set; ``frontier [GROUPS, 2]``."""
    values = [fields.get(name, {"limit": 100, "sides": 1}.get(name, 0)) for name in RUN_FIELDS]
    return np.array([*values, *np.ravel(frontier)], np.int64)


def ended(kernels, run, records=1):
    """Return the fields of a run at the end of its superstep, the frontiers, and the records."""
    run, past = kernels("ends", 1, run, np.full(PAST_FIELDS * records, -1))
    fields = dict(zip(RUN_FIELDS, run.tolist(), strict=False))
    return fields, run[len(RUN_FIELDS) :].reshape(GROUPS, 2).tolist(), past.reshape(records, PAST_FIELDS).tolist()


def test_the_end_of_a_superstep_records_and_clears_its_own_frontiers(kernels):
    run = state(((30, 5), (70, 6)), superstep=4, first=3, active=11, moved=9, edges=20, dense=1, sides=2, always=3,
                always_odd=1000, rebuild_edges=900)  # fmt: skip
    fields, frontier, past = ended(kernels, run, 3)
    assert past == [[-1] * 5, [11, 23, 1, 70, 900], [-1] * 5]
    assert frontier == [[0, 5], [0, 6]]
    assert [fields[name] for name in ("superstep", "active", "moved", "edges", "dense")] == [5, 9, 0, 0, 0]
    fields, frontier, past = ended(kernels, state(((30, 5), (70, 6)), superstep=5, first=5, sides=2, always_odd=1000))
    assert past == [[0, 1000, 0, 6, 0]]
    assert frontier == [[30, 0], [70, 0]]


@pytest.mark.parametrize(
    ("given", "confirming", "rebuilding", "settled"),
    [
        ({"moved": 1}, 0, 0, 0),
        ({"moved": 1, "rebuild": 4}, 0, 0, 0),
        ({"moved": 1, "rebuild": 3}, 0, 1, 0),  # the next superstep has number 6
        ({}, 0, 0, 0),  # the program has a fixed number of supersteps
        ({"settles": 1}, 1, 1, 1),  # sums are never rebuilt
        ({"settles": 1, "rebuild": 50}, 1, 1, 0),  # the next superstep confirms it
        ({"settles": 1, "rebuild": 50, "rebuilding": 1}, 1, 1, 1),
        ({"settles": 1, "rebuild": 50, "rebuilding": 1, "moved": 2}, 0, 0, 0),
        ({"moved": 1, "within": 1}, 0, 0, 1),
        ({"moved": 1, "rebuild_edges": 4}, 0, 0, 0),
        ({"moved": 1, "rebuild_edges": 3}, 0, 1, 0),  # as many as leave the sources of the second group
        ({"moved": 1, "rebuild_edges": 6, "superstep": 6}, 0, 1, 0),  # the next superstep has the odd frontiers
        ({"settles": 1, "sides": 8}, 0, 1, 0),  # not all sides have had a superstep
        ({"moved": 1, "sides": 3, "rebuild": 2}, 0, 1, 0),  # turn 2 begins
        ({"moved": 1, "sides": 2, "rebuild": 2}, 0, 0, 0),  # turn 3
    ],
)
def test_the_end_of_a_superstep_decides_about_the_next(kernels, given, confirming, rebuilding, settled):
    fields, _, _ = ended(
        kernels, state(((2, 5), (3, 6)), **{"superstep": 5, "first": given.get("superstep", 5), **given})
    )
    assert (fields["confirming"], fields["rebuilding"], fields["settled"]) == (confirming, rebuilding, settled)
    assert fields["within"] == 0


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({"dense_edges": 9}, [0, 1, 0]),
        ({"dense_edges": 10, "superstep": 4}, [0, 1, 1]),
        ({"dense_edges": 10, "superstep": 5}, [0, 0, 1]),
        ({"settled": 1, "dense_edges": 99}, [1, 1, 1]),
        ({"limit": 5, "superstep": 4, "dense_edges": 99}, [0, 1, 1]),
        ({"limit": 5, "superstep": 5, "dense_edges": 99}, [1, 1, 1]),
    ],
)
def test_a_run_is_over_or_has_a_sparse_frontier(kernels, given, answers):
    _, found = kernels("questions", 1, state(((9, 11), (10, 7)), **given), np.zeros(3, np.int32))
    assert found.tolist() == answers


@pytest.mark.parametrize("width", [1, 3, 33, 65, BLOCK - 1, BLOCK, BLOCK + 1, 300])
@pytest.mark.parametrize(("first", "last", "step"), [(0, 1, 1), (2, 2, 1), (1, 131, 1), (3, 259, 4)])
def test_columns_are_summed_once_over_the_rows_of_a_range(kernels, width, first, last, step):
    values = np.random.default_rng(width).integers(-9, 9, (last, width)).astype(np.float32)
    rows = values[first:last:step]
    places = (np.zeros((2, width), np.float32), np.zeros(width + 1, np.int32))
    _, found, visits = kernels("columns", 1, values, *map(np.int64, (first, last, step)), np.int32(width), *places)
    assert np.array_equal(found, [rows.sum(0), np.full(width, len(rows))])
    assert visits.tolist() == [1] * width + [rows.size]


def moved_by(norm, before, now, tolerance):
    """Return the two sums of a measurement for every column."""
    with np.errstate(invalid="ignore"):
        distance = np.where(before == now, 0, np.abs(now - before))
        if norm == "SUM":
            return np.stack([distance.sum(0), np.abs(now).sum(0)])
        near = distance <= (tolerance * np.abs(now) if norm == "RELATIVE" else tolerance)
    return np.stack([(~near).sum(0), np.zeros(now.shape[1])])


@pytest.mark.parametrize("norm", ["SUM", "ABSOLUTE", "RELATIVE"])
@pytest.mark.parametrize(("vertices", "width", "stride"), [(1, 1, 1), (2 * ROWS + 1, 3, 4), (3 * ROWS, 130, 130)])
def test_movement_is_measured_in_each_column(kernels, norm, vertices, width, stride):
    rng = np.random.default_rng(vertices)
    before = rng.integers(1, 20, (vertices, stride)).astype(np.float32)
    now = before + rng.choice([0, 0, 0.5, -1.0, 4.0], before.shape).astype(np.float32)
    before[0, 0] = now[0, 0] = np.inf if norm != "SUM" else 1
    blocks = -(-vertices // ROWS)
    found = np.full((blocks + 1, 2, width), -1, np.float32)
    tolerance = np.float32(0.5)
    *_, found = kernels(
        f"movement_{norm}", blocks + 1, before, now, np.uint32(vertices), np.int32(stride), np.int32(width), tolerance,
        found,
    )  # fmt: skip
    assert np.array_equal(found[:blocks].sum(0), moved_by(norm, before[:, :width], now[:, :width], tolerance))
    assert (found[blocks] == -1).all()  # a block too many measures nothing


@pytest.mark.parametrize(
    ("norm", "first", "last", "within"),
    [
        ("SUM", (1, 10), (0, 0), True), ("SUM", (1.25, 10), (0, 0), False), ("SUM", (0.5, 2), (0.25, 4), False),
        ("SUM", (0.5, 2), (0.25, 5.5), True), ("SUM", (np.nan, 1), (0, 0), False), ("SUM", (0, 0), (0, 0), True),
        ("ABSOLUTE", (0, 0), (0, 0), True), ("ABSOLUTE", (0, 0), (1, 0), False), ("ABSOLUTE", (1, 9), (0, 0), False),
        ("RELATIVE", (0, 0), (0, 0), True), ("RELATIVE", (0, 0), (1, 0), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("width", "column"), [(1, 0), (3, 2), (130, 129)])
def test_all_columns_have_to_be_within_the_tolerance(kernels, norm, first, last, within, width, column):
    """``first`` and ``last``: the results of the first block and of the last one in a column."""
    found = np.zeros((BLOCKS, 2, width), np.float32)
    found[0, :, column], found[BLOCKS - 1, :, column] = first, last
    _, answers = kernels(f"within_{norm}", 1, found, np.int32(width), np.float32(0.1), np.zeros(2 * BLOCK, np.int32))
    assert answers.tolist() == [int(within)] * (2 * BLOCK)

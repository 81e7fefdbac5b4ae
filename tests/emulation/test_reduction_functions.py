"""Reductions over the lane groups of warps, blocks and the grid, and the bounds of pulls of extrema, emulated."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from tests.emulation.kernels import EMULATED, Kernels, headers, heading
from tests.emulation.test_edge_functions import within

pytestmark = EMULATED

BLOCK, LENGTH, WIDE = 128, 5, 131  # threads; features, and more than threads
LESS = {"Min": np.less, "Max": np.greater}
WORST = {"Min": np.inf, "Max": -np.inf}
REDUCED = f"""
constexpr int N = {LENGTH}, WIDE = {WIDE};
extern "C" __global__ void combined(const float* values, float* of_warp, float* of_block)
{{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    for (int turn = 0; turn < 2; ++turn) {{
        of_warp[i] = groups_combined_in_warp<Add>(values[i]);
        of_block[i] = groups_combined_in_block<Max>(values[i]);
    }}
}}
extern "C" __global__ void shares(Id first, Id last, int* visits)
{{
    const LaneGroup group;
    Id v = share_of_group(group, first, last) + blockIdx.x * LANE_GROUPS_OF_BLOCK;
    for (; v < last; v += groups_of_grid())
        if (group.leads()) atomicAdd(visits + v, 1);
}}
extern "C" __global__ void across_warps(const float* values, float* sums)
{{
    const LaneGroup group;
    Row<N> row = filled<N>(0.0f);
    if (!group.idle()) row = load<N, N>(group, values + (threadIdx.x / 32 * LANE_GROUPS + group.number) * N);
    for (int turn = 0; turn < 2; ++turn) {{
        const Row<N> sum = across_block<2, Add>(group, row);
        if (threadIdx.x < LANES) store<N, N>(group, sums, sum);
    }}
}}
extern "C" __global__ void positions(const unsigned* masks, int index, int* found)
{{
    found[threadIdx.x] = position_of_bit(masks[threadIdx.x], index);
}}
extern "C" __global__ void chunk_sizes(const Id* counts, Id* found)
{{
    found[threadIdx.x] = size_of_chunk<3>(counts[threadIdx.x]);
}}
"""
BOUNDS = """
extern "C" __global__ void bounds_{operation}(
    const float* values, const float* messages, const float* mine, bool known, float* bounds, bool* answers,
    float* goal)
{{
    __shared__ float shared[N];
    const LaneGroup group;
    Row<N> row = filled<N>(0.0f);
    if (!group.idle()) row = load<N, N>(group, mine);
    share_bounds<{operation}>(group, shared, row, known);
    for (int f = threadIdx.x; f < N; f += BLOCK) bounds[f] = shared[f];
    const Improvable<{operation}, N, N> improvable{{values, shared}};
    if (group.idle()) return;
    const int v = threadIdx.x / 32 * LANE_GROUPS + group.number;
    const Row<N> goal_of_row = goals<{operation}, N, N>(group, values + v * N, shared);
    store<N, N>(group, goal + v * N, goal_of_row);
    Row<N> message = load<N, N>(group, messages + v * N);
    FEATURES(slot, N) if (!group.holds(slot, N)) message[slot] = Bound<{operation}>::unknown();
    const bool found[] = {{
        improvable(v), reached<{operation}>(group, message, goal_of_row),
        improves<{operation}, N, N>(group, message, values + v * N)}};
    if (group.member == LANES - 1) for (int i = 0; i < 3; ++i) answers[3 * v + i] = found[i];
}}
extern "C" __global__ void scalars_{operation}(const float* a, const float* b, bool* answers, float* improved)
{{
    const LaneGroup group;
    const int i = threadIdx.x;
    answers[3 * i] = reached<{operation}>(group, a[i], b[i]);
    answers[3 * i + 1] = improves<{operation}, 1, 1>(group, a[i], b + i);
    improved[i] = 1.0f;
    improve<{operation}>(improved[i], a[i], b[i]);
    __shared__ float bound;
    share_bounds<{operation}>(group, &bound, a[i], blockIdx.x == 0);
    answers[3 * i + 2] = bound == a[0];
}}
extern "C" __global__ void best_{operation}(
    const float* values, bool moves, long long superstep, float* best, float* row, float* wide)
{{
    const LaneGroup group;
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    note_best<{operation}, 1>(group, best, superstep, values[i], moves && threadIdx.x == BLOCK - 1);
    clear_best<{operation}, 1>(best, superstep);
    Row<N> mine = filled<N>(values[i]);
    note_best<{operation}, N>(group, row, superstep, mine, moves && i == 1);
    clear_best<{operation}, N>(row, superstep);
    clear_best<{operation}, WIDE>(wide, superstep);
}}
"""


@pytest.fixture(scope="module", params=[4, 5])
def kernels(request):
    bounds = [BOUNDS.format(operation=operation) for operation in LESS]
    head = heading("matrices.cuh", "gather.cuh", lanes=request.param, block=BLOCK)
    made = Kernels("\n".join([head, REDUCED, *bounds]), headers(FOLDER), BLOCK)
    made.lanes, made.lane_groups = request.param, 32 // request.param
    return made


def test_values_are_combined_over_the_groups_of_warps_and_blocks(kernels):
    lanes, lane_groups = kernels.lanes, kernels.lane_groups
    values = np.random.default_rng(1).integers(-99, 99, 2 * BLOCK).astype(np.float32)
    _, of_warp, of_block = kernels("combined", 2, values, np.zeros_like(values), np.zeros_like(values))
    warps = values.reshape(-1, 32)[:, : lanes * lane_groups].reshape(-1, lane_groups, lanes)
    columns = np.arange(32) % lanes
    assert np.array_equal(of_warp.reshape(-1, 32), warps.sum(1)[:, columns])
    blocks = warps.reshape(2, -1, lanes).max(1)
    assert np.array_equal(of_block.reshape(2, -1, 32), np.broadcast_to(blocks[:, None, columns], (2, BLOCK // 32, 32)))
    rows = np.random.default_rng(2).integers(-9, 9, (BLOCK // 32, lane_groups, LENGTH)).astype(np.float32)
    _, sums = kernels("across_warps", 1, rows, np.zeros(LENGTH, np.float32))
    assert np.array_equal(sums, rows[:, :2].sum((0, 1)))


@pytest.mark.parametrize("blocks", [1, 3])
def test_groups_of_the_grid_share_a_range(kernels, blocks):
    for first, last in ((0, 300), (7, 8), (5, 5)):
        (visits,) = kernels("shares", blocks, np.uint32(first), np.uint32(last), np.zeros(300, np.int32))
        assert np.array_equal(visits, within(first, last, 300))


def test_positions_of_bits_and_sizes_of_chunks(kernels):
    masks = np.random.default_rng(3).integers(0, 1 << 32, BLOCK, np.uint32)
    masks[:3] = 0, 1 << 31, 0xFFFFFFFF
    for index in (0, 1, 5, 31):
        _, found = kernels("positions", 1, masks, np.int32(index), np.zeros(BLOCK, np.int32))
        places = [[bit for bit in range(32) if int(mask) >> bit & 1] for mask in masks]
        assert found.tolist() == [place[index] if index < len(place) else 32 for place in places]
    counts = np.arange(BLOCK, dtype=np.uint32) * 4
    for blocks in (1, 3):
        *_, found = kernels("chunk_sizes", blocks, counts, np.zeros(BLOCK, np.uint32))
        warps = blocks * BLOCK // 32
        fitting = [next((size for size in (3, 6, 12, 24) if size * warps >= count), 32) for count in counts]
        assert found.tolist() == fitting


@pytest.mark.parametrize("operation", LESS)
@pytest.mark.parametrize("known", [True, False])
def test_vertices_that_have_reached_their_bounds_are_not_improvable(kernels, operation, known):
    rng, count = np.random.default_rng(4), BLOCK // 32 * kernels.lane_groups
    values, messages = rng.integers(-2, 3, (2, count, LENGTH)).astype(np.float32)
    sign = 1 if operation == "Min" else -1
    bound = np.array([0, 1, -1, -sign * np.inf, 0], np.float32)
    values[0] = np.where(np.isinf(bound), -1, bound)
    values[1] = bound
    messages[2] = values[2] + sign
    messages[3] = values[3]
    messages[4] = values[4] + sign
    messages[4, LENGTH - 1] = values[4, LENGTH - 1] - sign
    messages[5] = bound
    messages[6] = -sign * np.inf
    space = (np.zeros(LENGTH, np.float32), np.zeros((count, 3), np.bool_), np.zeros_like(values))
    *_, bounds, answers, goal = kernels(f"bounds_{operation}", 1, values, messages, bound, np.bool_(known), *space)
    unknown = -sign * np.inf
    wanted = bound if known else np.full(LENGTH, unknown, np.float32)
    assert np.array_equal(bounds, wanted)
    as_good = LESS[operation](values, wanted) | (values == wanted)
    reached = as_good & (wanted != unknown)
    assert np.array_equal(goal, np.where(reached, WORST[operation], np.broadcast_to(wanted, goal.shape)))
    ends = (LESS[operation](messages, goal) | (messages == goal)) & (goal != unknown)
    improving = ~(LESS[operation](values, messages) | (values == messages))
    assert np.array_equal(answers, np.stack([~reached.all(1), ends.all(1), improving.any(1)], 1))


@pytest.mark.parametrize("operation", LESS)
def test_bounds_of_single_values(kernels, operation):
    inf, sign = np.inf, 1 if operation == "Min" else -1
    pairs = np.array([*np.random.default_rng(5).integers(-2, 3, (BLOCK - 6, 2)), (sign * 5, -sign * 5), (inf, -inf),
                      (-inf, -inf), (inf, inf), (1, np.nan), (np.nan, 1)], np.float32)  # fmt: skip
    a, b = pairs.T.copy()
    space = (np.zeros((BLOCK, 3), np.bool_), np.zeros(BLOCK, np.float32))
    *_, answers, improved = kernels(f"scalars_{operation}", 1, a, b, *space)
    less = LESS[operation]
    assert np.array_equal(answers[:, 0], (less(a, b) | (a == b)) & (b != -sign * inf))
    assert np.array_equal(answers[:, 1], ~(less(b, a) | (a == b)))
    assert answers[:, 2].all()
    best = np.where(less(b, 1), b, 1)
    best = np.where(np.isnan(b), -sign * inf, np.where(a == b, 1, best))
    assert np.array_equal(improved, best)


@pytest.mark.parametrize("operation", LESS)
@pytest.mark.parametrize("superstep", [0, 1, 2, 4])
def test_the_best_of_what_moved_is_kept_for_the_next_superstep(kernels, operation, superstep):
    lanes, lane_groups, sign = kernels.lanes, kernels.lane_groups, 1 if operation == "Min" else -1
    values = sign * np.random.default_rng(6).integers(1, 1 << 20, 2 * BLOCK).astype(np.float32)
    groups = values.reshape(2, BLOCK // 32, 32)[:, :, : lanes * lane_groups].reshape(2, -1, lanes)
    best = groups.min((0, 1)) if operation == "Min" else groups.max((0, 1))
    kept = np.array([7, 8, 9], np.float32) * sign * (1 << 21)
    for moves in (True, False):
        given = (np.bool_(moves), np.int64(superstep), kept, np.repeat(kept, LENGTH), np.repeat(kept, WIDE))
        _, one, rows, wide = kernels(f"best_{operation}", 2, values, *given)
        wanted = kept.copy()
        wanted[(superstep + 2) % 3] = WORST[operation]
        of_first = groups[0].min(0) if operation == "Min" else groups[0].max(0)
        wanted_rows = np.repeat(wanted, LENGTH).reshape(3, LENGTH)
        assert np.array_equal(wide, np.repeat(wanted, WIDE))
        if moves:
            wanted[(superstep + 1) % 3] = best[0]
            wanted_rows[(superstep + 1) % 3] = of_first[np.arange(LENGTH) % lanes]
        assert np.array_equal(one, wanted)
        assert np.array_equal(rows.reshape(3, LENGTH), wanted_rows)

"""Rows and matrices of lane groups of all shapes, emulated and compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulation.kernels import EMULATED, Kernels, headers_of_lane_groups, heading

pytestmark = EMULATED

BLOCK, ROWS = 64, 11
SHAPES = [(1, 1), (5, 1), (32, 4)]  # lanes, width; (4, 2) is in test_lane_groups.py
LENGTHS = {3: 4, 33: 36, 65: 65}  # strides by numbers of features
SIZES = {5: 8, 9: 11}  # matrices have n + 2 rows of n; the strides of their rows
TURNS = """
    const LaneGroup group;
    const int first = (blockIdx.x * BLOCK + threadIdx.x) / 32 * LANE_GROUPS + group.number;
    if (group.idle()) return;
    for (int v = first; v < {rows}; v += gridDim.x * (BLOCK / 32) * LANE_GROUPS)
"""
KERNEL = """
extern "C" __global__ void rows_{n}(const float* source, float* copied, float* picked, float* found)
{{{turns}    {{
        const Row<{n}> row = load<{n}, {stride}>(group, source + v * {stride});
        for (int i = 0; i < {n}; ++i) {{
            const float value = pick(group, row, i);
            if ((i + v) % LANES == group.member) picked[v * {stride} + i] = value;
        }}
        const float values[] = {{total(group, row), smallest(group, row), largest(group, row), dot(group, row, row)}};
        if (v % LANES == group.member) for (int i = 0; i < 4; ++i) found[4 * v + i] = values[i];
        Row<{n}> changed = row;
        place(group, changed, v % {n}, 7.0f);
        store<{n}, {stride}>(group, copied + v * {stride}, changed);
    }}
}}
extern "C" __global__ void questions_{n}(const float* source, const bool* marks, bool* copied, bool* found)
{{{turns}    {{
        const Row<{n}> row = load<{n}, {stride}>(group, source + v * {stride});
        const Row<{n}, bool> mark = load<{n}, {stride}>(group, marks + v * {stride});
        store<{n}, {stride}>(group, copied + v * {stride}, mark);
        Row<{n}, bool> other;  // beyond its length as well
        FEATURES(slot, {n}) other[slot] = !mark[slot];
        const bool values[] = {{
            any_feature(group, mark), all_features(group, mark), any_feature(group, other), all_features(group, other),
            any(group, some(group, row)), any(group, group.member == v % LANES),
            any(group, some(group, v % 3 ? 0.0f : 2.0f))}};
        if (v % LANES == group.member) for (int i = 0; i < 7; ++i) found[7 * v + i] = values[i];
    }}
}}
extern "C" __global__ void norms_{n}(const float* source, float* one, float* two, float* soft)
{{{turns}    {{
        const Row<{n}> row = load<{n}, {stride}>(group, source + v * {stride});
        store<{n}, {stride}>(group, one + v * {stride}, normalized_l1(group, row));
        store<{n}, {stride}>(group, two + v * {stride}, normalized_l2(group, row));
        store<{n}, {stride}>(group, soft + v * {stride}, normalized_softmax(group, row));
    }}
}}
extern "C" __global__ void reduced_{n}(const float* source, float* sums, float* least, float* most, float* scalar)
{{{turns}    {{
        const Row<{n}> row = load<{n}, {stride}>(group, source + v * {stride});
        const int to = v % 2;
        reduce_into<Add, {stride}>(group, sums + to * {stride}, row);
        reduce_into<Min, {stride}>(group, least + to * {stride}, row);
        reduce_into<Max, {stride}>(group, most + to * {stride}, row);
        reduce_into<Add>(group, scalar, float(v));
        reduce_into<Min>(group, scalar + 1, float(v));
        reduce_into<Max>(group, scalar + 2, -float(v));
    }}
}}
"""
PRODUCTS = """
extern "C" __global__ void chunks(int* sizes)
{
    sizes[0] = sizeof(Chunk), sizes[1] = alignof(Chunk);
}
template <int M, int N, int STRIDE, class A, class B, class C>
__device__ inline void products(
    const LaneGroup& group, const A& a, const B& b, C& c, const float* x, float* rows, float* found)
{
    const Row<M> left = load<M, STRIDE>(group, x);
    const Row<N> right = load<N, STRIDE>(group, x);
    store<N, STRIDE>(group, rows, times(group, left, a));
    store<N, STRIDE>(group, rows + STRIDE, max_times(group, left, a));
    store<M, STRIDE>(group, rows + 2 * STRIDE, times(group, a, right));
    multiply(group, a, b, c);
    for (int i = 0; i < M; ++i) store<M, STRIDE>(group, rows + (3 + i) * STRIDE, c.whole(group, i));
    const float values[] = {total_of(group, a), reduced_of<Min>(group, a), reduced_of<Max>(group, a)};
    if (group.member == LANES - 1) for (int i = 0; i < 3; ++i) found[i] = values[i];
}
template <int HEIGHT, int N, int STRIDE, class Any>
__device__ inline void fill(const LaneGroup& group, Any& matrix, const float* source)
{
    for (int i = 0; i < HEIGHT; ++i) {
        const Row<N> row = load<N, STRIDE>(group, source + i * STRIDE);
        FEATURES(slot, N) if (group.holds(slot, N)) matrix(group, i, slot) = row[slot];
    }
    group.sync();
}
"""
MATRICES = """
extern "C" __global__ void products_{n}(const float* a, const float* b, const float* x, float* rows, float* found)
{{
    constexpr int M = {n} + 2, N = {n}, STRIDE = {stride}, SIZE = M * STRIDE, RESULTS = (3 + M) * STRIDE;
    extern __shared__ float room[];
    float* const own = room + 3 * (threadIdx.x / 32 * LANE_GROUPS + threadIdx.x % 32 / LANES) * SIZE;{turns}    {{
        float* const into = rows + v * 3 * RESULTS;
        Matrix<M, N> one;
        Matrix<N, M> other;
        Matrix<M, M> result;
        fill<M, N, STRIDE>(group, one, a + v * SIZE);
        fill<N, M, STRIDE>(group, other, b + v * SIZE);
        products<M, N, STRIDE>(group, one, other, result, x + v * STRIDE, into, found + v * 9);
        Tile<M, N, STRIDE> left{{own}};
        Tile<N, M, STRIDE> right{{own + SIZE}};
        Tile<M, M, STRIDE> product{{own + 2 * SIZE}};
        fill<M, N, STRIDE>(group, left, a + v * SIZE);
        fill<N, M, STRIDE>(group, right, b + v * SIZE);
        products<M, N, STRIDE>(group, left, right, product, x + v * STRIDE, into + RESULTS, found + v * 9 + 3);
        const Tile<M, N, STRIDE, const float> stored{{a + v * SIZE}};
        transpose(group, stored, right);  // a times its own transpose
        products<M, N, STRIDE>(group, stored, right, product, x + v * STRIDE, into + 2 * RESULTS, found + v * 9 + 6);
        group.sync();
    }}
}}
extern "C" __global__ void solved_{n}(const float* spd, const float* any, const float* b, float* x, float* inverses)
{{
    constexpr int N = {n}, STRIDE = {stride}, SIZE = N * STRIDE;
    extern __shared__ float room[];
    Tile<N, N, STRIDE> tile{{room + (threadIdx.x / 32 * LANE_GROUPS + threadIdx.x % 32 / LANES) * SIZE}};{turns}    {{
        const Row<N> right = load<N, STRIDE>(group, b + v * STRIDE);
        Matrix<N, N> matrix;
        fill<N, N, STRIDE>(group, matrix, spd + v * SIZE);
        store<N, STRIDE>(group, x + 2 * v * STRIDE, solve_spd(group, matrix, right));
        fill<N, N, STRIDE>(group, tile, spd + v * SIZE);
        store<N, STRIDE>(group, x + (2 * v + 1) * STRIDE, solve_spd(group, tile, right));
        fill<N, N, STRIDE>(group, tile, any + v * SIZE);
        invert(group, tile);
        reduce_into<Add, STRIDE>(group, inverses + v * SIZE, tile, 0);
        group.sync();
    }}
}}
"""


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def kernels(request):
    lanes, width = request.param
    turns = TURNS.format(rows=ROWS)
    rows = [KERNEL.format(n=n, stride=stride, turns=turns) for n, stride in LENGTHS.items()]
    matrices = [MATRICES.format(n=n, stride=stride, turns=turns) for n, stride in SIZES.items()]
    head = heading("matrices.cuh", lanes=lanes, width=width, block=BLOCK)
    made = Kernels("\n".join([head, *rows, PRODUCTS, *matrices]), headers_of_lane_groups(), BLOCK)
    made.width = width
    return made


def drawn(n, stride, kind=np.float32, rows=ROWS):
    """Return rows of small integers, which sum exactly, and space for as many."""
    source = np.random.default_rng(n).integers(-5, 6, (rows, stride)).astype(kind)
    return source, np.zeros_like(source)


@pytest.mark.short_run(rows=1, always="32x4")
def test_a_chunk_is_aligned_so_that_one_load_reads_it(kernels):
    (sizes,) = kernels("chunks", 1, np.zeros(2, np.int32))
    assert sizes.tolist() == [4 * kernels.width] * 2


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_are_loaded_reduced_changed_and_stored(kernels, n):
    source, space = drawn(n, LENGTHS[n])
    _, copied, picked, found = kernels(f"rows_{n}", 2, source, space, space, np.zeros((ROWS, 4), np.float32))
    rows = source[:, :n]
    assert np.array_equal(picked[:, :n], rows)
    assert np.array_equal(found, np.stack([rows.sum(1), rows.min(1), rows.max(1), (rows * rows).sum(1)], 1))
    wanted = rows.copy()
    wanted[np.arange(ROWS), np.arange(ROWS) % n] = 7
    assert np.array_equal(copied[:, :n], wanted)


@pytest.mark.parametrize("n", LENGTHS)
def test_flags_of_rows_are_combined(kernels, n):
    source, _ = drawn(n, LENGTHS[n])
    source[::2] = 0
    source[4, n - 1] = 1
    marks = np.ones(source.shape, np.bool_)
    marks[1, :n] = marks[2, n - 1] = marks[3, 1 : n - 1] = False
    marks[5, :n] = np.arange(n) == n - 1
    marks[6] = False
    _, _, copied, found = kernels(f"questions_{n}", 2, source, marks, ~marks, np.zeros((ROWS, 7), np.bool_))
    rows = marks[:, :n]
    assert np.array_equal(copied[:, :n], rows)
    third = np.arange(ROWS) % 3 == 0
    answers = [one for marked in (rows, ~rows) for one in (marked.any(1), marked.all(1))]
    answers += [(source[:, :n] != 0).any(1), np.ones(ROWS, np.bool_), third]
    assert np.array_equal(found, np.stack(answers, 1))


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_are_normalized(kernels, n):
    source, space = drawn(n, LENGTHS[n])
    source[3] = 0
    source[4] *= 2.0**-60  # its squares are barely normal numbers
    _, *found = kernels(f"norms_{n}", 2, source, space, space, space)
    rows = source[:, :n].astype(np.float64)
    sizes = [np.abs(rows).sum(1), np.sqrt((rows * rows).sum(1))]
    powers = np.exp(rows - rows.max(1, keepdims=True))
    wanted = [*(rows / np.where(size == 0, 1, size)[:, None] for size in sizes), powers / powers.sum(1, keepdims=True)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one[:, :n], other, rtol=1e-5)


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_of_many_groups_are_reduced_into_the_same_two(kernels, n):
    source, _ = drawn(n, LENGTHS[n])
    start = [np.full((2, LENGTHS[n]), value, np.float32) for value in (1, np.inf, -np.inf)]
    _, *found, scalar = kernels(f"reduced_{n}", 2, source, *start, np.array([1, np.inf, -np.inf], np.float32))
    for one, reduce, extra in zip(found, (np.sum, np.min, np.max), (1, 0, 0), strict=True):
        assert np.array_equal(one[:, :n], np.stack([reduce(source[to::2, :n], 0) + extra for to in range(2)]))
    assert scalar.tolist() == [1 + sum(range(ROWS)), 0, 0]


@pytest.mark.parametrize("n", SIZES)
def test_products_of_matrices_in_registers_in_shared_memory_and_in_properties(kernels, n):
    m, stride = n + 2, SIZES[n]
    (a, _), (b, _), (x, _) = (
        drawn(seed, stride, rows=rows) for seed, rows in ((n, ROWS * m), (7, ROWS * m), (8, ROWS))
    )
    a, b = a.reshape(ROWS, m, stride), b.reshape(ROWS, m, stride)
    space = np.zeros((ROWS, 3, 3 + m, stride), np.float32)
    shared = 3 * m * stride * 4 * BLOCK
    *_, rows, found = kernels(f"products_{n}", 2, a, b, x, space, np.zeros((ROWS, 3, 3), np.float32), shared=shared)
    a, b, left, right = a[:, :, :n], b[:, :n, :m], x[:, :m], x[:, :n]
    products = [a @ b, a @ b, a @ a.transpose(0, 2, 1)]
    for kind in range(3):
        assert np.array_equal(rows[:, kind, 0, :n], np.einsum("vm,vmn->vn", left, a))
        assert np.array_equal(rows[:, kind, 1, :n], (left[:, :, None] * a).max(1))
        assert np.array_equal(rows[:, kind, 2, :m], np.einsum("vmn,vn->vm", a, right))
        assert np.array_equal(rows[:, kind, 3:, :m], products[kind])
        assert np.array_equal(found[:, kind], np.stack([a.sum((1, 2)), a.min((1, 2)), a.max((1, 2))], 1))


@pytest.mark.parametrize("n", SIZES)
def test_systems_are_solved_and_matrices_inverted(kernels, n):
    stride = SIZES[n]
    any_matrix, _ = drawn(n, stride, rows=ROWS * n)
    any_matrix = any_matrix.reshape(ROWS, n, stride)
    square = any_matrix[:, :, :n]
    square[:, range(n), range(n)] = 0  # exchanges of rows are needed
    square += 10 * np.roll(np.eye(n, dtype=np.float32), 2, 1)
    square[2] = 1  # singular
    spd = np.zeros_like(any_matrix)
    spd[:, :, :n] = square @ square.transpose(0, 2, 1) + np.eye(n, dtype=np.float32)
    b, _ = drawn(9, stride)
    shared = n * stride * 4 * BLOCK
    space = (np.zeros((ROWS, 2, stride), np.float32), np.zeros((ROWS, n, stride), np.float32))
    *_, x, inverses = kernels(f"solved_{n}", 2, spd, any_matrix, b, *space, shared=shared)
    wanted = np.linalg.solve(spd[:, :, :n].astype(np.float64), b[:, :n, None].astype(np.float64))[:, None, :, 0]
    np.testing.assert_allclose(x[:, :, :n], np.repeat(wanted, 2, 1), rtol=2e-3, atol=1e-4)
    assert np.isnan(inverses[2, :, :n]).all()
    regular = np.arange(ROWS) != 2
    wanted = np.linalg.inv(square[regular].astype(np.float64))
    np.testing.assert_allclose(inverses[regular, :, :n], wanted, rtol=1e-3, atol=1e-5)

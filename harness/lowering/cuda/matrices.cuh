// Matrices of ROWS rows of N features: in registers (small ones), or in memory: the lane group's shared memory, or a
// property.
#pragma once

#include "lane_groups.cuh"

// Every lane holds its columns in registers; row indices must be compile-time constants.
template <int M, int N> struct Matrix {
    static constexpr int HEIGHT = M, LENGTH = N, UNROLLED = M;
    Row<N> row[M];
    __device__ float& operator()(const LaneGroup&, int i, int slot) { return row[i][slot]; }
    __device__ const float& operator()(const LaneGroup&, int i, int slot) const { return row[i][slot]; }
    __device__ float element(const LaneGroup& group, int i, int j) const { return pick(group, row[i], j); }
    __device__ const Row<N>& whole(const LaneGroup&, int i) const { return row[i]; }
    __device__ const Row<N>& part(const LaneGroup&, int i) const { return row[i]; }
};

template <class Float> struct Property {
    static constexpr bool value = false;
};
template <> struct Property<const float> {
    static constexpr bool value = true;
};

// Rows start at `start` with stride STRIDE, in floats: in shared memory, or as const float in a property. Lanes see the
// writes of others after lane group.sync().
template <int M, int N, int STRIDE, class Float = float> struct Tile {
    static constexpr int HEIGHT = M, LENGTH = N, UNROLLED = 4;  // the unrolling of loops over rows
    Float* start;
    __device__ Float& operator()(const LaneGroup& group, int i, int slot) const
    {
        return start[i * STRIDE + group.feature(slot)];
    }
    __device__ float element(const LaneGroup&, int i, int j) const { return start[i * STRIDE + j]; }
    __device__ Row<N> whole(const LaneGroup& group, int i) const
    {
        Row<N> row;
        FEATURES(slot, N) row[slot] = group.holds(slot, N) ? start[i * STRIDE + group.feature(slot)] : 0.0f;
        return row;
    }
    // The same by wide loads, undefined beyond its length. Only rows of properties are aligned for them.
    __device__ Row<N> part(const LaneGroup& group, int i) const
    {
        if constexpr (Property<Float>::value) return load<N, STRIDE, float>(group, start + i * STRIDE);
        else return whole(group, i);
    }
};

template <class Any> __device__ inline float total_of(const LaneGroup& group, const Any& matrix)
{
    float value = 0.0f;
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i) FEATURES(slot, Any::LENGTH)
        if (group.holds(slot, Any::LENGTH)) value += matrix(group, i, slot);
    return across(group, value, Add());
}
template <class Operation, class Any> __device__ inline float reduced_of(const LaneGroup& group, const Any& matrix)
{
    float value = Operation::identity();
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i) FEATURES(slot, Any::LENGTH)
        if (group.holds(slot, Any::LENGTH)) value = Operation()(value, matrix(group, i, slot));
    return across(group, value, Operation());
}

// The unrolling of the loop over the rows of a factor: complete if few registers hold it.
template <class Any> constexpr int unrolled = Any::HEIGHT * slots(Any::LENGTH) <= 64 ? Any::HEIGHT : Any::UNROLLED;

// x @ A: every lane sums its columns.
template <class Any>
__device__ inline Row<Any::LENGTH> times(const LaneGroup& group, const Row<Any::HEIGHT>& x, const Any& a)
{
    Row<Any::LENGTH> result = filled<Any::LENGTH>(0.0f);
    _Pragma("unroll unrolled<Any>") for (int i = 0; i < Any::HEIGHT; ++i) {
        const float factor = pick(group, x, i);
        const Row<Any::LENGTH> row = a.part(group, i);
        FEATURES(slot, Any::LENGTH) result[slot] += factor * row[slot];
    }
    return result;
}
// The maximum of the products in place of their sum.
template <class Any>
__device__ inline Row<Any::LENGTH> max_times(const LaneGroup& group, const Row<Any::HEIGHT>& x, const Any& a)
{
    Row<Any::LENGTH> result = filled<Any::LENGTH>(-INFINITE);
    _Pragma("unroll unrolled<Any>") for (int i = 0; i < Any::HEIGHT; ++i) {
        const float factor = pick(group, x, i);
        const Row<Any::LENGTH> row = a.part(group, i);
        FEATURES(slot, Any::LENGTH) result[slot] = maximum(result[slot], factor * row[slot]);
    }
    return result;
}
// A @ x: a reduction over the lane group for every row.
template <class Any>
__device__ inline Row<Any::HEIGHT> times(const LaneGroup& group, const Any& a, const Row<Any::LENGTH>& x)
{
    Row<Any::HEIGHT> result = filled<Any::HEIGHT>(0.0f);
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i)
        place(group, result, i, dot(group, a.whole(group, i), x));
    return result;
}
template <class Left, class Right, class Result>
__device__ inline void multiply(const LaneGroup& group, const Left& a, const Right& b, Result& result)
{
    constexpr int UNROLLED = Left::UNROLLED > Result::UNROLLED ? Left::UNROLLED : Result::UNROLLED;
    group.sync();
    _Pragma("unroll UNROLLED") for (int i = 0; i < Left::HEIGHT; ++i) {
        Row<Right::LENGTH> row = filled<Right::LENGTH>(0.0f);
        _Pragma("unroll Right::UNROLLED") for (int j = 0; j < Left::LENGTH; ++j) {
            const float factor = a.element(group, i, j);
            FEATURES(slot, Right::LENGTH)
                if (group.holds(slot, Right::LENGTH)) row[slot] += factor * b(group, j, slot);
        }
        FEATURES(slot, Right::LENGTH) if (group.holds(slot, Right::LENGTH)) result(group, i, slot) = row[slot];
    }
    group.sync();
}
template <class Any, class Result>
__device__ inline void transpose(const LaneGroup& group, const Any& a, Result& result)
{
    group.sync();
    LOOP(i, Any::LENGTH) FEATURES(slot, Any::HEIGHT)
        if (group.holds(slot, Any::HEIGHT)) result(group, i, slot) = a.element(group, group.feature(slot), i);
    group.sync();
}
template <class Reducer, int STRIDE, class Any>
__device__ inline void reduce_into(const LaneGroup& group, float* start, const Any& matrix, int)
{
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i)
        reduce_into<Reducer, STRIDE>(group, start + i * STRIDE, matrix.whole(group, i));
}

// Solve a @ x = b for symmetric positive definite a, which is overwritten: elimination without pivots. Step p subtracts
// row p times a[i][p] / a[p][p] from every row i below it. As a is symmetric, a[i][p] is a[p][i], which the pivot row
// holds.
template <int N> __device__ inline Row<N> solve_spd(const LaneGroup& group, Matrix<N, N>& a, Row<N> b)
{
    _Pragma("unroll") for (int p = 0; p < N; ++p) {
        const float inverse = 1.0f / pick(group, a.row[p], p);
        const float right = pick(group, b, p) * inverse;
        _Pragma("unroll") for (int i = p + 1; i < N; ++i) {
            const float factor = pick(group, a.row[p], i) * inverse;
            FEATURES(slot, N) a.row[i][slot] -= factor * a.row[p][slot];
        }
        FEATURES(slot, N) if (group.feature(slot) > p) b[slot] -= a.row[p][slot] * right;
    }
    Row<N> x = filled<N>(0.0f);
    _Pragma("unroll") for (int p = N - 1; p >= 0; --p) {
        Row<N> known;
        FEATURES(slot, N) known[slot] = group.feature(slot) > p ? a.row[p][slot] * x[slot] : 0.0f;
        const float solved = (pick(group, b, p) - total(group, known)) / pick(group, a.row[p], p);
        place(group, x, p, solved);
    }
    return x;
}
// Elimination in memory. Only the upper triangle is updated: step p changes columns i.. of rows i > p. One pivot at a
// time, because a single thread lacks registers for several rows.
template <int N, int STRIDE> __device__ inline void eliminate(const LaneGroup& group, Tile<N, N, STRIDE>& a, Row<N>& b)
{
    LOOP(p, N) {
        const float inverse = 1.0f / a.element(group, p, p);
        const float right = pick(group, b, p) * inverse;
        const Row<N> pivot = a.whole(group, p);
        LOOP(below, N - 1 - p) {
            const int i = p + 1 + below;
            const float factor = a.element(group, p, i) * inverse;
            FEATURES(slot, N)
                if (group.feature(slot) >= i && group.holds(slot, N)) a(group, i, slot) -= factor * pivot[slot];
        }
        FEATURES(slot, N) if (group.feature(slot) > p) b[slot] -= pivot[slot] * right;
        group.sync();
    }
}
// The same by a lane group: several pivot rows are prepared in registers, and then subtracted together from each row
// below them, which is loaded and stored once.
template <int N, int STRIDE>
__device__ inline void eliminate_several(const LaneGroup& group, Tile<N, N, STRIDE>& a, Row<N>& b)
{
    constexpr int PIVOTS = 4;
    for (int first = 0; first < N; first += PIVOTS) {
        Row<N> pivot[PIVOTS];
        float inverse[PIVOTS];
        _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) {
            const int p = first + q;
            if (p >= N) break;
            pivot[q] = a.whole(group, p);
            _Pragma("unroll") for (int r = 0; r < q; ++r) {
                const float factor = a.element(group, first + r, p) * inverse[r];
                FEATURES(slot, N) pivot[q][slot] -= factor * pivot[r][slot];
            }
            FEATURES(slot, N) if (group.feature(slot) >= p && group.holds(slot, N)) a(group, p, slot) = pivot[q][slot];
            group.sync();
            inverse[q] = 1.0f / a.element(group, p, p);
            const float right = pick(group, b, p) * inverse[q];
            FEATURES(slot, N) if (group.feature(slot) > p) b[slot] -= pivot[q][slot] * right;
        }
        _Pragma("unroll 2") for (int i = first + PIVOTS; i < N; ++i) {
            float factor[PIVOTS];
            _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) factor[q] = a.element(group, first + q, i) * inverse[q];
            FEATURES(slot, N) if (group.feature(slot) >= i && group.holds(slot, N)) {
                float left = a(group, i, slot);
                _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) left -= factor[q] * pivot[q][slot];
                a(group, i, slot) = left;
            }
        }
        group.sync();
    }
}
// Solve with the matrix in memory.
template <int N, int STRIDE> __device__ inline Row<N> solve_spd(const LaneGroup& group, Tile<N, N, STRIDE>& a, Row<N> b)
{
    group.sync();
    if constexpr (LANES > 1) eliminate_several(group, a, b);
    else eliminate(group, a, b);
    Row<N> x = filled<N>(0.0f);
    LOOP(back, N) {
        const int p = N - 1 - back;
        Row<N> known = a.whole(group, p);
        FEATURES(slot, N) known[slot] = group.feature(slot) > p ? known[slot] * x[slot] : 0.0f;
        place(group, x, p, (pick(group, b, p) - total(group, known)) / a.element(group, p, p));
    }
    group.sync();
    return x;
}

// Gauss-Jordan with the largest pivot of each column, in place; NaN where the matrix is singular.
template <int N, int STRIDE> __device__ inline void invert(const LaneGroup& group, Tile<N, N, STRIDE>& a)
{
    int swapped[N];
    group.sync();
    bool singular = false;
    LOOP(p, N) {
        int best = p;
        LOOP(below, N - 1 - p)
            if (fabsf(a.element(group, p + 1 + below, p)) > fabsf(a.element(group, best, p))) best = p + 1 + below;
        swapped[p] = best;
        const float pivot = a.element(group, best, p);
        singular = singular || pivot == 0.0f;
        group.sync();
        const Row<N> upper = a.whole(group, best), lower = a.whole(group, p);
        const float inverse = 1.0f / pivot;
        FEATURES(slot, N) if (group.holds(slot, N)) {
            if (best != p) a(group, best, slot) = lower[slot];
            a(group, p, slot) = (group.feature(slot) == p ? 1.0f : upper[slot]) * inverse;
        }
        group.sync();
        const Row<N> row = a.whole(group, p);
        LOOP(i, N) {
            const float factor = a.element(group, i, p);
            group.sync();
            if (i != p) FEATURES(slot, N) if (group.holds(slot, N))
                a(group, i, slot) = (group.feature(slot) == p ? 0.0f : a(group, i, slot)) - factor * row[slot];
        }
        group.sync();
    }
    LOOP(back, N) {  // undo the exchanges of rows as exchanges of columns, each row by one lane
        const int p = N - 1 - back, q = swapped[p];
        if (q != p) for (int i = group.member; i < N; i += LANES) {
            const float kept = a.start[i * STRIDE + p];
            a.start[i * STRIDE + p] = a.start[i * STRIDE + q];
            a.start[i * STRIDE + q] = kept;
        }
        group.sync();
    }
    if (singular) LOOP(i, N) FEATURES(slot, N) if (group.holds(slot, N)) a(group, i, slot) = __int_as_float(0x7fc00000);
    group.sync();
}

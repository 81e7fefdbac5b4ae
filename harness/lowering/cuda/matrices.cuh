// Matrices of ROWS rows of N features: in registers (small ones), or in memory: the team's shared memory, or a
// property.
#pragma once

#include "teams.cuh"

// Every lane holds its columns in registers; row indices must be compile-time constants.
template <int M, int N> struct Matrix {
    static constexpr int HEIGHT = M, LENGTH = N, UNROLLED = M;
    Row<N> row[M];
    __device__ float& operator()(const Team&, int i, int slot) { return row[i][slot]; }
    __device__ const float& operator()(const Team&, int i, int slot) const { return row[i][slot]; }
    __device__ float element(const Team& team, int i, int j) const { return pick(team, row[i], j); }
    __device__ const Row<N>& whole(const Team&, int i) const { return row[i]; }
    __device__ const Row<N>& part(const Team&, int i) const { return row[i]; }
};

template <class Float> struct Property {
    static constexpr bool value = false;
};
template <> struct Property<const float> {
    static constexpr bool value = true;
};

// Rows start at `start` with stride STRIDE, in floats: in shared memory, or as const float in a property. Lanes see the
// writes of others after team.sync().
template <int M, int N, int STRIDE, class Float = float> struct Tile {
    static constexpr int HEIGHT = M, LENGTH = N, UNROLLED = 4;  // the unrolling of loops over rows
    Float* start;
    __device__ Float& operator()(const Team& team, int i, int slot) const
    {
        return start[i * STRIDE + team.feature(slot)];
    }
    __device__ float element(const Team&, int i, int j) const { return start[i * STRIDE + j]; }
    __device__ Row<N> whole(const Team& team, int i) const
    {
        Row<N> row;
        FEATURES(slot, N) row[slot] = team.holds(slot, N) ? start[i * STRIDE + team.feature(slot)] : 0.0f;
        return row;
    }
    // The same by wide loads, undefined beyond its length. Only rows of properties are aligned for them.
    __device__ Row<N> part(const Team& team, int i) const
    {
        if constexpr (Property<Float>::value) return load<N, STRIDE, float>(team, start + i * STRIDE);
        else return whole(team, i);
    }
};

template <class Any> __device__ inline float total_of(const Team& team, const Any& matrix)
{
    float value = 0.0f;
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i) FEATURES(slot, Any::LENGTH)
        if (team.holds(slot, Any::LENGTH)) value += matrix(team, i, slot);
    return across(team, value, Add());
}
template <class Operation, class Any> __device__ inline float reduced_of(const Team& team, const Any& matrix)
{
    float value = Operation::identity();
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i) FEATURES(slot, Any::LENGTH)
        if (team.holds(slot, Any::LENGTH)) value = Operation()(value, matrix(team, i, slot));
    return across(team, value, Operation());
}

// The unrolling of the loop over the rows of a factor: complete if few registers hold it.
template <class Any> constexpr int unrolled = Any::HEIGHT * slots(Any::LENGTH) <= 64 ? Any::HEIGHT : Any::UNROLLED;

// x @ A: every lane sums its columns.
template <class Any> __device__ inline Row<Any::LENGTH> times(const Team& team, const Row<Any::HEIGHT>& x, const Any& a)
{
    Row<Any::LENGTH> result = filled<Any::LENGTH>(0.0f);
    _Pragma("unroll unrolled<Any>") for (int i = 0; i < Any::HEIGHT; ++i) {
        const float factor = pick(team, x, i);
        const Row<Any::LENGTH> row = a.part(team, i);
        FEATURES(slot, Any::LENGTH) result[slot] += factor * row[slot];
    }
    return result;
}
// The maximum of the products in place of their sum.
template <class Any>
__device__ inline Row<Any::LENGTH> max_times(const Team& team, const Row<Any::HEIGHT>& x, const Any& a)
{
    Row<Any::LENGTH> result = filled<Any::LENGTH>(-INFINITE);
    _Pragma("unroll unrolled<Any>") for (int i = 0; i < Any::HEIGHT; ++i) {
        const float factor = pick(team, x, i);
        const Row<Any::LENGTH> row = a.part(team, i);
        FEATURES(slot, Any::LENGTH) result[slot] = maximum(result[slot], factor * row[slot]);
    }
    return result;
}
// A @ x: a reduction over the team for every row.
template <class Any> __device__ inline Row<Any::HEIGHT> times(const Team& team, const Any& a, const Row<Any::LENGTH>& x)
{
    Row<Any::HEIGHT> result = filled<Any::HEIGHT>(0.0f);
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i)
        place(team, result, i, dot(team, a.whole(team, i), x));
    return result;
}
template <class Left, class Right, class Result>
__device__ inline void multiply(const Team& team, const Left& a, const Right& b, Result& result)
{
    constexpr int UNROLLED = Left::UNROLLED > Result::UNROLLED ? Left::UNROLLED : Result::UNROLLED;
    team.sync();
    _Pragma("unroll UNROLLED") for (int i = 0; i < Left::HEIGHT; ++i) {
        Row<Right::LENGTH> row = filled<Right::LENGTH>(0.0f);
        _Pragma("unroll Right::UNROLLED") for (int j = 0; j < Left::LENGTH; ++j) {
            const float factor = a.element(team, i, j);
            FEATURES(slot, Right::LENGTH)
                if (team.holds(slot, Right::LENGTH)) row[slot] += factor * b(team, j, slot);
        }
        FEATURES(slot, Right::LENGTH) if (team.holds(slot, Right::LENGTH)) result(team, i, slot) = row[slot];
    }
    team.sync();
}
template <class Any, class Result> __device__ inline void transpose(const Team& team, const Any& a, Result& result)
{
    team.sync();
    LOOP(i, Any::LENGTH) FEATURES(slot, Any::HEIGHT)
        if (team.holds(slot, Any::HEIGHT)) result(team, i, slot) = a.element(team, team.feature(slot), i);
    team.sync();
}
template <class Reducer, int STRIDE, class Any>
__device__ inline void reduce_into(const Team& team, float* start, const Any& matrix, int)
{
    _Pragma("unroll Any::UNROLLED") for (int i = 0; i < Any::HEIGHT; ++i)
        reduce_into<Reducer, STRIDE>(team, start + i * STRIDE, matrix.whole(team, i));
}

// Solve a @ x = b for symmetric positive definite a, which is overwritten: elimination without pivots. Step p subtracts
// row p times a[i][p] / a[p][p] from every row i below it. As a is symmetric, a[i][p] is a[p][i], which the pivot row
// holds.
template <int N> __device__ inline Row<N> solve_spd(const Team& team, Matrix<N, N>& a, Row<N> b)
{
    _Pragma("unroll") for (int p = 0; p < N; ++p) {
        const float inverse = 1.0f / pick(team, a.row[p], p);
        const float right = pick(team, b, p) * inverse;
        _Pragma("unroll") for (int i = p + 1; i < N; ++i) {
            const float factor = pick(team, a.row[p], i) * inverse;
            FEATURES(slot, N) a.row[i][slot] -= factor * a.row[p][slot];
        }
        FEATURES(slot, N) if (team.feature(slot) > p) b[slot] -= a.row[p][slot] * right;
    }
    Row<N> x = filled<N>(0.0f);
    _Pragma("unroll") for (int p = N - 1; p >= 0; --p) {
        Row<N> known;
        FEATURES(slot, N) known[slot] = team.feature(slot) > p ? a.row[p][slot] * x[slot] : 0.0f;
        const float solved = (pick(team, b, p) - total(team, known)) / pick(team, a.row[p], p);
        place(team, x, p, solved);
    }
    return x;
}
// Elimination in memory. Only the upper triangle is updated: step p changes columns i.. of rows i > p. One pivot at a
// time, because a single thread lacks registers for several rows.
template <int N, int STRIDE> __device__ inline void eliminate(const Team& team, Tile<N, N, STRIDE>& a, Row<N>& b)
{
    LOOP(p, N) {
        const float inverse = 1.0f / a.element(team, p, p);
        const float right = pick(team, b, p) * inverse;
        const Row<N> pivot = a.whole(team, p);
        LOOP(below, N - 1 - p) {
            const int i = p + 1 + below;
            const float factor = a.element(team, p, i) * inverse;
            FEATURES(slot, N)
                if (team.feature(slot) >= i && team.holds(slot, N)) a(team, i, slot) -= factor * pivot[slot];
        }
        FEATURES(slot, N) if (team.feature(slot) > p) b[slot] -= pivot[slot] * right;
        team.sync();
    }
}
// The same by a team: several pivot rows are prepared in registers, and then subtracted together from each row below
// them, which is loaded and stored once.
template <int N, int STRIDE> __device__ inline void eliminate_several(const Team& team, Tile<N, N, STRIDE>& a, Row<N>& b)
{
    constexpr int PIVOTS = 4;
    for (int first = 0; first < N; first += PIVOTS) {
        Row<N> pivot[PIVOTS];
        float inverse[PIVOTS];
        _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) {
            const int p = first + q;
            if (p >= N) break;
            pivot[q] = a.whole(team, p);
            _Pragma("unroll") for (int r = 0; r < q; ++r) {
                const float factor = a.element(team, first + r, p) * inverse[r];
                FEATURES(slot, N) pivot[q][slot] -= factor * pivot[r][slot];
            }
            FEATURES(slot, N) if (team.feature(slot) >= p && team.holds(slot, N)) a(team, p, slot) = pivot[q][slot];
            team.sync();
            inverse[q] = 1.0f / a.element(team, p, p);
            const float right = pick(team, b, p) * inverse[q];
            FEATURES(slot, N) if (team.feature(slot) > p) b[slot] -= pivot[q][slot] * right;
        }
        _Pragma("unroll 2") for (int i = first + PIVOTS; i < N; ++i) {
            float factor[PIVOTS];
            _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) factor[q] = a.element(team, first + q, i) * inverse[q];
            FEATURES(slot, N) if (team.feature(slot) >= i && team.holds(slot, N)) {
                float left = a(team, i, slot);
                _Pragma("unroll") for (int q = 0; q < PIVOTS; ++q) left -= factor[q] * pivot[q][slot];
                a(team, i, slot) = left;
            }
        }
        team.sync();
    }
}
// Solve with the matrix in memory.
template <int N, int STRIDE> __device__ inline Row<N> solve_spd(const Team& team, Tile<N, N, STRIDE>& a, Row<N> b)
{
    team.sync();
    if constexpr (LANES > 1) eliminate_several(team, a, b);
    else eliminate(team, a, b);
    Row<N> x = filled<N>(0.0f);
    LOOP(back, N) {
        const int p = N - 1 - back;
        Row<N> known = a.whole(team, p);
        FEATURES(slot, N) known[slot] = team.feature(slot) > p ? known[slot] * x[slot] : 0.0f;
        place(team, x, p, (pick(team, b, p) - total(team, known)) / a.element(team, p, p));
    }
    team.sync();
    return x;
}

// Gauss-Jordan with the largest pivot of each column, in place; NaN where the matrix is singular.
template <int N, int STRIDE> __device__ inline void invert(const Team& team, Tile<N, N, STRIDE>& a)
{
    int swapped[N];
    team.sync();
    bool singular = false;
    LOOP(p, N) {
        int best = p;
        LOOP(below, N - 1 - p)
            if (fabsf(a.element(team, p + 1 + below, p)) > fabsf(a.element(team, best, p))) best = p + 1 + below;
        swapped[p] = best;
        const float pivot = a.element(team, best, p);
        singular = singular || pivot == 0.0f;
        team.sync();
        const Row<N> upper = a.whole(team, best), lower = a.whole(team, p);
        const float inverse = 1.0f / pivot;
        FEATURES(slot, N) if (team.holds(slot, N)) {
            if (best != p) a(team, best, slot) = lower[slot];
            a(team, p, slot) = (team.feature(slot) == p ? 1.0f : upper[slot]) * inverse;
        }
        team.sync();
        const Row<N> row = a.whole(team, p);
        LOOP(i, N) {
            const float factor = a.element(team, i, p);
            team.sync();
            if (i != p) FEATURES(slot, N) if (team.holds(slot, N))
                a(team, i, slot) = (team.feature(slot) == p ? 0.0f : a(team, i, slot)) - factor * row[slot];
        }
        team.sync();
    }
    LOOP(back, N) {  // undo the exchanges of rows as exchanges of columns, each row by one lane
        const int p = N - 1 - back, q = swapped[p];
        if (q != p) for (int i = team.member; i < N; i += LANES) {
            const float kept = a.start[i * STRIDE + p];
            a.start[i * STRIDE + p] = a.start[i * STRIDE + q];
            a.start[i * STRIDE + q] = kept;
        }
        team.sync();
    }
    if (singular) LOOP(i, N) FEATURES(slot, N) if (team.holds(slot, N)) a(team, i, slot) = __int_as_float(0x7fc00000);
    team.sync();
}

// The functions that rendered CUDA kernels call, for one core of a CPU: a lane group is the lanes of a vector register.
//
// The build defines LANES (floats of a vector: a power of two) before it includes this file. A row of n features has
// n / LANES slots, and a slot is a vector; n is a multiple of LANES. Vectors are those of GCC and Clang.
#pragma once

typedef unsigned int Id;
typedef long long EdgeId;
typedef long long Count;
typedef __SIZE_TYPE__ size_t;
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int Mask __attribute__((vector_size(4 * LANES)));  // the result of comparing vectors
typedef Vector Unaligned __attribute__((aligned(4), may_alias));
typedef float Element __attribute__((may_alias));

#define __global__
#define __launch_bounds__(...)
#define FEATURES(slot, n) for (int slot = 0; slot < slots(n); ++slot)
#define ROWS(i, n) for (int i = 0; i < (n); ++i)

constexpr int slots(int n) { return n / LANES; }

struct Lanes {  // a vector to which a scalar can be assigned
    Vector v;
    Lanes() = default;
    Lanes(Vector vector) : v(vector) {}
    Lanes(float scalar) : v(scalar - Vector{}) {}
};
inline Lanes operator+(Lanes a, Lanes b) { return a.v + b.v; }
inline Lanes operator-(Lanes a, Lanes b) { return a.v - b.v; }
inline Lanes operator*(Lanes a, Lanes b) { return a.v * b.v; }
inline Lanes operator/(Lanes a, Lanes b) { return a.v / b.v; }
inline Lanes& operator+=(Lanes& a, Lanes b) { return a = a + b; }
inline Lanes& operator-=(Lanes& a, Lanes b) { return a = a - b; }
inline Lanes& operator*=(Lanes& a, Lanes b) { return a = a * b; }

struct Run {
    Count moved;
};
inline void add_counts(Count* target, Count found) { *target += found; }

struct LaneGroup {
    Mask member;
    LaneGroup()
    {
        for (int lane = 0; lane < LANES; ++lane) member[lane] = lane;
    }
    bool leads() const { return true; }
    Mask feature(int slot) const { return member + slot * LANES; }
};

template <int N> struct Row {
    static_assert(N % LANES == 0, "rows have no padding");
    Lanes at[slots(N)];
    Lanes& operator[](int slot) { return at[slot]; }
    const Lanes& operator[](int slot) const { return at[slot]; }
};
template <int M, int N> struct Matrix {
    Row<N> row[M];
    Lanes& operator()(const LaneGroup&, int i, int slot) { return row[i][slot]; }
    const Lanes& operator()(const LaneGroup&, int i, int slot) const { return row[i][slot]; }
};

// Elementwise functions ----------------------------------------------------------------------------------------------
inline float maximum(float a, float b) { return a > b || a != a ? a : b; }
inline Lanes fabsf(Lanes a) { return Vector(Mask(a.v) & 0x7fffffff); }
template <class Value> inline Value choose(bool first, Value a, Value b) { return first ? a : b; }
inline Mask far(Lanes before, Lanes now, Lanes margin)
{
    return (now.v != before.v) & ~(fabsf(now - before).v <= margin.v);
}

// Memory ---------------------------------------------------------------------------------------------------------------
template <int N, int STRIDE> inline Row<N> load(const LaneGroup&, const float* start)
{
    Row<N> row;
    FEATURES(slot, N) row[slot] = Vector(*reinterpret_cast<const Unaligned*>(start + slot * LANES));
    return row;
}
template <int N, int STRIDE> inline void store(const LaneGroup&, float* start, const Row<N>& row)
{
    FEATURES(slot, N) *reinterpret_cast<Unaligned*>(start + slot * LANES) = row[slot].v;
}
template <int N> inline void prefetch(const float* start)
{
    for (int i = 0; i < N; i += 16) __builtin_prefetch(start + i);
}

// Collaborative operations ---------------------------------------------------------------------------------------------
template <int N> struct Part {
    typedef float Floats __attribute__((vector_size(4 * N)));
    typedef int Ints __attribute__((vector_size(4 * N)));
};
// The sum of a vector, and whether any element of a comparison holds: halves are combined until one element is left.
template <int N> inline float sum(typename Part<N>::Floats value)
{
    typename Part<N / 2>::Floats half[2];
    __builtin_memcpy(half, &value, sizeof half);
    return sum<N / 2>(half[0] + half[1]);
}
template <> inline float sum<1>(Part<1>::Floats value) { return value[0]; }
template <int N> inline int either(typename Part<N>::Ints value)
{
    typename Part<N / 2>::Ints half[2];
    __builtin_memcpy(half, &value, sizeof half);
    return either<N / 2>(half[0] | half[1]);
}
template <> inline int either<1>(Part<1>::Ints value) { return value[0]; }
inline float across(Lanes value) { return sum<LANES>(value.v); }
inline bool any(const LaneGroup&, Mask mine) { return either<LANES>(mine) != 0; }
template <int N> inline float pick(const LaneGroup&, const Row<N>& row, int i)
{
    return reinterpret_cast<const Element*>(&row)[i];
}
template <int N> inline Row<N> normalized_l1(const LaneGroup&, Row<N> row)
{
    Lanes sizes = fabsf(row[0]);
    for (int slot = 1; slot < slots(N); ++slot) sizes += fabsf(row[slot]);
    const float size = across(sizes), scale = size != 0.0f ? 1.0f / size : 1.0f;
    FEATURES(slot, N) row[slot] *= scale;
    return row;
}

// Sums in runs of edges: a run is added to the carry and begins again at zero. A matrix is not cleared for every vertex.
template <class Value> struct Carry;
template <int N> struct Carry<Row<N>> {
    Row<N> sum = {};
    void end_run(Row<N>& run)
    {
        join(sum, run);
        run = {};
    }
    void end(Row<N>& run) const { join(run, sum); }
    static void join(Row<N>& total, const Row<N>& part) { FEATURES(slot, N) total[slot] += part[slot]; }
};
template <int M, int N> struct Carry<Matrix<M, N>> {
    Matrix<M, N> sum;
    bool any = false;
    void end_run(Matrix<M, N>& run)
    {
        if (any) join(sum, run);
        else sum = run;
        any = true;
        run = {};
    }
    void end(Matrix<M, N>& run) const
    {
        if (any) join(run, sum);
    }
    static void join(Matrix<M, N>& total, const Matrix<M, N>& part)
    {
        ROWS(i, M) Carry<Row<N>>::join(total.row[i], part.row[i]);
    }
};

// x with a @ x = b, for symmetric positive definite a, which is overwritten by its Cholesky factor: the algorithm of
// harness/lowering/cpu/small_matrix.py.
template <int N> inline Row<N> solve_spd(const LaneGroup& group, Matrix<N, N>& a, Row<N> b)
{
    const auto element = [&](int i, int j) -> Element& { return reinterpret_cast<Element*>(&a.row[i])[j]; };
    for (int j = 0; j < N; ++j) {
        const float limit = 1.1920929e-7f * element(j, j);
        Row<N> sum[4] = {a.row[j]};
        for (int i = 0; i + 4 <= j; i += 4)
            for (int q = 0; q < 4; ++q) FEATURES(slot, N) sum[q][slot] -= element(i + q, j) * a.row[i + q][slot];
        for (int i = j / 4 * 4; i < j; ++i) FEATURES(slot, N) sum[1][slot] -= element(i, j) * a.row[i][slot];
        FEATURES(slot, N) a.row[j][slot] = (sum[0][slot] + sum[1][slot]) + (sum[2][slot] + sum[3][slot]);
        const float pivot = element(j, j), scale = pivot > limit ? 1.0f / __builtin_sqrtf(pivot) : __builtin_nanf("");
        FEATURES(slot, N) a.row[j][slot] = group.feature(slot) >= j ? (a.row[j][slot] * scale).v : Vector{};
    }
    Element* const right = reinterpret_cast<Element*>(&b);
    for (int i = 0; i < N; ++i) {
        const float value = right[i] / element(i, i);
        FEATURES(slot, N) b[slot] -= value * a.row[i][slot];
        right[i] = value;
    }
    Row<N> x = {};
    for (int i = N - 1; i >= 0; --i) {
        Lanes products = 0.0f;
        FEATURES(slot, N) products += a.row[i][slot] * x[slot];
        reinterpret_cast<Element*>(&x)[i] = (right[i] - across(products)) / element(i, i);
    }
    return x;
}

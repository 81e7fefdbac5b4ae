// Measure whether a run meets its program's criterion: the movement of the watched properties of vertices in one
// superstep. The kernels run only in every fourth superstep (harness/language/criterion.py).
#pragma once

#include "run.cuh"

// Compute two sums for every column of rows `first`, `first + step`, ... below `last`, by all threads of a block:
// `get(row, column, a, b)` adds to them, `put(column, a, b)` is called once for each column.
template <class Get, class Put>
__device__ inline void column_sums(size_t first, size_t last, size_t step, int width, Get get, Put put)
{
    __shared__ float sums[2][BLOCK];
    const int lanes = min(width, BLOCK), abreast = BLOCK / lanes;
    const int row = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    for (int base = 0; base < width; base += lanes) {
        const int column = base + lane;
        const bool mine = row < abreast && column < width;
        float a = 0, b = 0;
        for (size_t at = first + row * step; mine && at < last; at += abreast * step) get(at, column, a, b);
        __syncthreads();
        sums[0][threadIdx.x] = a;
        sums[1][threadIdx.x] = b;
        for (int half = BLOCK / 2; half > 0; half /= 2) {
            __syncthreads();
            if (row < half && row + half < abreast) {
                sums[0][threadIdx.x] += sums[0][threadIdx.x + half * lanes];
                sums[1][threadIdx.x] += sums[1][threadIdx.x + half * lanes];
            }
        }
        if (mine && row == 0) put(column, sums[0][lane], sums[1][lane]);
    }
    __syncthreads();
}

// A program's criterion: by sums of distances and magnitudes, or by the number of entries that moved by more than the
// tolerance, which may be relative to the entry.
enum class Norm { SUM, ABSOLUTE, RELATIVE };

constexpr unsigned int MOVEMENT_BLOCKS = 512;  // at most; one block combines their results
constexpr unsigned int MOVEMENT_ROWS = 64;     // vertices of a block, at least

// The results of each block: `found[block][2][width]`. The grid may have more blocks than take part: a persistent kernel
// has as many as are resident, and only its first one calls this if one block is enough.
template <Norm NORM>
__device__ inline void measure_movement(
    const float* before, const float* now, Id vertices, int stride, int width, float tolerance, float* found)
{
    const unsigned blocks = min(MOVEMENT_BLOCKS, max(1u, unsigned((size_t(vertices) + MOVEMENT_ROWS - 1) / MOVEMENT_ROWS)));
    if (blockIdx.x >= blocks) return;
    float* const mine = found + size_t(blockIdx.x) * 2 * width;
    column_sums(
        blockIdx.x, vertices, min(gridDim.x, blocks), width,
        [&](size_t v, int column, float& a, float& b) {
            const float past = before[v * stride + column], present = now[v * stride + column];
            const float size = fabsf(present), distance = past == present ? 0.0f : fabsf(present - past);
            if (NORM == Norm::SUM) {
                a += distance;
                b += size;
            } else {
                a += distance <= (NORM == Norm::RELATIVE ? tolerance * size : tolerance) ? 0.0f : 1.0f;
            }
        },
        [&](int column, float a, float b) {
            mine[column] = a;
            mine[width + column] = b;
        });
}

// By one block: return whether the combined results are within the tolerance; NaN is not. Missing blocks have zero
// results.
template <Norm NORM> __device__ inline bool movement_is_within(const float* found, int width, float tolerance)
{
    __shared__ int moving;
    if (threadIdx.x == 0) moving = 0;
    column_sums(
        0, MOVEMENT_BLOCKS, 1, width,
        [&](size_t block, int column, float& a, float& b) {
            a += found[block * 2 * width + column];
            b += found[block * 2 * width + width + column];
        },
        [&](int column, float a, float b) {
            if (!(NORM == Norm::SUM ? a <= tolerance * b : a == 0.0f)) moving = 1;
        });
    const bool within = !moving;
    __syncthreads();  // the next call begins with moving = 0
    return within;
}

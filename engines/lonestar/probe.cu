// Chains and contention that order=auto estimates with: each kernel repeats one operation `count` times.
typedef unsigned Id;

// One warp updates pairs of rows, each after the one before, past the first-level cache.
extern "C" __global__ void updates(float* x, int features, int rows, int count)
{
    const int lane = threadIdx.x;
    for (int i = 0; i < count; ++i) {
        float* const u = x + size_t(i % rows) * features;
        float* const v = x + size_t((i + 1) % rows) * features;
        float error = 0.0f;
        for (int f = lane; f < features; f += 32) error += __ldcg(u + f) * __ldcg(v + f);
        for (int step = 16; step; step /= 2) error += __shfl_xor_sync(0xffffffffu, error, step);
        error = 1.0f - error;
        for (int f = lane; f < features; f += 32) {
            const float a = __ldcg(u + f), b = __ldcg(v + f);
            __stcg(u + f, a + 0.01f * (error * b - 0.05f * a));
            __stcg(v + f, b + 0.01f * (error * a - 0.05f * b));
        }
        __syncwarp();
    }
}

// One thread takes and releases free locks.
extern "C" __global__ void free_locks(Id* locks, int number, int count)
{
    for (int i = 0; i < count; ++i) {
        Id* const lock = locks + (17 * i) % number;
        if (atomicCAS(lock, 0u, 1u) == 0u) {
            __threadfence();
            __threadfence();
            atomicExch(lock, 0u);
        }
    }
}

// All threads add to one word; the sum of what was there keeps the additions from being combined.
extern "C" __global__ void same_atomics(Id* word, Id* seen, int count)
{
    Id sum = 0;
    for (int i = 0; i < count; ++i) sum += atomicAdd(word, 1u + (threadIdx.x & 1u));
    if (sum == 1u) *seen = sum;
}

// The first lanes of all warps try one lock, and count how often they take it.
extern "C" __global__ void same_locks(Id* lock, unsigned long long* taken, int count)
{
    if (threadIdx.x % 32) return;
    unsigned long long own = 0;
    for (int i = 0; i < count; ++i)
        if (atomicCAS(lock, 0u, 1u) == 0u) {
            __threadfence();
            ++own;
            atomicExch(lock, 0u);
        }
    atomicAdd(taken, own);
}

// All blocks, which are resident, wait for each other `count` times.
extern "C" __global__ void barriers(Id* arrived, int count)
{
    for (int i = 1; i <= count; ++i) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1u);
            volatile Id* const all = arrived;
            while (*all < Id(i) * gridDim.x) {
            }
            __threadfence();
        }
        __syncthreads();
    }
}

extern "C" __global__ void copied(const float4* source, float4* target, long long count)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        __stcg(target + i, __ldcg(source + i));
}

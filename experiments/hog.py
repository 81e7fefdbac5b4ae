"""Separate what bounds lock-free SGD on a GPU: python experiments/hog.py."""
import cupy as cp
import numpy as np

CODE = r"""
template <int LANES> __device__ float total(float v)
{
    for (int o = LANES / 2; o; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}
__device__ void add4(float* t, float4 d)
{
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(t), "f"(d.x), "f"(d.y), "f"(d.z), "f"(d.w) : "memory");
}
// MODE 0 stores, 1 red.v4, 2 scalar atomics, 3 nothing is written. SHAPE 0: batches, listed by e; 1: batches, ends and rating
// in the order of the list; 2: adjacent lane groups take adjacent edges.
template <int K, int DEPTH, int MODE, int SHAPE>
__global__ void __launch_bounds__(256) hog(const unsigned* list, const unsigned* us, const unsigned* vs, const float* rs,
    float* x, unsigned edges, unsigned workers, unsigned batch, float rate, float lam, float* sink)
{
    constexpr int LANES = K / 4;
    const unsigned group = blockIdx.x + gridDim.x * (threadIdx.x / LANES), lane = threadIdx.x % LANES;
    const unsigned adjacent = (blockIdx.x * 256 + threadIdx.x) / LANES;
    float kept = 0.0f;
    // All lanes of a warp take the same number of turns, so that whole warps shuffle.
    const unsigned per = SHAPE == 2 ? (edges + workers - 1) / workers : 0;
    const unsigned bases = (edges + batch - 1) / batch;
    const unsigned turns = SHAPE == 2 ? 1 : (bases + workers - 1) / workers;
    if (SHAPE == 2 ? blockIdx.x * 256 / LANES >= workers : __all_sync(0xffffffffu, group >= workers)) return;
    for (unsigned turn = 0; turn < turns; ++turn) {
        const unsigned base = (turn * workers + group) * batch;
        const unsigned many = SHAPE == 2 ? per : batch;
        for (unsigned i = 0; i < many; i += DEPTH) {
            unsigned u[DEPTH], v[DEPTH];
            float r[DEPTH];
            bool run[DEPTH];
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const unsigned long long at = SHAPE == 2 ? (unsigned long long)(i + d) * workers + adjacent : base + i + d;
                run[d] = at < edges && i + d < many && (SHAPE == 2 || group < workers);
                const unsigned e = !run[d] ? 0 : SHAPE == 0 ? __ldg(list + at) : (unsigned)at;
                u[d] = __ldg(us + e), v[d] = __ldg(vs + e), r[d] = __ldg(rs + e);
            }
            float4 a[DEPTH], b[DEPTH];
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                a[d] = __ldcg((const float4*)(x + (size_t)u[d] * K) + lane);
                b[d] = __ldcg((const float4*)(x + (size_t)v[d] * K) + lane);
            }
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const float4 p = a[d], q = b[d];
                const float e = r[d] - total<LANES>(p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w);
                const float s = rate;
                float4 dp = {s * (e * q.x - lam * p.x), s * (e * q.y - lam * p.y), s * (e * q.z - lam * p.z), s * (e * q.w - lam * p.w)};
                float4 dq = {s * (e * p.x - lam * q.x), s * (e * p.y - lam * q.y), s * (e * p.z - lam * q.z), s * (e * p.w - lam * q.w)};
                float* const pu = x + (size_t)u[d] * K + 4 * lane;
                float* const pv = x + (size_t)v[d] * K + 4 * lane;
                if (!run[d]) continue;
                if (MODE == 0) {
                    *(float4*)pu = {p.x + dp.x, p.y + dp.y, p.z + dp.z, p.w + dp.w};
                    *(float4*)pv = {q.x + dq.x, q.y + dq.y, q.z + dq.z, q.w + dq.w};
                } else if (MODE == 1) {
                    add4(pu, dp);
                    add4(pv, dq);
                } else if (MODE == 2) {
                    atomicAdd(pu, dp.x), atomicAdd(pu + 1, dp.y), atomicAdd(pu + 2, dp.z), atomicAdd(pu + 3, dp.w);
                    atomicAdd(pv, dq.x), atomicAdd(pv + 1, dq.y), atomicAdd(pv + 2, dq.z), atomicAdd(pv + 3, dq.w);
                } else if (MODE == 4) {
                    *(float4*)pu = {p.x + dp.x, p.y + dp.y, p.z + dp.z, p.w + dp.w};
                    add4(pv, dq);
                } else {
                    kept += dp.x + dp.y + dp.z + dp.w + dq.x + dq.y + dq.z + dq.w;
                }
            }
        }
    }
    if (MODE == 3 && kept == 1.2345f) *sink = kept;
}
"""
USERS, ITEMS, EDGES = 480189, 17770, 9907211
STORE, RED, SCALAR, NONE, MIXED = 0, 1, 2, 3, 4
NAMES = {0: "store", 1: "red4", 2: "atomic", 3: "read only", 4: "store user, red4 item"}
SHAPES = {0: "listed", 1: "packed", 2: "adjacent"}
ALL = 1 << 30
CASES = [  # depth, mode, shape, workers, uniform
    (1, STORE, 0, 188, False), (1, STORE, 0, 752, False), (1, STORE, 0, 3008, False), (1, STORE, 0, ALL, False),
    (1, STORE, 1, ALL, False), (2, STORE, 1, ALL, False), (4, STORE, 1, ALL, False),
    (1, RED, 0, ALL, False), (1, RED, 1, 752, False), (1, RED, 1, 3008, False), (1, RED, 1, ALL, False), (2, RED, 1, ALL, False),
    (4, RED, 1, ALL, False), (8, RED, 1, ALL, False), (1, SCALAR, 1, ALL, False),
    (1, RED, 2, ALL, False), (2, RED, 2, ALL, False), (4, RED, 2, ALL, False), (2, MIXED, 2, ALL, False), (2, STORE, 2, ALL, False),
    (2, NONE, 2, ALL, False), (1, RED, 1, ALL, True), (2, RED, 2, ALL, True), (2, STORE, 2, ALL, True),
]  # fmt: skip


def edges_of(uniform, rng):
    users = rng.integers(0, USERS, EDGES).astype(np.uint32)
    shares = np.ones(ITEMS) if uniform else np.arange(1, ITEMS + 1) ** -0.438
    items = np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(EDGES)).clip(0, ITEMS - 1)
    return users, rng.permutation(ITEMS)[items].astype(np.uint32)


def timed(run):
    began, ended = cp.cuda.Event(), cp.cuda.Event()
    began.record()
    run()
    ended.record()
    ended.synchronize()
    return cp.cuda.get_elapsed_time(began, ended) / 1e3


def main():
    rng = np.random.default_rng(0)
    big = cp.zeros(1 << 28, cp.float32)
    other = cp.empty_like(big)
    copies = max(2 * big.nbytes / timed(lambda: cp.copyto(other, big)) for _ in range(5))
    del big, other
    print(f"copies {copies / 1e12:.2f} TB/s; share of it by 12 + 16 k bytes an update, and train RMSE after 3 sweeps over that of 64 lane groups")
    ks = (32, 64, 128)
    names = sorted({f"hog<{k}, {d}, {m}, {s}>" for k in ks for d, m, s, _, _ in CASES} | {f"hog<{k}, 1, 1, 1>" for k in ks})
    module = cp.RawModule(code=CODE, options=("--std=c++17",), name_expressions=names)
    data = {}
    for uniform in (False, True):
        users, items = edges_of(uniform, rng)
        planted = rng.standard_normal((USERS + ITEMS, 4), np.float32) * 0.7
        ratings = np.empty(EDGES, np.float32)
        for lo in range(0, EDGES, 1 << 21):
            part = slice(lo, lo + (1 << 21))
            ratings[part] = (planted[users[part]] * planted[USERS + items[part]]).sum(1)
        ratings += 0.3 * rng.standard_normal(EDGES, np.float32)
        by_item = np.argsort(items, kind="stable")
        csc = [cp.asarray(a[by_item]) for a in (users, items + USERS, ratings)]
        order = cp.asarray(rng.permutation(EDGES).astype(np.uint32))
        data[uniform] = (order, csc, [a[order] for a in csc])
    multi = cp.cuda.Device().attributes["MultiProcessorCount"]
    sink = cp.zeros(1, cp.float32)
    results = {}

    def sweep(x, k, d, m, s, workers, uniform):
        order, csc, packed = data[uniform]
        kernel = module.get_function(f"hog<{k}, {d}, {m}, {s}>")
        each = cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(getattr(kernel, "kernel", kernel).ptr, 256, 0)
        groups = 256 // (k // 4)
        blocks = multi * each
        workers = min(workers, blocks * groups)
        blocks = min(blocks, workers)
        arrays = csc if s == 0 else packed
        kernel((blocks,), (256,), (order, *arrays, x, np.uint32(EDGES), np.uint32(workers), np.uint32(64 if workers > 4096 else 256),
                                   np.float32(0.05), np.float32(0.02), sink))
        return workers

    def rmse(x, uniform):
        total = 0.0
        users, items, ratings = data[uniform][1]
        for lo in range(0, EDGES, 1 << 20):
            part = slice(lo, lo + (1 << 20))
            total += float(((ratings[part] - (x[users[part]] * x[items[part]]).sum(1)) ** 2).sum(dtype=cp.float64))
        return (total / EDGES) ** 0.5

    for k in ks:
        start = cp.asarray((rng.random((USERS + ITEMS, k), np.float32) - 0.5) * (2 / np.sqrt(k)))
        reference = {}
        for uniform in (False, True):
            x = start.copy()
            for _ in range(3):
                sweep(x, k, 1, RED, 1, 64, uniform)
            reference[uniform] = rmse(x, uniform)
            if not uniform:
                print(f"k {k}: RMSE at the start {rmse(start, uniform):.4f}, after 3 sweeps {reference[uniform]:.4f}")
        for case in CASES:
            d, m, s, workers, uniform = case
            x = start.copy()
            times = []
            used = 0
            for _ in range(3):
                def run():
                    nonlocal used
                    used = sweep(x, k, *case)
                times.append(timed(run))
            rate = EDGES / min(times)
            ratio = rmse(x, uniform) / reference[uniform] if m != NONE else float("nan")
            results[case, k] = f"{rate * (12 + 16 * k) / copies:.3f} {ratio:.3f} W{used}"
    for case in CASES:
        d, m, s, workers, uniform = case
        label = f"{NAMES[m]}, {SHAPES[s]}, {d} in flight{', uniform' if uniform else ''}"
        print(f"{label:44s} | " + " | ".join(f"{results[case, k]:20s}" for k in ks))


main()

// Hooking and pointer jumping. A forest is an array of parents; a parent is never larger than its vertex, and a root is
// its own parent, so that the root of a tree is its least vertex. BLOCK: threads of a block. LEAST: 1 if a tree gets its
// least value, 0 if the largest. LONG: edges from which the warp of a vertex hooks them together.

typedef long long Position;
typedef unsigned int Vertex;

__device__ inline Vertex own_vertex() { return blockIdx.x * (Vertex)BLOCK + threadIdx.x; }

// Other threads hook at the same time: parents are read past the caches of multiprocessors.
__device__ inline Vertex parent_of(const Vertex* parent, Vertex v) { return ((const volatile Vertex*)parent)[v]; }

__device__ inline Vertex root_of(Vertex* parent, Vertex v)
{
    Vertex above = parent_of(parent, v);
    while (above != v) {
        const Vertex beyond = parent_of(parent, above);
        if (beyond != above) ((volatile Vertex*)parent)[v] = beyond;  // halves the path for those who come later
        v = beyond;
        above = parent_of(parent, v);
    }
    return v;
}

// Joins the trees of both ends of an edge: the larger root gets the smaller one as its parent.
__device__ inline void hook(Vertex* parent, Vertex u, Vertex v)
{
    while (true) {
        u = root_of(parent, u);
        v = root_of(parent, v);
        if (u == v) return;
        const Vertex larger = u < v ? v : u, smaller = u < v ? u : v;
        if (atomicCAS(parent + larger, larger, smaller) == larger) return;
    }
}

extern "C" __global__ void begin_forest(Vertex* parent, Vertex vertices)
{
    const Vertex v = own_vertex();
    if (v < vertices) parent[v] = v;
}

extern "C" __global__ void hook_first(
    const Position* offsets, const Vertex* neighbours, Vertex* parent, Vertex vertices, int edges)
{
    const Vertex v = own_vertex();
    if (v >= vertices) return;
    const Position first = offsets[v], end = offsets[v + 1], last = first + edges < end ? first + edges : end;
    for (Position e = first; e < last; ++e) hook(parent, v, neighbours[e]);
}

extern "C" __global__ void flatten(Vertex* parent, Vertex vertices)
{
    const Vertex v = own_vertex();
    if (v >= vertices) return;
    Vertex root = parent_of(parent, v);  // paths are not halved: that may replace the root of another thread's vertex
    for (Vertex above = parent_of(parent, root); above != root; above = parent_of(parent, root)) root = above;
    ((volatile Vertex*)parent)[v] = root;
}

// Sets `largest` to the most frequent root of BLOCK vertices. One block runs this.
extern "C" __global__ void find_largest(const Vertex* parent, Vertex* largest, Vertex vertices)
{
    __shared__ Vertex root[BLOCK];
    __shared__ unsigned long long best;
    const Vertex sample = (Vertex)((unsigned long long)vertices * threadIdx.x / BLOCK);
    root[threadIdx.x] = parent[sample];
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    unsigned long long count = 0;
    for (int i = 0; i < BLOCK; ++i) count += root[i] == root[threadIdx.x];
    atomicMax(&best, count << 32 | root[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) *largest = (Vertex)best;
}

// Hooks the edges after those of hook_first, of vertices that are not in the largest tree: an edge between that tree and
// another one is hooked at its other end, by its reverse edge.
extern "C" __global__ void hook_others(
    const Position* offsets, const Vertex* neighbours, Vertex* parent, const Vertex* largest, Vertex vertices, int edges)
{
    const Vertex v = own_vertex();
    const bool hooks = v < vertices && parent_of(parent, v) != *largest;
    const Position first = hooks ? offsets[v] + edges : 0, end = hooks ? offsets[v + 1] : 0;
    const bool is_long = end - first >= LONG;
    if (!is_long)
        for (Position e = first; e < end; ++e) hook(parent, v, neighbours[e]);
    for (unsigned left = __ballot_sync(0xffffffffu, is_long); left; left &= left - 1) {
        const int owner = __ffs(left) - 1;
        const Vertex shared = __shfl_sync(0xffffffffu, v, owner);
        const Position begin = __shfl_sync(0xffffffffu, first, owner), stop = __shfl_sync(0xffffffffu, end, owner);
        for (Position e = begin + threadIdx.x % 32; e < stop; e += 32) hook(parent, shared, neighbours[e]);
        __syncwarp();
    }
}

__device__ inline bool better(float a, float b) { return LEAST ? a < b : a > b; }

// Reduces the values of every tree into the row of its root. Most values are no better; these only read the root's
// value.
extern "C" __global__ void collect(const Vertex* root, float* values, Vertex vertices, int features)
{
    const Position i = (Position)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= (Position)vertices * features) return;
    const Vertex v = (Vertex)(i / features), at = root[v];
    if (at == v) return;
    const float value = values[i];
    int* place = (int*)(values + (Position)at * features + i % features);
    int old = *(volatile int*)place;
    while (better(value, __int_as_float(old))) {
        const int seen = atomicCAS(place, old, __float_as_int(value));
        if (seen == old) return;
        old = seen;
    }
}

extern "C" __global__ void spread(const Vertex* root, float* values, Vertex vertices, int features)
{
    const Position i = (Position)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= (Position)vertices * features) return;
    const Vertex v = (Vertex)(i / features), at = root[v];
    if (at != v) values[i] = values[(Position)at * features + i % features];
}

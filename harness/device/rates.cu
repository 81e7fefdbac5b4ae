// Kernels that reach the rates of a device: bytes read and copied, atomic additions, empty launches.
typedef long long Count;

// Read `count` values `repeats` times, past the first-level cache, four at a time in every thread.
extern "C" __global__ void read(const float4* source, float* target, Count count, int repeats)
{
    const Count step = (Count)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int pass = 0; pass < repeats; ++pass)
        for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * step) {
            float4 got[4] = {};
            _Pragma("unroll") for (int part = 0; part < 4; ++part)
                if (i + part * step < count) got[part] = __ldcg(source + i + part * step);
            _Pragma("unroll") for (int part = 0; part < 4; ++part)
                sum += got[part].x + got[part].y + got[part].z + got[part].w;
        }
    if (sum == 0.5f) *target = sum;  // never: the values are 0
}

extern "C" __global__ void copy(const float4* source, float4* target, Count count, int repeats)
{
    const Count step = (Count)gridDim.x * blockDim.x;
    for (int pass = 0; pass < repeats; ++pass)
        for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * step) {
            float4 got[4] = {};
            _Pragma("unroll") for (int part = 0; part < 4; ++part)
                if (i + part * step < count) got[part] = __ldcg(source + i + part * step);
            _Pragma("unroll") for (int part = 0; part < 4; ++part)
                if (i + part * step < count) __stcg(target + i + part * step, got[part]);
        }
}

extern "C" __global__ void add(float* target, Count count, int repeats)
{
    const Count step = (Count)gridDim.x * blockDim.x;
    for (int pass = 0; pass < repeats; ++pass)
        for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) atomicAdd(target + i, 1.0f);
}

extern "C" __global__ void add4(float4* target, Count count, int repeats)
{
    const Count step = (Count)gridDim.x * blockDim.x;
    for (int pass = 0; pass < repeats; ++pass)
        for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
#if __CUDA_ARCH__ >= 900
            asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" :: "l"(target + i), "f"(1.0f) : "memory");
#else
            for (int part = 0; part < 4; ++part) atomicAdd(reinterpret_cast<float*>(target + i) + part, 1.0f);
#endif
        }
}

extern "C" __global__ void nothing() {}

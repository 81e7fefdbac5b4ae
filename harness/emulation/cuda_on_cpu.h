// CUDA's built-in variables and functions on a CPU, as far as the generated kernels use them. A generated module is
// compiled with this header, and linked with runtime.cpp, which runs its threads.
//
// Atomic operations are plain reads and writes, because no other thread runs in between. They are volatile, which
// distinguishes them where accesses are counted, and does not order other accesses. With CONCURRENT, blocks run in threads
// of the host: atomic operations are atomic, and a thread sometimes sleeps at a fence, so that blocks go on at other times.
#include <cstddef>
#include <cstring>
#include <sched.h>
#include <utility>

// The mathematical functions that kernels may call. <cmath> would take a quarter of the time to compile a module.
extern "C" {
float ceilf(float) noexcept;
float cosf(float) noexcept;
float exp2f(float) noexcept;
float expf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float log2f(float) noexcept;
float logf(float) noexcept;
float powf(float, float) noexcept;
float roundf(float) noexcept;
float sinf(float) noexcept;
float sqrtf(float) noexcept;
float tanhf(float) noexcept;
float truncf(float) noexcept;
}

#define __device__
#define __host__
#define __shared__ static  // blocks run one after another, or each in a copy of the library
#define __launch_bounds__(...)
#ifdef COUNTING  // whole kernels are optimized for the compute capability 9.0
#define __global__ __attribute__((flatten, noinline))
#define __CUDA_ARCH__ 900
#else
#define __global__
#endif

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct uint4 {
    unsigned x, y, z, w;
};
typedef float Two __attribute__((vector_size(8)));
typedef float Four __attribute__((vector_size(16)));

extern "C" {
unsigned long emulated_exchange(unsigned mask, int lane, unsigned long value);  // the value of a lane of a mask
unsigned long emulated_vote(unsigned mask, int mine, unsigned long);            // the lanes of a mask that vote
}

namespace emulated {

struct Index {
    unsigned x, y;
};

extern Index thread_index, block_index, block_size, grid_size;
extern unsigned char dynamic_shared[];

[[noreturn]] void fail(const char* why);
void arrive(unsigned mask);                        // a barrier of the lanes that a mask names
void arrive_in_block();                            // a barrier of the block
bool vote_in_block(bool mine);                     // whether any thread of the block votes
void sleep();                                      // sometimes, if blocks run at the same time
const char* launch(const unsigned* grid, void (*kernel)());

// Calls a function of the runtime. Where accesses are counted, the compiler may keep what it has loaded before, as CUDA's
// compiler does around shuffles and ballots; behind barriers it loads again.
typedef unsigned long Exchange(unsigned, int, unsigned long);
static inline unsigned long called(Exchange* function, unsigned mask, int lane, unsigned long value)
{
#if defined(COUNTING) && defined(__x86_64__)
    unsigned long result;
    asm volatile("movq %%rsp, %%rbx\n\tandq $-16, %%rsp\n\tcall *%%rax\n\tmovq %%rbx, %%rsp"
                 : "=a"(result), "+D"(mask), "+S"(lane), "+d"(value)
                 : "a"(function)
                 : "rbx", "rcx", "r8", "r9", "r10", "r11", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return result;
#else
    return function(mask, lane, value);
#endif
}

// A launch of a kernel with arguments by address, `sizes` bytes each. Returns the failure, or null.
template <class... Parameters, size_t... Places>
const char* launch(void (*kernel)(Parameters...), std::index_sequence<Places...>, const unsigned* grid,
                   void** arguments, const unsigned* sizes)
{
    const bool fitting[] = {sizes[Places] == sizeof(Parameters)...};
    for (bool fits : fitting)
        if (!fits) return "an argument has another size than its parameter";
    static void (*chosen)(Parameters...);
    static void** given;
    chosen = kernel, given = arguments;
    return launch(grid, []() __attribute__((no_sanitize("thread"))) { chosen(*static_cast<Parameters*>(given[Places])...); });
}
template <class... Parameters>
const char* launch(void (*kernel)(Parameters...), const unsigned* grid, void** arguments, const unsigned* sizes)
{
    return launch(kernel, std::index_sequence_for<Parameters...>(), grid, arguments, sizes);
}

}  // namespace emulated

#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define blockDim emulated::block_size
#define gridDim emulated::grid_size

// Barriers, and exchanges between the lanes that a mask names ----------------------------------------------------------------
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated::arrive(mask); }
static inline void __syncthreads() { emulated::arrive_in_block(); }
static inline bool __syncthreads_or(int mine) { return emulated::vote_in_block(mine); }
static inline unsigned __ballot_sync(unsigned mask, int mine) { return emulated::called(emulated_vote, mask, mine != 0, 0); }
static inline bool __any_sync(unsigned mask, int mine) { return __ballot_sync(mask, mine) != 0; }
// The value of a lane that the mask does not name is undefined.
template <class Value> static inline Value __shfl_sync(unsigned mask, Value value, int lane)
{
    static_assert(sizeof(Value) <= 8, "a value of up to 8 bytes");
    unsigned long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulated::called(emulated_exchange, mask, lane, bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <class Value> static Value __shfl_up_sync(unsigned mask, Value value, int offset)
{
    const int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane >= offset ? lane - offset : lane);
}
template <class Value> static Value __shfl_down_sync(unsigned mask, Value value, int offset)
{
    const int lane = threadIdx.x % 32;
    return __shfl_sync(mask, value, lane + offset < 32 ? lane + offset : lane);
}
template <class Value> static Value __shfl_xor_sync(unsigned mask, Value value, int bits)
{
    return __shfl_sync(mask, value, threadIdx.x % 32 ^ bits);
}

// Memory ----------------------------------------------------------------------------------------------------------------------
#ifdef CONCURRENT
template <class Value, class Next> static inline Value updated(Value* target, Next next)
{
    Value before, after;
    __atomic_load(target, &before, __ATOMIC_SEQ_CST);
    do after = next(before);
    while (!__atomic_compare_exchange(target, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return before;
}
#else
template <class Value, class Next> static inline Value updated(Value* target, Next next)
{
    const Value before = *const_cast<volatile Value*>(target);
    *const_cast<volatile Value*>(target) = next(before);
    return before;
}
#endif
template <class Value, class Other> static Value atomicAdd(Value* target, Other value)
{
    return updated(target, [=](Value before) { return before + value; });
}
template <class Value> static Value atomicMin(Value* target, Value value)
{
    return updated(target, [=](Value before) { return value < before ? value : before; });
}
template <class Value> static Value atomicMax(Value* target, Value value)
{
    return updated(target, [=](Value before) { return value > before ? value : before; });
}
template <class Value> static Value atomicExch(Value* target, Value value)
{
    return updated(target, [=](Value) { return value; });
}
template <class Value> static Value atomicCAS(Value* target, Value wanted, Value value)
{
    return updated(target, [=](Value before) { return before == wanted ? value : before; });
}
static inline unsigned atomicInc(unsigned* target, unsigned last)
{
    return updated(target, [=](unsigned before) { return before >= last ? 0 : before + 1; });
}
static inline float __ldca(const float* source) { return *source; }
template <class Value> static inline Value __ldcg(const Value* source) { return *source; }
template <class Value> static inline void __stcg(Value* target, Value value) { *target = value; }
#ifdef CONCURRENT
static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    emulated::sleep();
}
#else
static inline void __threadfence() {}
#endif
[[noreturn]] static inline void __trap() { emulated::fail("it trapped"); }

// Instructions that kernels name, with points replaced by underscores ---------------------------------------------------------
static inline void min_NaN_f32(float& result, float a, float b) { result = a < b || a != a ? a : b; }
static inline void max_NaN_f32(float& result, float a, float b) { result = a > b || a != a ? a : b; }
static inline void lg2_approx_ftz_f32(float& result, float x) { result = log2f(x); }
static inline void red_global_add_v2_f32(float* target, float a, float b)
{
    updated(reinterpret_cast<Two*>(target), [=](Two before) { return before + Two{a, b}; });
}
static inline void red_global_add_v4_f32(float* target, float a, float b, float c, float d)
{
    updated(reinterpret_cast<Four*>(target), [=](Four before) { return before + Four{a, b, c, d}; });
}

// Numbers ---------------------------------------------------------------------------------------------------------------------
static inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
static inline int __ffs(unsigned bits) { return __builtin_ffs(bits); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class To, class From> static inline To bits_as(From from)
{
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int bits) { return bits_as<float>(bits); }
static inline int __float_as_int(float value) { return bits_as<int>(value); }
template <class One, class Other> static inline auto min(One one, Other other) { return other < one ? other : one; }
template <class One, class Other> static inline auto max(One one, Other other) { return one < other ? other : one; }

// CUDA's built-in variables and functions on a CPU, as far as the generated kernels use them.
//
// The blocks of a launch run one after another. A thread of a block is a fiber, which runs until it waits for others:
// at a barrier of the block, or where the lanes that a mask names exchange values. Nothing else parts what threads do, so
// atomic operations are plain ones, and memory is as the order of the fibers has it: ascending and descending numbers by
// turns. A race is seen only where one of these orders brings a wrong result; weak memory is not seen at all.
//
// A launch fails where threads wait for each other forever, where a lane uses a mask that it is not in, where
// a kernel writes behind its dynamic shared memory, and where an argument has another size than its parameter.
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <ucontext.h>
#include <utility>

#define __device__
#define __host__
#define __global__
#define __shared__ static  // blocks run one after another
#define __launch_bounds__(...)

struct float4 {
    float x, y, z, w;
};

namespace emulated {

constexpr int MOST_THREADS = 1024, MOST_MASKS = 96;
constexpr size_t STACK = 1 << 18, MOST_SHARED = 1 << 18, GUARD = 64;
constexpr unsigned char POISON = 0xff;  // as floats: NaN

struct Index {
    unsigned x, y;
};

struct Barrier {
    unsigned mask, arrived, generation;
};

struct Fiber {
    jmp_buf place;
    ucontext_t start;
    bool started, done;
    const unsigned* awaited;  // a generation that has to change first
    unsigned seen;
    alignas(8) unsigned char told[8];  // what it shows to the other lanes
};

static Index thread_index, block_index, grid_size;
static int threads;
static Fiber fibers[MOST_THREADS];
static jmp_buf scheduler;
static Barrier of_block, of_warp[MOST_THREADS / 32][MOST_MASKS];
static int voted;
static const char* failure;
static void (*body)();
alignas(64) static unsigned char dynamic_shared[MOST_SHARED + GUARD];

[[noreturn]] static void fail(const char* why)
{
    failure = why;
    _longjmp(scheduler, 1);
}

static Fiber& self() { return fibers[thread_index.x]; }

static void arrive(Barrier& barrier, unsigned all)
{
    if (++barrier.arrived == all) {
        barrier.arrived = 0;
        ++barrier.generation;
        return;
    }
    self().awaited = &barrier.generation;
    self().seen = barrier.generation;
    if (!_setjmp(self().place)) _longjmp(scheduler, 1);
}

static void arrive(unsigned mask)
{
    if (!(mask >> thread_index.x % 32 & 1)) fail("a lane uses a mask that it is not in");
    for (Barrier& barrier : of_warp[thread_index.x / 32]) {
        if (barrier.mask == 0) barrier.mask = mask;
        if (barrier.mask == mask) return arrive(barrier, __builtin_popcount(mask));
    }
    fail("more masks of one warp than are looked after");
}

static void enter()
{
    body();
    self().done = true;
    _longjmp(scheduler, 1);
}

static void resume(int number)
{
    Fiber& fiber = fibers[number];
    thread_index.x = number;
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.start);
}

static void prepare(int number)
{
    static unsigned char stacks[MOST_THREADS][STACK];
    Fiber& fiber = fibers[number];
    fiber.started = fiber.done = false;
    fiber.awaited = nullptr;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = stacks[number];
    fiber.start.uc_stack.ss_size = STACK;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, enter, 0);
}

static void run_block(unsigned shared, bool descending)
{
    memset(of_warp, 0, sizeof of_warp);
    of_block = Barrier{};
    voted = 0;
    memset(dynamic_shared, POISON, shared + GUARD);
    for (int i = 0; i < threads; ++i) prepare(i);
    for (int left = threads; left > 0;) {
        bool moved = false;
        for (int i = 0; i < threads && !failure; ++i) {
            const int number = descending ? threads - 1 - i : i;
            Fiber& fiber = fibers[number];
            if (fiber.done || (fiber.awaited && *fiber.awaited == fiber.seen)) continue;
            moved = true;
            fiber.awaited = nullptr;
            resume(number);
            left -= fiber.done;
        }
        if (!moved && !failure) failure = "threads wait for others that have ended, or wait elsewhere";
        if (failure) return;
    }
    for (size_t i = 0; i < GUARD; ++i)
        if (dynamic_shared[shared + i] != POISON) failure = "it wrote behind its dynamic shared memory";
}

static const char* launch(unsigned blocks, unsigned rows_of_blocks, unsigned threads_of_block, unsigned shared,
                          void (*kernel)())
{
    static unsigned launches = 0;
    if (threads_of_block > MOST_THREADS || shared > MOST_SHARED) return "more threads or shared memory than there are";
    ++launches;
    threads = threads_of_block, grid_size.x = blocks, grid_size.y = rows_of_blocks, body = kernel, failure = nullptr;
    for (block_index.y = 0; block_index.y < rows_of_blocks; ++block_index.y)
        for (block_index.x = 0; block_index.x < blocks && !failure; ++block_index.x)
            run_block(shared, (launches + block_index.x) & 1);
    return failure;
}

// A launch of a kernel with arguments by address, `sizes` bytes each; returns what went wrong, or nothing.
template <class... Parameters, size_t... Places>
static const char* launch(void (*kernel)(Parameters...), std::index_sequence<Places...>, const unsigned* grid, void** arguments,
                          const unsigned* sizes)
{
    const bool fitting[] = {sizes[Places] == sizeof(Parameters)...};
    for (bool fits : fitting)
        if (!fits) return "an argument has another size than its parameter";
    static void (*chosen)(Parameters...);
    static void** given;
    chosen = kernel, given = arguments;
    return launch(grid[0], grid[1], grid[2], grid[3], [] { chosen(*static_cast<Parameters*>(given[Places])...); });
}
template <class... Parameters>
static const char* launch(void (*kernel)(Parameters...), const unsigned* grid, void** arguments, const unsigned* sizes)
{
    return launch(kernel, std::index_sequence_for<Parameters...>(), grid, arguments, sizes);
}

}  // namespace emulated

#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define gridDim emulated::grid_size

// Barriers, and exchanges between the lanes that a mask names -----------------------------------------------------------------
static void __syncwarp(unsigned mask = 0xffffffffu) { emulated::arrive(mask); }
static void __syncthreads() { emulated::arrive(emulated::of_block, emulated::threads); }
static bool __syncthreads_or(int mine)
{
    if (mine) ++emulated::voted;
    __syncthreads();
    const bool some = emulated::voted > 0;
    __syncthreads();
    emulated::voted = 0;
    __syncthreads();
    return some;
}
// What a lane that the mask does not name has is undefined.
template <class Value> static Value __shfl_sync(unsigned mask, Value value, int lane)
{
    static_assert(sizeof(Value) <= 8, "a value of up to 8 bytes");
    memcpy(emulated::self().told, &value, sizeof value);
    emulated::arrive(mask);
    lane &= 31;
    if (mask >> lane & 1) memcpy(&value, emulated::fibers[threadIdx.x / 32 * 32 + lane].told, sizeof value);
    else memset(&value, emulated::POISON, sizeof value);
    emulated::arrive(mask);
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
static unsigned __ballot_sync(unsigned mask, int mine)
{
    emulated::self().told[0] = mine != 0;
    emulated::arrive(mask);
    unsigned all = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && emulated::fibers[threadIdx.x / 32 * 32 + lane].told[0]) all |= 1u << lane;
    emulated::arrive(mask);
    return all;
}
static bool __any_sync(unsigned mask, int mine) { return __ballot_sync(mask, mine) != 0; }

// Memory: no other thread runs in between -------------------------------------------------------------------------------------
template <class Value, class Other> static Value atomicAdd(Value* target, Other value)
{
    const Value before = *target;
    *target = before + value;
    return before;
}
template <class Value> static Value atomicMin(Value* target, Value value)
{
    const Value before = *target;
    *target = value < before ? value : before;
    return before;
}
template <class Value> static Value atomicMax(Value* target, Value value)
{
    const Value before = *target;
    *target = value > before ? value : before;
    return before;
}
template <class Value> static Value atomicExch(Value* target, Value value)
{
    const Value before = *target;
    *target = value;
    return before;
}
static unsigned atomicInc(unsigned* target, unsigned last)
{
    const unsigned before = *target;
    *target = before >= last ? 0 : before + 1;
    return before;
}
static float __ldca(const float* source) { return *source; }
static void __threadfence() {}
[[noreturn]] static void __trap() { emulated::fail("it trapped"); }

// Numbers ------------------------------------------------------------------------------------------------------------------------
static int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class To, class From> static To bits_as(From from)
{
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static float __int_as_float(int bits) { return bits_as<float>(bits); }
static int __float_as_int(float value) { return bits_as<int>(value); }
template <class One, class Other> static auto min(One one, Other other) { return other < one ? other : one; }
template <class One, class Other> static auto max(One one, Other other) { return one < other ? other : one; }

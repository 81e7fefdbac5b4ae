// Runs the blocks of a launch one after another on the CPU.
//
// A thread of a block is a fiber, which runs until it waits for others: at a barrier of the block, or where the lanes that a
// mask names exchange values. Memory is as the order of the fibers has it: ascending and descending numbers alternately. A
// race is found only if one of these orders gives a wrong result, or with RACES; weak memory is not emulated.
//
// A launch fails if threads wait for each other forever, if a lane uses a mask that it is not in, if a kernel writes behind
// its dynamic shared memory, or if an argument has another size than its parameter.
//
// With COUNTING, a launch runs a sample of the blocks and counts their accesses (counting.h). With RACES, a launch
// fails if accesses of threads are not ordered (races.h). With CONCURRENT, a launch runs one block only if emulated_block
// is its number: the caller launches each block in a copy of the library and a thread of its own.
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <unistd.h>
#include <ucontext.h>

namespace emulated {

struct Index {
    unsigned x, y;
};

constexpr int MOST_THREADS = 1024, MOST_MASKS = 96;
constexpr size_t STACK = 1 << 18, MOST_SHARED = 1 << 18, GUARD = 64;
constexpr unsigned char POISON = 0xff;  // as floats: NaN

struct Barrier {
    unsigned mask, arrived, generation;
};

struct Fiber {
    jmp_buf place;
    ucontext_t start;
    bool waiting_for_work;  // behind the end of a kernel, from where it can begin the next one
    bool begun, done;
    const unsigned* awaited;  // a generation that has to change first
    unsigned seen;
    unsigned long shown;  // to the other lanes
};

Index thread_index, block_index, block_size, grid_size;
alignas(64) unsigned char dynamic_shared[MOST_SHARED + GUARD];
static unsigned char stacks[MOST_THREADS][STACK];
static int threads;
static Fiber fibers[MOST_THREADS];
static jmp_buf scheduler;
static Barrier of_block, of_warp[MOST_THREADS / 32][MOST_MASKS];
static int voted;
static unsigned long arrivals;  // of threads at barriers
static const char* failure;
static void (*body)();

[[noreturn]] static void leave() { _longjmp(scheduler, 1); }

[[noreturn]] void fail(const char* why)
{
    failure = why;
    leave();
}

}  // namespace emulated

#ifdef COUNTING
#include "counting.h"
#elif defined RACES
#include "races.h"
#else
namespace emulated {
static void begin_block() {}
static void completes(const Barrier&) {}
static void lanes_meet(int) {}
static bool block_is_cut() { return false; }
}
#endif

namespace emulated {

static Fiber& self() { return fibers[thread_index.x]; }

static void arrive(Barrier& barrier, unsigned all)
{
    ++arrivals;
    if (++barrier.arrived == all) {
        completes(barrier);
        if (&barrier == &of_block)
            for (int warp = 0; 32 * warp < threads; ++warp) lanes_meet(warp);
        else if (all == 32) lanes_meet(thread_index.x / 32);
        barrier.arrived = 0;
        ++barrier.generation;
        return;
    }
    self().awaited = &barrier.generation;
    self().seen = barrier.generation;
    if (!_setjmp(self().place)) leave();
}

void arrive(unsigned mask)
{
    if (!(mask >> thread_index.x % 32 & 1)) fail("a lane uses a mask that it is not in");
    for (Barrier& barrier : of_warp[thread_index.x / 32]) {
        if (barrier.mask == 0) barrier.mask = mask;
        if (barrier.mask == mask) return arrive(barrier, __builtin_popcount(mask));
    }
    fail("more masks of one warp than are looked after");
}

void arrive_in_block() { arrive(of_block, threads); }

bool vote_in_block(bool mine)
{
    voted += mine;
    arrive_in_block();
    const bool some = voted > 0;
    arrive_in_block();
    voted = 0;
    arrive_in_block();
    return some;
}

static Fiber& fiber_of(int lane) { return fibers[thread_index.x / 32 * 32 + lane]; }

static void enter()
{
    for (;;) {
        body();
        self().done = self().waiting_for_work = true;
        if (!_setjmp(self().place)) leave();
    }
}

static void resume(int number)
{
    Fiber& fiber = fibers[number];
    thread_index.x = number;
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.start);
}

static void prepare(int number)
{
    Fiber& fiber = fibers[number];
    const bool ready = fiber.waiting_for_work;
    fiber.done = fiber.waiting_for_work = false;
    fiber.awaited = nullptr;
    if (ready) return;
    fiber.begun = false;
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
    begin_block();
    for (int i = 0; i < threads; ++i) prepare(i);
    for (int left = threads; left > 0;) {
        bool moved = false;
        for (int i = 0; i < threads && !failure && !block_is_cut(); ++i) {
            const int number = descending ? threads - 1 - i : i;
            Fiber& fiber = fibers[number];
            if (fiber.done || (fiber.awaited && *fiber.awaited == fiber.seen)) continue;
            moved = true;
            fiber.awaited = nullptr;
            resume(number);
            left -= fiber.done;
        }
        if (block_is_cut()) return;
        if (!moved && !failure) failure = "threads wait for others that have ended, or wait elsewhere";
        if (failure) return;
    }
    for (int warp = 0; 32 * warp < threads; ++warp) lanes_meet(warp);
    for (size_t i = 0; i < GUARD; ++i)
        if (dynamic_shared[shared + i] != POISON) failure = "it wrote behind its dynamic shared memory";
}

}  // namespace emulated

#ifdef CONCURRENT
extern "C" __attribute__((visibility("default"))) unsigned emulated_block = ~0u;  // all blocks, one after another
#endif

namespace emulated {

#ifdef CONCURRENT
void sleep()
{
    static unsigned drawn = 0;
    drawn = (drawn + emulated_block + 1) * 1664525u + 1013904223u;
    if (drawn >> 30 == 0) usleep(drawn >> 16 & 255);
}
#endif

// grid: blocks, rows of blocks, threads of a block, bytes of dynamic shared memory. Returns the failure, or null.
const char* launch(const unsigned* grid, void (*kernel)())
{
    static unsigned launches = 0;
    if (grid[2] > MOST_THREADS || grid[3] > MOST_SHARED) return "more threads or shared memory than there are";
    ++launches;
    grid_size = {grid[0], grid[1]}, block_size = {grid[2], 1}, threads = grid[2], body = kernel, failure = nullptr;
#ifdef COUNTING
    return run_sample(grid[3], run_block);
#else
#ifdef CONCURRENT
    if (emulated_block != ~0u) {
        block_index = {emulated_block, 0};
        run_block(grid[3], (launches + emulated_block) & 1);
        return failure;
    }
#endif
    for (block_index.y = 0; block_index.y < grid_size.y; ++block_index.y)
        for (block_index.x = 0; block_index.x < grid_size.x && !failure; ++block_index.x)
            run_block(grid[3], (launches + block_index.x) & 1);
    return failure;
#endif
}

}  // namespace emulated

extern "C" unsigned long emulated_exchange(unsigned mask, int lane, unsigned long value)
{
    using namespace emulated;
    self().shown = value;
    arrive(mask);
    lane &= 31;
    const unsigned long found = mask >> lane & 1 ? fiber_of(lane).shown : ~0ul;  // as floats: NaN
    arrive(mask);
    return found;
}

extern "C" unsigned long emulated_vote(unsigned mask, int mine, unsigned long)
{
    using namespace emulated;
    self().shown = mine;
    arrive(mask);
    unsigned long all = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && fiber_of(lane).shown) all |= 1ul << lane;
    arrive(mask);
    return all;
}

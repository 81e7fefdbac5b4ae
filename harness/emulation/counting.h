// Counts the requests of warps to global memory. Compiled into runtime.cpp, which includes it.
//
// The compiler optimizes a kernel and then reports each remaining access to memory, by the calls that it inserts for
// detecting data races (-fsanitize=thread), and each basic block (-fsanitize-coverage=trace-pc). The return address of such a
// call identifies the instruction. So loads that the compiler merges, keeps in registers or moves out of a loop are counted
// as on a GPU.
//
// A thread runs alone and keeps a trace of its accesses. The lanes of a warp are aligned afterwards: of the next accesses of
// all lanes, those of the instruction at the lowest address form the next request. A jump backwards is an event at the
// address of its origin, so a lane that leaves a loop early, or goes around an outer one, waits for the others behind the
// inner one, where a GPU makes the lanes converge as well.
#include <cstdint>
#include <cstdlib>

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));  // this library from its first byte
extern char _end[] __attribute__((visibility("hidden")));          // to its last one, with the stacks of the fibers
}

namespace emulated {

constexpr size_t MOST_EVENTS = 1 << 21;  // of a thread between two meetings of its warp; a block has 16 times as many accesses
constexpr uint64_t LEAST_BLOCKS = 16, SWITCH = 8;  // a switch of threads takes as long as SWITCH uncounted accesses
enum Kind : uint64_t { LOAD, STORE, ATOMIC, JUMP };

struct Event {
    uint64_t order;  // twice the address of the instruction; one more: a jump backwards from there
    uint64_t address : 48, size : 13, kind : 2, is_volatile : 1;
};

struct Trace {
    Event* events;
    size_t count, room, at;
    uint64_t last;  // the address of the latest instruction
};

struct Counts {
    double load_requests, load_sectors, load_bytes, atomic_requests, atomic_sectors, atomic_lines;
    double covered;  // elements of the covered array that no earlier load has read
    double cut;      // the block had too many accesses; the rest was omitted
};

// What a launch runs and counts, set by the host. `order`: numbers of blocks, of which as many run as it takes to count
// `budget` accesses of lanes, and at least LEAST_BLOCKS. Global memory is between `low` and `high`. `seen`: a byte for each 4 bytes from
// `covered_low` to `covered_high`.
struct Sample {
    const uint64_t* order;
    uint64_t blocks, budget, taken;
    Counts* counts;  // of each block that ran; null: nothing is counted
    uint64_t effort;  // accesses counted, and SWITCH for every thread that arrived at a barrier
    uint64_t low, high, covered_low, covered_high;
    unsigned char* seen;
};

static Sample sample;
static Trace traces[MOST_THREADS];
static Counts counts;
static uint64_t accesses_of_block, accesses_of_launch;
static bool cut, recording;

static bool block_is_cut() { return cut; }
static void completes(const Barrier&) {}

static void begin_block()
{
    for (Trace& trace : traces) trace.count = trace.at = trace.last = 0;
    accesses_of_block = 0;
    cut = false;
}

static inline void note(Trace& trace, const Event& event)
{
    if (trace.count == trace.room) {
        if (trace.count >= MOST_EVENTS) cut = true, leave();
        trace.room = trace.room ? 2 * trace.room : 256;
        trace.events = static_cast<Event*>(realloc(trace.events, trace.room * sizeof(Event)));
        if (!trace.events) fail("there is no memory for its accesses");
    }
    trace.events[trace.count++] = event;
}

static inline __attribute__((always_inline)) void note_access(void* where, unsigned size, Kind kind, bool is_volatile)
{
    const uint64_t address = reinterpret_cast<uint64_t>(where);
    if (!recording || address < sample.low || address >= sample.high) return;
    if (address >= uint64_t(__ehdr_start) && address < uint64_t(_end)) return;
    Trace& trace = traces[thread_index.x];
    trace.last = reinterpret_cast<uint64_t>(__builtin_return_address(0));
    if (is_volatile && kind == STORE && trace.count) {
        Event& before = trace.events[trace.count - 1];
        if (before.kind == LOAD && before.is_volatile && before.address == address) {
            before.kind = ATOMIC;
            return;
        }
    }
    note(trace, Event{2 * trace.last, address, size, kind, is_volatile});
}

static void count_loads(const Event* const* lanes, int n)
{
    uint64_t sectors[32 * 16];
    uint32_t bytes[32 * 16];
    int found = 0;
    for (int i = 0; i < n; ++i) {
        const uint64_t first = lanes[i]->address, last = first + lanes[i]->size;
        for (uint64_t at = first; at < last;) {
            const uint64_t sector = at / 32, stop = 32 * sector + 32 < last ? 32 * sector + 32 : last;
            int j = found - 1;
            while (j >= 0 && sectors[j] != sector) --j;
            if (j < 0) {
                if (found == 32 * 16) break;
                j = found++, sectors[j] = sector, bytes[j] = 0;
            }
            bytes[j] |= uint32_t(((uint64_t(1) << (stop - at)) - 1) << at % 32);
            at = stop;
        }
        if (first >= sample.covered_low && first < sample.covered_high) {
            unsigned char& seen = sample.seen[(first - sample.covered_low) / 4];
            counts.covered += !seen;
            seen = 1;
        }
    }
    counts.load_requests += 1, counts.load_sectors += found;
    for (int j = 0; j < found; ++j) counts.load_bytes += __builtin_popcount(bytes[j]);
}

// Lanes that access one address are serialized: its sector and its line count again for each.
static void count_atomics(const Event* const* lanes, int n)
{
    int turn[32];
    counts.atomic_requests += 1;
    for (int i = 0; i < n; ++i) {
        turn[i] = 0;
        for (int j = 0; j < i; ++j) turn[i] += lanes[j]->address == lanes[i]->address;
        bool new_sector = true, new_line = true;
        for (int j = 0; j < i; ++j) {
            new_sector &= turn[j] != turn[i] || lanes[j]->address / 32 != lanes[i]->address / 32;
            new_line &= turn[j] != turn[i] || lanes[j]->address / 128 != lanes[i]->address / 128;
        }
        counts.atomic_sectors += new_sector, counts.atomic_lines += new_line;
    }
}

// Aligns the lanes of a warp, all of which have come to one place, and counts their requests since the previous one.
static void lanes_meet(int warp)
{
    if (!recording) return;
    Trace* const trace = traces + 32 * warp;
    const int lanes = threads - 32 * warp < 32 ? threads - 32 * warp : 32;
    for (;;) {
        uint64_t least = ~uint64_t(0);
        for (int i = 0; i < lanes; ++i)
            if (trace[i].at < trace[i].count && trace[i].events[trace[i].at].order < least)
                least = trace[i].events[trace[i].at].order;
        if (least == ~uint64_t(0)) break;
        const Event* together[32];
        int n = 0;
        for (int i = 0; i < lanes; ++i)
            if (trace[i].at < trace[i].count && trace[i].events[trace[i].at].order == least)
                together[n++] = &trace[i].events[trace[i].at++];
        if (together[0]->kind != JUMP) accesses_of_block += n;
        if (together[0]->kind == LOAD) count_loads(together, n);
        if (together[0]->kind == ATOMIC) count_atomics(together, n);
    }
    for (int i = 0; i < lanes; ++i) trace[i].at = trace[i].count = 0;
    if (accesses_of_block > 16 * MOST_EVENTS) cut = true;
}

static const char* run_sample(unsigned shared, void (*run_block)(unsigned, bool))
{
    accesses_of_launch = 0;
    arrivals = 0;
    recording = sample.counts;
    for (sample.taken = 0; sample.taken < sample.blocks && !failure; ++sample.taken) {
        if (accesses_of_launch > sample.budget && sample.taken >= LEAST_BLOCKS) break;
        const uint64_t number = sample.order[sample.taken];
        block_index = {unsigned(number % grid_size.x), unsigned(number / grid_size.x)};
        counts = Counts{};
        run_block(shared, false);
        if (cut)
            for (int warp = 0; 32 * warp < threads; ++warp) lanes_meet(warp);
        counts.cut = cut;
        if (recording) sample.counts[sample.taken] = counts;
        accesses_of_launch += accesses_of_block;
    }
    sample.effort = accesses_of_launch + SWITCH * arrivals;
    recording = false;
    return failure;
}

}  // namespace emulated

extern "C" {
__attribute__((visibility("default"))) emulated::Sample* sample() { return &emulated::sample; }

#define ACCESSES(size)                                                                                         \
    void __tsan_read##size(void* at) { emulated::note_access(at, size, emulated::LOAD, false); }               \
    void __tsan_write##size(void* at) { emulated::note_access(at, size, emulated::STORE, false); }             \
    void __tsan_unaligned_read##size(void* at) { emulated::note_access(at, size, emulated::LOAD, false); }     \
    void __tsan_unaligned_write##size(void* at) { emulated::note_access(at, size, emulated::STORE, false); }   \
    void __tsan_volatile_read##size(void* at) { emulated::note_access(at, size, emulated::LOAD, true); }       \
    void __tsan_volatile_write##size(void* at) { emulated::note_access(at, size, emulated::STORE, true); }     \
    void __tsan_unaligned_volatile_read##size(void* at) { emulated::note_access(at, size, emulated::LOAD, true); } \
    void __tsan_unaligned_volatile_write##size(void* at) { emulated::note_access(at, size, emulated::STORE, true); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* at, unsigned long size) { emulated::note_access(at, size, emulated::LOAD, false); }
void __tsan_write_range(void* at, unsigned long size) { emulated::note_access(at, size, emulated::STORE, false); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __sanitizer_cov_trace_pc()
{
    if (!emulated::recording) return;
    const uint64_t here = reinterpret_cast<uint64_t>(__builtin_return_address(0));
    emulated::Trace& trace = emulated::traces[emulated::thread_index.x];
    if (here <= trace.last) emulated::note(trace, emulated::Event{2 * trace.last + 1, 0, 0, emulated::JUMP, false});
    trace.last = here;
}
}

// Finds races: accesses of several threads to one address, the order of which nothing determines. Compiled into runtime.cpp,
// which includes it.
//
// The compiler reports every access of a kernel by a call (-fsanitize=thread); those of atomic operations are volatile. Two
// accesses in a launch are ordered if the same thread does both, if a barrier of the block completes between them, or if the
// threads are in one warp and the second one takes part in a barrier of lanes that completes between them. Blocks of a launch
// are not ordered.
//
// Unordered writes are legal if both are atomic or both write the same value; otherwise an update can be lost. An unordered
// write and read are legal in global memory, where kernels may read values that other threads replace, and illegal in shared
// memory. Of several reads since a write, only the latest one is examined, and the latest one of an atomic operation.
#include <cstdint>
#include <cstdio>

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));  // this library from its first byte
extern char _end[] __attribute__((visibility("hidden")));          // to its last one: shared memory, and stacks of fibers
}

namespace emulated {

constexpr uint64_t MOST_WORDS = 1 << 18, MOST_ARRAYS = 128;

struct Access {
    uint64_t launch, time;
    unsigned block, thread, value;
    bool atomic;
};

struct Word {
    uint64_t address, launch;
    Access write, read, atomic_read;  // the latest
};

struct Array {
    uint64_t first, last;
};

static Word words[MOST_WORDS];  // by a hash of the address
static uint64_t used;
static Array arrays[MOST_ARRAYS];
static uint64_t launch_number, now, block_met, warp_met[MOST_THREADS];
static Access pending;  // a write that is reported, but not done yet
static uint64_t pending_address;
static unsigned pending_size;
static char race[200];

static void begin_block() {}
static void lanes_meet(int) {}
static bool block_is_cut() { return false; }

static void completes(const Barrier& barrier)
{
    ++now;
    if (&barrier == &of_block) block_met = now;
    else
        for (int lane = 0; lane < 32; ++lane)
            if (barrier.mask >> lane & 1) warp_met[thread_index.x / 32 * 32 + lane] = now;
}

static bool in_shared_memory(uint64_t address)
{
    const bool of_library = address >= uint64_t(__ehdr_start) && address < uint64_t(_end);
    return of_library && (address < uint64_t(stacks) || address >= uint64_t(stacks) + sizeof stacks);
}

static bool examined(uint64_t address)
{
    for (const Array* array = arrays; array->last; ++array)
        if (address >= array->first && address < array->last) return true;
    return in_shared_memory(address);
}

static bool ordered(const Access& before, const Access& after, bool shared)
{
    if (before.launch != launch_number) return true;
    if (before.block != after.block) return shared;  // each has its own
    if (before.thread == after.thread || block_met > before.time) return true;
    return before.thread / 32 == after.thread / 32 && warp_met[after.thread] > before.time;
}

static Word& word_at(uint64_t address)
{
    uint64_t place = address * 0x9e3779b97f4a7c15u % MOST_WORDS;
    while (words[place].launch == launch_number && words[place].address != address) place = (place + 1) % MOST_WORDS;
    Word& word = words[place];
    if (word.launch != launch_number && 2 * ++used > MOST_WORDS) fail("it accesses more words than are examined");
    word.address = address, word.launch = launch_number;
    return word;
}

static void report(const Access& before, const char* verb, const Access& after, const char* and_verb, const char* how)
{
    if (!race[0])
        snprintf(race, sizeof race, "thread %u of block %u %s and thread %u of block %u %s one address%s, in no order",
                 before.thread, before.block, verb, after.thread, after.block, and_verb, how);
}

static void finish_word(uint64_t address, unsigned size)
{
    Access after = pending;
    for (unsigned i = 0; i < size; ++i) after.value |= unsigned(reinterpret_cast<unsigned char*>(address)[i]) << 8 * i;
    Word& word = word_at(address);
    const Access& before = word.write;
    const bool shared = in_shared_memory(address);
    const bool alike = before.atomic && after.atomic || !before.atomic && !after.atomic && before.value == after.value;
    if (!alike && !ordered(before, after, shared))
        report(before, "writes", after, "writes", before.atomic || after.atomic ? ", one of them not atomically" : "");
    if (shared && !ordered(word.read, after, shared)) report(word.read, "reads", after, "writes", "");
    if (shared && !after.atomic && !ordered(word.atomic_read, after, shared))
        report(word.atomic_read, "reads", after, "writes", "");
    word.write = after;
}

static void finish_write()
{
    const unsigned size = pending_size;
    pending_size = 0;
    for (unsigned i = 0; i < size; i += 4) finish_word(pending_address + i, size - i < 4 ? size - i : 4);
}

static Access present(bool atomic)
{
    return {launch_number, ++now, block_index.y * grid_size.x + block_index.x, thread_index.x, 0, atomic};
}

// A write is reported before it is done; its value is known when the next access is reported.
static void note_write(void* where, unsigned size, bool atomic)
{
    if (pending_size) finish_write();
    const uint64_t address = reinterpret_cast<uint64_t>(where);
    if (examined(address)) pending = present(atomic), pending_address = address, pending_size = size;
}

static void note_read(void* where, unsigned size, bool atomic)
{
    const uint64_t address = reinterpret_cast<uint64_t>(where);
    if (!in_shared_memory(address)) return;
    if (pending_size) finish_write();
    const Access read = present(atomic);
    for (unsigned i = 0; i < size; i += 4) {
        Word& word = word_at(address + i);
        if (!(word.write.atomic && atomic) && !ordered(word.write, read, true)) report(word.write, "writes", read, "reads", "");
        (atomic ? word.atomic_read : word.read) = read;
    }
}

}  // namespace emulated

extern "C" {
// `ends`: first and last address of each of `count` arrays in global memory.
__attribute__((visibility("default"))) const char* begin_launch(const uint64_t* ends, uint64_t count)
{
    using namespace emulated;
    if (count >= MOST_ARRAYS) return "it takes more arrays than are examined";
    ++launch_number;
    used = 0;
    race[0] = 0;
    for (uint64_t i = 0; i < count; ++i) arrays[i] = {ends[2 * i], ends[2 * i + 1]};
    arrays[count] = {0, 0};
    return nullptr;
}
__attribute__((visibility("default"))) const char* end_launch()
{
    if (emulated::pending_size) emulated::finish_write();
    return emulated::race[0] ? emulated::race : nullptr;
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define ACCESSES(size)                                                                                        \
    void __tsan_read##size(void* at) { emulated::note_read(at, size, false); }                                \
    void __tsan_write##size(void* at) { emulated::note_write(at, size, false); }                              \
    void __tsan_unaligned_read##size(void* at) { emulated::note_read(at, size, false); }                      \
    void __tsan_unaligned_write##size(void* at) { emulated::note_write(at, size, false); }                    \
    void __tsan_volatile_read##size(void* at) { emulated::note_read(at, size, true); }                        \
    void __tsan_volatile_write##size(void* at) { emulated::note_write(at, size, true); }                      \
    void __tsan_unaligned_volatile_read##size(void* at) { emulated::note_read(at, size, true); }              \
    void __tsan_unaligned_volatile_write##size(void* at) { emulated::note_write(at, size, true); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* at, unsigned long size) { emulated::note_read(at, size, false); }
void __tsan_write_range(void* at, unsigned long size) { emulated::note_write(at, size, false); }
}

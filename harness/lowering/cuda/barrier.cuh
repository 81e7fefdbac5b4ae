// The deadlock-free global barrier (Liu & Huang 2019, sec. 5). Waiting blocks occupy their multiprocessor, so a block
// that is not resident would never arrive. A kernel with such a barrier is therefore launched with at most as many
// blocks as can be resident at once, given its registers and shared memory (eq. 1).
#pragma once

typedef unsigned long long Arrivals;
constexpr unsigned MOST_LOOKS = 1u << 26;  // tens of seconds: a block is lost, and the launch fails instead of hanging

// Arrival increments a counter that is never reset. The last block of the grid to arrive is the monitor, which releases
// all others by a separate word: waiting blocks poll that word, and would delay arrivals at the same address.
class GlobalBarrier {
    Arrivals *const arrivals, *const departures;
    Arrivals wanted = 0;

public:
    // `lock`: two counters, LOCK words apart.
    static constexpr int LOCK = 32;
    __device__ explicit GlobalBarrier(Arrivals* lock) : arrivals(lock), departures(lock + LOCK) {}

    // Every thread of every block of the grid calls this. Writes before the call are visible to all threads after it.
    __device__ void wait()
    {
        wait([] {});
    }

    // The same. One thread calls `between` when all blocks have arrived and none has departed.
    template <class Between> __device__ void wait(Between between)
    {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            const Arrivals before = atomicAdd(arrivals, Arrivals(1));
            wanted = wanted ? wanted + gridDim.x : (before / gridDim.x + 1) * gridDim.x;
            volatile Arrivals* const departed = departures;
            if (before + 1 == wanted) {
                __threadfence();  // writes before the others' arrivals precede their departure
                between();
                __threadfence();
                *departed = wanted;
            }
            unsigned looks = 0;
            while (*departed < wanted)
                if (++looks == MOST_LOOKS) __trap();
            __threadfence();
        }
        __syncthreads();
    }
};

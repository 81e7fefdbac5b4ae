// The deadlock-free global barrier (Liu & Huang 2019, sec. 5).
//
// Blocks that wait hold their multiprocessor, so one that is not resident would never arrive. Whoever launches a kernel
// with such a barrier takes no more blocks than are resident at once: as its registers, and the shared memory, allow
// (eq. 1).
#pragma once

#include "run.cuh"

typedef unsigned long long Arrivals;
constexpr unsigned MOST_LOOKS = 1u << 26;  // tens of seconds: a block is lost, and the launch fails rather than hangs

// Arrival adds one to a count that is never reset. The last block of the grid to arrive is the monitor, and lets all depart
// by one word apart from that count: those that wait look at it, and would hold up arrivals at the same place.
class GlobalBarrier {
    Arrivals *const arrivals, *const departures;
    Arrivals wanted = 0;

public:
    // `lock`: two counts, LOCK words apart.
    static constexpr int LOCK = 32;
    __device__ explicit GlobalBarrier(Arrivals* lock) : arrivals(lock), departures(lock + LOCK) {}

    // Every thread of every block of the grid calls this; what any wrote before, all see after it.
    __device__ void wait()
    {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            const Arrivals before = atomicAdd(arrivals, Arrivals(1));
            wanted = wanted ? wanted + gridDim.x : (before / gridDim.x + 1) * gridDim.x;
            volatile Arrivals* const departed = departures;
            if (before + 1 == wanted) {
                __threadfence();  // what all others wrote before they arrived comes before their departure
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

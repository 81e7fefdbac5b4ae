// Virtual node splitting (Sabet et al. 2018): a vertex of d out-edges is split into ceil(d / BOUND) virtual nodes, with
// a thread each. Edges are interleaved: part p of P has edges p, p + P, p + 2 P, ... of its vertex, so that the threads
// of consecutive parts read consecutive edges ("edge-array coalescing").
#pragma once

#include "threads.cuh"

template <int BOUND> struct VirtualNode {
    EdgeId first, last, stride;

    __device__ VirtualNode(Id source, Id part, const EdgeId* offsets)
    {
        const EdgeId start = offsets[source];
        last = offsets[source + 1];
        const EdgeId degree = last - start;
        stride = (degree + BOUND - 1) / BOUND;
        first = start + part;
    }
};

// A superstep with active vertices (Liu & Huang 2019, fig. 3b): compute on three lists, then filter what is active next.
//
// `Acc` is generated from a program: its arrays, and three functions. `push` sends the messages of a list of active
// vertices along their out-edges. `pull` combines those of a list of vertices from their in-edges. Both use one kind of
// worker. `active` runs a vertex's steps and returns whether its metadata have changed. Results of the computation are
// therefore not visible until a superstep ends: the model is bulk-synchronous.
#pragma once

#include "filters.cuh"

enum class Filter { JIT, ONLINE, BALLOT };

template <class Acc, Filter FILTER, int CAPACITY> struct Superstep {
    typedef Bin<CAPACITY> Bins;
    Acc acc;
    Run* run;
    TaskManager* manager;
    Lists lists;    // of active vertices, by out-degree
    Lists pulled;   // of all vertices, by in-degree
    Ballot ballot;
    Id *bins, *bin_counts;

    // Return whether more than a share of all edges leave the active vertices (sec. 5).
    __device__ bool pulls(const Tasks* now) const { return now->edges > run->dense_edges; }

    // Just-in-time control (fig. 6). In the first superstep all vertices run their steps; a pull reaches most of them.
    __device__ bool scans(const Tasks* now, Count s) const
    {
        if (FILTER == Filter::BALLOT || s == 0) return true;
        return FILTER == Filter::JIT && (pulls(now) || now->overflowed);
    }
    __device__ bool fails(const Tasks* now, Count s) const
    {
        return FILTER == Filter::ONLINE && now->overflowed && s > 0;
    }

    template <class Worker> __device__ void push(int list, Count length, Bins& bin, Count s) const
    {
        acc.template push<Worker>(lists.list(list), Id(length), bin, s, manager->votes);
    }
    template <class Worker> __device__ void pull(int list, Bins& bin, Count s, Count& visited) const
    {
        acc.template pull<Worker>(pulled.list(list), Id(manager->pulled[list]), bin, s, manager->votes, visited);
    }
    __device__ void scan(Tasks* next) const
    {
        ballot.scan(next, lists, acc.out_offsets, [&](Id v) { return acc.active(v); });
    }
    __device__ void write(Tasks* next) const { ballot.write(next, lists, acc.out_offsets); }
    __device__ void join(Bins& bin, Tasks* next) const
    {
        concatenate(bin, next, lists, acc.out_offsets, [&](Id v) { return acc.active(v); });
    }

    // The statistics of a superstep; `how` is 1 for a pull, plus 2 if the ballot filter made the lists.
    __device__ Count how(const Tasks* now, Count s) const { return pulls(now) + 2 * scans(now, s); }
    __device__ Count visited(const Tasks* now) const
    {
        return !pulls(now) ? now->edges : manager->votes ? now->visited : manager->edges;
    }

    // One step per kernel (no fusion, table 2): a thread finds the contents of its bin again in the next kernel.
    template <class Worker> __device__ void push_alone(int list) const
    {
        const Count s = run->superstep;
        Tasks* const now = manager->of(s);
        if (run->over() || pulls(now)) return;
        Bins bin(bins, list == LISTS - 1 ? 0 : bin_counts[thread_of_grid()]);
        push<Worker>(list, now->listed[list], bin, s);
        bin_counts[thread_of_grid()] = bin.count;
        bin.report(now);
    }
    template <class Worker> __device__ void pull_alone(int list) const
    {
        const Count s = run->superstep;
        Tasks* const now = manager->of(s);
        if (run->over() || !pulls(now)) return;
        Bins bin(bins, list == LISTS - 1 ? 0 : bin_counts[thread_of_grid()]);
        Count visited = 0;
        pull<Worker>(list, bin, s, visited);
        bin_counts[thread_of_grid()] = bin.count;
        bin.report(now);
        add_counts(&now->visited, visited);
    }
    __device__ void scan_alone() const
    {
        const Count s = run->superstep;
        if (!run->over() && scans(manager->of(s), s)) scan(manager->of(s + 1));
    }
    __device__ void write_alone() const
    {
        const Count s = run->superstep;
        if (!run->over() && scans(manager->of(s), s)) write(manager->of(s + 1));
    }
    __device__ void join_alone() const
    {
        const Count s = run->superstep;
        Tasks* const now = manager->of(s);
        if (run->over() || scans(now, s) || fails(now, s)) return;
        Bins bin(bins, bin_counts[thread_of_grid()]);
        join(bin, manager->of(s + 1));
    }
    // By one thread: update the state at the end of a superstep.
    __device__ void end_alone() const
    {
        const Count s = run->superstep;
        const Tasks* const now = manager->of(s);
        if (run->over()) return;
        if (fails(now, s)) {
            manager->failed = run->settled = 1;
            return;
        }
        run->moved = manager->of(s + 1)->active();
        run->edges = visited(now);
        run->dense = how(now, s);
        *manager->of(s + 2) = Tasks{};
    }
};

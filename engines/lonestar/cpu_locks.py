"""Online schedules on the CPU: passes in which threads try to lock the ends of edges (sec. IV of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.lonestar.cpu_kernels import counters_of, lock_arrays, locked_kernel, passes_of, stamps_of
from engines.lonestar.orders import INT64, shuffled
from engines.lonestar.schedule import LonestarSchedule
from harness.api import EdgeStep, EngineFailure, Graph, GraphFacts
from harness.api.cpu import Holds, Kernel, PlanDraft, Rows, Run, Step, Table

Array = NDArray[Any]

# Each part moves the edges that it could not lock to the beginning of its range of the list.
EDGE_LOCKED = """
    @part
    kept = at(bounds, t)
    for i in range(at(bounds, t), at(bounds, t + 1)):
        e = at(waiting, i)
        u = int64(at(out_rows, e))
        v = int64(at(out_neighbours, e))
        low = min(u, v)
        high = max(u, v)
        if try_lock(locks, low):
            if try_lock(locks, high):
                @edge
                @stamp
                unlock(locks, high)
                unlock(locks, low)
                continue
            unlock(locks, low)
        waiting[kept] = e
        kept += 1
    left[t] = kept - at(bounds, t)
"""
NODE_LOCKED = """
    @part
    missing = 0
    for n in range(at(bounds, t), at(bounds, t + 1)):
        v = {column}
        for i in range(at(in_offsets, v), at(in_offsets, v + 1)):
            if at(done, i):
                continue
            e = at(in_edge_ids, i)
            u = int64(at(in_neighbours, i))
            if try_lock(locks, u):
                @edge
                @stamp
                unlock(locks, u)
                done[i] = True
            else:
                missing += 1
    left[t] = missing
"""
SMALLEST_PART = 64  # edges
FEWEST = 1024  # edges of a pass on several threads: fewer take less time than the launch of a thread
# Edges of a hub refuse each other its lock in every pass. If a pass runs less than a share of its edges, one thread
# takes all that are left: its locks are free. And the list is shuffled after some passes, so that threads whose edges
# met get others.
LEAST_SHARE, SHUFFLED_AFTER = 0.01, 8


@dataclass(frozen=True)
class InEdgeIds(Table[Array]):
    """The CSR position of each edge, [E], in CSC order."""

    def of(self, graph: Graph) -> Array:
        """Return the graph's own array."""
        return graph.in_edge_ids

    def nbytes(self, graph: GraphFacts) -> int:
        """Return 0: the array is part of the CSC."""
        return 0

    def named(self, made: Array) -> dict[str, Array]:
        """Return the positions as kernels take them."""
        return {"in_edge_ids": made}


@dataclass(frozen=True)
class FirstList(Table[Array]):
    """All edges in the order of the first pass, by their positions in the CSR, int64[E]."""

    shuffle: bool
    seed: int

    def of(self, graph: Graph) -> Array:
        """Return a random order, or that of the CSR."""
        return shuffled(graph.num_edges, self.seed) if self.shuffle else np.arange(graph.num_edges)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return INT64 * graph.num_edges

    def named(self, made: Array) -> dict[str, Array]:
        """Return the list as kernels take it."""
        return {"first_list": made}


@dataclass(frozen=True)
class HubColumns(Table[Array]):
    """The columns of at least ``hub`` edges, the largest first, int64."""

    hub: int

    def of(self, graph: Graph) -> Array:
        """Return the vertices."""
        degrees = np.diff(graph.csc.offsets)
        found = np.flatnonzero(degrees >= self.hub)
        return found[np.argsort(-degrees[found], kind="stable")]

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return INT64 * graph.in_degrees.between(self.hub)

    def named(self, made: Array) -> dict[str, Array]:
        """Return the list as kernels take it."""
        return {"hubs": made}


@dataclass(frozen=True)
class LockedPass:
    """A step under an online schedule. ``first``: of the edge-locked passes; None: there are none.

    ``node_locked``: a pass over columns comes first, and passes over columns follow if there are no others. ``hubs``:
    the columns, which then have passes until all of their edges are done; None: all. ``hand_over``: one thread takes
    all edges that are left once a pass runs few.
    """

    name: str
    node_locked: bool
    first: FirstList | None
    hubs: HubColumns | None = None
    hand_over: bool = True

    def bound(self, run: Run) -> Step:
        """Return the step that runs passes until no edge is left."""
        return Passes(self, run).step


class Passes:
    """The passes of a step in a run."""

    def __init__(self, plan: LockedPass, run: Run) -> None:
        self.plan, self.run = plan, run
        self.first = None if plan.first is None else run.store.table(plan.first)
        self.passes = 0

    def step(self) -> None:
        """Run every edge once. Raises EngineFailure if a pass runs none, or if a lock is held at the end."""
        plan, run, arrays = self.plan, self.run, self.run.memory.arrays
        edges, self.passes = run.rules.graph.num_edges, 0
        waiting = self.first
        if plan.node_locked:
            arrays["done"][:] = False
            done = self._node_passes(edges)
            if waiting is not None and done:
                finished = np.empty(edges, np.bool_)
                finished[arrays["in_edge_ids"]] = arrays["done"]
                waiting = waiting[~finished[waiting]]
        if waiting is not None:
            self._edge_passes(waiting)
        arrays[passes_of(plan.name)][0] = self.passes
        if arrays["locks"].any():
            raise EngineFailure(f"{np.count_nonzero(arrays['locks'])} locks are held after all edges of {plan.name}")
        run.edges += edges

    def _node_passes(self, edges: int) -> int:
        """Run passes over columns: one if other passes follow, else until no edge is left; return the edges done."""
        run, bounds = self.run, self.run.bounds
        if self.plan.hubs is not None:
            hubs = run.store.table(self.plan.hubs)
            edges = int(np.diff(run.store.graph.csc.offsets)[hubs].sum())
            bounds = np.linspace(0, len(hubs), min(run.rules.partition.most, len(hubs)) + 1).astype(np.int64)
        once, left = self.first is not None and self.plan.hubs is None, edges
        while left:
            parts = len(bounds) - 1
            self._call(f"{self.plan.name}_nodes", parts, bounds=bounds)
            before, left = left, int(run.memory.arrays["left"][:parts].sum())
            self._check_progress(before, left)
            if once:
                break
        return edges - left

    def _edge_passes(self, edges: Array) -> None:
        """Run passes over a list of edges until none is left."""
        run, waiting = self.run, self.run.memory.arrays["waiting"]
        waiting[: len(edges)] = edges
        count, starving = len(edges), False
        random = np.random.default_rng(0 if self.plan.first is None else self.plan.first.seed)
        while count:
            parts = min(run.rules.partition.most, -(-count // SMALLEST_PART))
            bounds = np.linspace(0, count, parts + 1).astype(np.int64)
            run.workers = run.threads if count >= FEWEST and not starving else 1
            self._call(f"{self.plan.name}_edges", parts, bounds=bounds)
            left = run.memory.arrays["left"]
            kept = [waiting[first : first + left[part]] for part, first in enumerate(bounds[:-1])]
            again = np.concatenate(kept)
            self._check_progress(count, len(again))
            starving = self.plan.hand_over and count - len(again) < LEAST_SHARE * count
            if self.passes % SHUFFLED_AFTER == 0:
                random.shuffle(again)
            waiting[: len(again)], count = again, len(again)

    def _call(self, kernel: str, parts: int, bounds: Array) -> None:
        arrays, name = self.run.memory.arrays, self.plan.name
        self.passes += 1
        stamps, counters = arrays[stamps_of(name)], arrays[counters_of(name)]
        self.run.call(kernel, parts, bounds=bounds, stamps=stamps, counters=counters)

    def _check_progress(self, before: int, left: int) -> None:
        if left >= before:
            raise EngineFailure(f"a pass of {self.plan.name} ran none of {before} edges: locks were left held")


def plan_locked(draft: PlanDraft, stage: EdgeStep, schedule: LonestarSchedule) -> None:
    """Add the kernels and the pass of a step under a schedule with locks of vertices."""
    facts = draft.setting.facts
    lock_arrays(draft, stage.name, locks=facts.num_vertices, left=draft.setting.partition.most)
    node_locked, first = schedule.order in ("nl", "hybrid", "owner"), None
    hubs = HubColumns(schedule.hub) if schedule.hub is not None else None
    if node_locked:
        draft.array("done", Holds.WORK, "", "bool", facts.num_edges)
        draft.table(InEdgeIds())
        if hubs is not None:
            draft.table(hubs)
        draft.kernels.append(_node_kernel(draft, stage, hubs=hubs is not None))
    if schedule.order != "nl":
        first = FirstList(bool(schedule.shuffle), schedule.seed)
        draft.table(first)
        draft.table(Rows(incoming=False))
        draft.array("waiting", Holds.WORK, "", "int64", facts.num_edges)
        draft.kernels.append(_edge_kernel(draft, stage))
    draft.passes.append(LockedPass(stage.name, node_locked, first, hubs, bool(schedule.hand_over)))


def _edge_kernel(draft: PlanDraft, stage: EdgeStep) -> Kernel:
    ids = draft.setting.ids
    signature = [("waiting", "i64"), ("out_rows", ids), ("out_neighbours", ids)]
    return locked_kernel(draft, stage, f"{stage.name}_edges", EDGE_LOCKED, signature, ("e", "csr_"))


def _node_kernel(draft: PlanDraft, stage: EdgeStep, *, hubs: bool) -> Kernel:
    edge_ids = "ids32" if draft.setting.facts.num_edges <= 1 << 32 else "ids64"
    signature = [
        ("done", "flag"), ("in_offsets", "offsets"), ("in_neighbours", draft.setting.ids), ("in_edge_ids", edge_ids),
        *([("hubs", "i64")] if hubs else []),
    ]  # fmt: skip
    template = NODE_LOCKED.format(column="at(hubs, n)" if hubs else "n")
    return locked_kernel(draft, stage, f"{stage.name}_nodes", template, signature, ("i", "csc_"))

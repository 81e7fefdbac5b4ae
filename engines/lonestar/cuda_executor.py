"""The execution of steps in place on a CUDA device: batches, or passes until no edge is left."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.lonestar.cpu_locks import HubColumns
from engines.lonestar.cuda_plan import columns_take_over
from engines.lonestar.cuda_tables import CudaBatches, CudaHubs
from engines.lonestar.hand_over import MOST_UNITS, by_hub, starving, waiting
from harness.api import EdgeStep, EngineFailure, Superstep
from harness.api.cuda import CudaExecutor, CudaKernel, blocks_of_multiprocessor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from engines.lonestar.schedule import LonestarSchedule
    from harness.api import GraphFacts, Inputs
    from harness.api.cuda import CudaPlan, CudaRun, DeviceStore

# Passes of one launch with barriers of the grid; a launch alone takes about as long as four of these barriers.
MOST_PASSES = 64
PASSES = 3  # of the counts of ``sizes``: passes over edges that have run
PASSES_OF_BOTH = ("nodes", "remaining", "edges")
KERNELS = {"el": ("edges",), "hybrid": PASSES_OF_BOTH, "owner": PASSES_OF_BOTH}


def kernels_of(schedule: LonestarSchedule, facts: GraphFacts) -> tuple[str, ...]:
    """Return what the kernels of a step run, in the order of the plan; *all*: the only one."""
    if schedule.writes == "add":
        return "all", "listing"
    columns = columns_take_over(schedule, facts)
    found = PASSES_OF_BOTH if columns else KERNELS.get(schedule.order, ("all",))
    found = (*found, "owned_columns", "owned") if schedule.hand_over else found
    return (*found, "pending") if columns else found


class LonestarExecutor(CudaExecutor):
    """Run the steps of supersteps one after another, and wait for each pass whose successor depends on it.

    ``passes``: of each step in the last superstep, by name; batches count as passes. ``checks_locks``: all locks are
    downloaded after a step; they must be free.
    """

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        super().__init__(plan, store, self._supersteps)
        self.schedule: LonestarSchedule = plan.schedule
        self.steps = [stage for stage in plan.program.stages if isinstance(stage, EdgeStep)]
        self.passes: dict[str, int] = {}
        self.checks_locks = False
        self._ranges: dict[str, tuple[list[tuple[int, int, int]], int]] = {}  # launches and batches of each step
        names, kernels = kernels_of(self.schedule, plan.facts), iter([launch.kernel for launch in plan.launches])
        self.kernels = {step.name: {name: next(kernels) for name in names} for step in self.steps}

    # running ----------------------------------------------------------------------------------------------------------
    def _supersteps(self, run: CudaRun, first: int, wanted: int) -> None:
        step = self._batches
        if self.schedule.order in ("el", "nl", "hybrid", "owner"):
            step = self._locked
        elif self.schedule.order in ("wavefront", "hogwild"):
            step = self._wave if self.schedule.order == "wavefront" else self._lossy
        self._run = run
        for number in range(first, wanted):
            if "graph_superstep" in self.arrays:
                self.arrays["graph_superstep"].fill(number)
            for name, kernels in self.kernels.items():
                step(name, kernels)
            self.functions["end_of_superstep"]((1,), (1,), (self.state.array, run.past))

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the superstep: every vertex is active, and every edge runs once in each step."""
        facts = self.plan.facts
        return Superstep(facts.num_vertices, facts.num_edges * len(self.steps), "dense")

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Reset all properties; no edge takes stamps, all locks are free, and values of edges are listed."""
        super().reset(inputs, state)
        for name in ("taking", "sizes", "arrivals", "locks"):
            if name in self.arrays:
                self.arrays[name].fill(0)
        self._list_values()
        self.wait()

    def _list_values(self) -> None:
        """Bring the values of edges into the order in which kernels that add changes read them."""
        self._run, edges = self.run_in_progress, self.plan.facts.num_edges
        for kernels in self.kernels.values():
            if "listing" in kernels:
                self.state.note(limit=1)  # kernels do nothing in a run that is over, as one of no supersteps is
                self._launch(kernels["listing"], 0, edges, self._blocks(kernels["listing"], edges))

    def _launch(self, kernel: CudaKernel, first: int, last: int, blocks: int, *, together: bool = False) -> None:
        """Queue a kernel; ``together``: its blocks wait for each other, and must all be resident."""
        bounds = {"first": first, "last": last}
        kind = self.plan.edge_position if kernel.name in self._of_edges else np.uint32
        given = [
            kind(bounds[name]) if name in bounds else self.state.array if name == "run" else self.arrays[name]
            for name in kernel.arguments
        ]
        if together:
            self.arrays["arrivals"].fill(0)
        shared = self.plan.shared_of(kernel)
        function, threads = self.functions[kernel.name], (self.plan.threads,)
        function((blocks,), threads, tuple(given), shared_mem=shared, enable_cooperative_groups=together)
        self._run.launches += 1

    @property
    def _of_edges(self) -> set[str]:
        """The kernels whose range is one of edges."""
        found = [kernels.get(name) for kernels in self.kernels.values() for name in ("remaining", "listing", "pending")]
        return {kernel.name for kernel in found if kernel}

    def _resident(self, kernel: CudaKernel) -> int:
        """Return the blocks of a kernel that the device runs at once."""
        shared = self.plan.shared_of(kernel)
        each = blocks_of_multiprocessor(self.functions[kernel.name], self.plan.threads, shared)
        return max(1, each) * int(self.attributes["MultiProcessorCount"])

    @property
    def _lane_groups(self) -> int:
        """The lane groups of a block."""
        return self.plan.threads // 32 * self.plan.lane_group.per_warp

    def _blocks(self, kernel: CudaKernel, lane_groups: int) -> int:
        """Return the blocks for a number of lane groups, no more than four times those that are resident."""
        return max(1, min(-(-lane_groups // self._lane_groups), 4 * self._resident(kernel)))

    # batches ----------------------------------------------------------------------------------------------------------
    def _batches(self, name: str, kernels: Mapping[str, CudaKernel]) -> None:
        """Run all batches: large ones in a launch each, adjacent small ones in one launch with barriers."""
        kernel = kernels["all"]
        if name not in self._ranges:
            units = np.diff(self.store.table(CudaBatches(self.schedule)).batches.batches)
            found = launches_of(units, self._lane_groups, self._resident(kernel), self.schedule.barrier)
            self._ranges[name] = list(found), len(units)
        ranges, self.passes[name] = self._ranges[name]
        for first, last, blocks in ranges:
            self._launch(kernel, first, last, blocks, together=last - first > 1 and blocks > 1)

    # passes -----------------------------------------------------------------------------------------------------------
    def _left(self, at: int) -> int:
        """Wait for the device; return the count of edges of a pass (in_place.cuh)."""
        return int(self.arrays["sizes"].get()[at % 3])

    def _locked(self, name: str, kernels: Mapping[str, CudaKernel]) -> None:
        arrays, edges, self.passes[name] = self.arrays, self.plan.facts.num_edges, 0
        if self.schedule.order != "el":
            arrays["done"].fill(False)
            self._node_passes(name, kernels["all" if self.schedule.order == "nl" else "nodes"])
        if self.schedule.order == "nl":
            return
        arrays["sizes"].fill(0)
        if self.schedule.order == "el":
            arrays["list_0"][:edges] = arrays["first_list"][:edges]
            arrays["sizes"][0] = edges
        else:
            self._launch(kernels["remaining"], 0, edges, self._blocks(kernels["remaining"], edges))
        self._edge_passes(name, kernels)
        self._check_locks(name)

    def _node_passes(self, name: str, kernel: CudaKernel) -> None:
        """Run passes over columns until all edges ran; with hybrid one.

        Each pass reads all edges of its columns again. Owners of hubs therefore stop when less than half of these are
        left, and passes over edges take the rest: ratings with a hub of 43,863 of 6 M edges, k = 16, took 188 ms on an
        H200 with owners that ran all edges of hubs, and 43 ms with hybrid.
        """
        (first, last), left = self._columns, self.plan.facts.num_edges
        if self.schedule.order == "owner":
            first, last, left = self._hubs
        edges, others = left, self.schedule.order != "nl"
        while left:
            self.arrays["sizes"].fill(0)
            self._launch(kernel, first, last, self._blocks(kernel, last - first))
            self.passes[name] += 1
            if self.schedule.order == "hybrid":
                break
            left = self._progress(name, left, self._left(0))
            if others and left < edges / 2:
                break
        self._check_locks(name)

    @cached_property
    def _hubs(self) -> tuple[int, int, int]:
        """The bounds of the table of hubs, and their edges."""
        assert self.schedule.hub is not None
        hubs = self.store.table(CudaHubs(HubColumns(self.schedule.hub)))
        return 0, len(hubs), int(np.diff(self.store.graph.csc.offsets)[hubs].sum())

    def _edge_passes(self, name: str, kernels: Mapping[str, CudaKernel]) -> None:
        """Run passes over lists of edges until none is left; short lists in launches of several passes.

        If a pass runs few of its edges, those that are left are handed over: to columns, or to owners of hubs.
        """
        kernel, number, ran, left = kernels["edges"], 0, 0, self._left(0)
        resident = self._resident(kernel)
        while left:
            short = left <= 4 * resident * self._lane_groups and self.schedule.barrier != "launch"
            several = short or self.schedule.barrier == "grid"
            blocks = min(resident, self._blocks(kernel, left)) if several else self._blocks(kernel, left)
            passes = MOST_PASSES if several else 1
            self._launch(kernel, number, number + passes, blocks, together=several and blocks > 1)
            sizes = self.arrays["sizes"].get()
            done, ran = int(sizes[PASSES]) - ran, int(sizes[PASSES])
            number += done
            before, left = left, self._progress(name, left, int(sizes[number % 3]))
            starved = done < passes if several else starving(before, left)
            if "pending" in kernels and not several and waiting(before, left):
                self._columns_take(kernels, number, left, ran + 1)
                number, ran = 0, ran + 1
                left = self._progress(name, left, self._left(0))
            elif self.schedule.hand_over and left and starved:
                self._hand_over(kernels, number, left, ran + 1)
                number, ran = 1, ran + 1
                left = self._left(number)
        self.passes[name] += ran

    def _columns_take(self, kernels: Mapping[str, CudaKernel], number: int, left: int, ran: int) -> None:
        """Run the edges of pass ``number`` by a pass over columns, and list those that it leaves as of pass 0.

        ``ran``: the passes of this superstep with this one.
        """
        arrays, edges = self.arrays, self.plan.facts.num_edges
        if number % 2:
            arrays["list_0"][:left] = arrays["list_1"][:left]
        arrays["done"].fill(True)
        self._launch(kernels["pending"], 0, left, self._blocks(kernels["pending"], left))
        self._launch(kernels["nodes"], *self._columns, self._blocks(kernels["nodes"], self.plan.facts.num_vertices))
        arrays["sizes"][:4].set(np.array([0, 0, 0, ran], np.uint64))
        self._launch(kernels["remaining"], 0, edges, self._blocks(kernels["remaining"], edges))

    @property
    def _columns(self) -> tuple[int, int]:
        """The first vertex that may be a column, and the one after the last."""
        facts = self.plan.facts
        return (facts.bipartite[0] if facts.bipartite else 0), facts.num_vertices

    def _hand_over(self, kernels: Mapping[str, CudaKernel], number: int, left: int, ran: int) -> None:
        """Run the edges of pass ``number`` by hubs, as pass 0. ``ran``: the passes of this superstep with this one.

        Owners of two hubs may refuse each other all edges between them, as they do not lock in the order of vertices.
        """
        csc, arrays = self.store.graph.csc, self.arrays
        listed = arrays[f"list_{number % 2}"][:left].get()
        order, bounds, single = by_hub(listed, csc.neighbours[listed], csc.row_of_edge[listed], MOST_UNITS)
        arrays["list_0"][:left].set(listed[order])
        arrays["owned"][: len(bounds)].set(bounds.astype(listed.dtype))
        arrays["sizes"][:4].set(np.array([left, 0, 0, ran], np.uint64))
        for kernel, first, last in ((kernels["owned_columns"], 0, single), (kernels["owned"], single, len(bounds) - 1)):
            if last > first:
                self._launch(kernel, first, last, min(last - first, self._resident(kernel)))

    def _progress(self, name: str, before: int, left: int) -> int:
        if left >= before:
            raise EngineFailure(f"a pass of {name} ran none of {before} edges: locks were left held")
        return left

    def _check_locks(self, name: str) -> None:
        held = int(np.count_nonzero(self.arrays["locks"].get())) if self.checks_locks else 0
        if held:
            raise EngineFailure(f"{held} locks are held after all edges of {name}")

    # blocks, and no locks ---------------------------------------------------------------------------------------------
    def _wave(self, name: str, kernels: Mapping[str, CudaKernel]) -> None:
        kernel = kernels["all"]
        rows = self.schedule.blocks or 1
        left, self.passes[name] = 2 * rows * rows + 1, 0
        self.arrays["done_blocks"].fill(False)
        blocks = min(rows, self._resident(kernel))
        while left:
            self.arrays["sizes"].fill(0)
            self._launch(kernel, 0, rows, blocks)
            self.passes[name] += 1
            left = self._progress(name, left, self._left(0))
        self._check_locks(name)

    def _lossy(self, name: str, kernels: Mapping[str, CudaKernel]) -> None:
        kernel = kernels["all"]
        workers = self.schedule.workers or 1
        blocks = min(workers, self._resident(kernel))
        self._launch(kernel, min(workers, blocks * self._lane_groups), 0, blocks)
        self.passes[name] = 1


def launches_of(
    units: NDArray[np.integer[Any]], lane_groups: int, resident: int, barrier: str | None
) -> Iterator[tuple[int, int, int]]:
    """Yield the launches of batches: the first, the one after the last, and the blocks.

    ``units``: of each batch. ``lane_groups``: of a block. ``resident``: blocks that run at once. ``barrier``: *launch*:
    a launch for each batch; *grid*: one for all. None: batches that keep all resident lane groups busy have a launch of
    their own; those of few units run in one block, whose barrier is the cheapest; others in a resident grid.
    """
    if barrier == "grid":
        if len(units):
            yield 0, len(units), min(resident, max(1, -(-int(units.max()) // lane_groups)))
        return
    blocks = -(-units // lane_groups)
    kinds = np.where(blocks > resident, 2, np.where(blocks > 4, 1, 0)) if barrier is None else np.full(len(units), 2)
    at = 0
    for kind, members in groupby(kinds.tolist()):
        count = len(list(members))
        if kind == 2:
            for batch in range(at, at + count):
                yield batch, batch + 1, max(1, min(int(blocks[batch]), 4 * resident))
        else:
            yield at, at + count, 1 if kind == 0 else int(min(resident, blocks[at : at + count].max()))
        at += count

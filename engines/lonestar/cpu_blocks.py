"""Schedules of blocks of edges on the CPU: the grid, whose order is fixed, and the wavefront, whose order locks decide.

A block of the grid waits for two others: the one before it in its block row, and the one of its block column in the
stratum before, which is in the next block row. Threads have no other barrier. Each takes any block that is ready, its
own block rows first, so that none waits for one that the system has interrupted, or for a larger block. Some block of
the least advanced block row is always ready or running: the threads that run always finish. Which thread runs a block
does not change the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.lonestar.cpu_kernels import counters_of, lock_arrays, locked_kernel, passes_of, stamps_of, updating
from engines.lonestar.orders import GridTable, WaveTable
from engines.lonestar.schedule import LonestarSchedule
from harness.api import EdgeStep, EngineFailure
from harness.api.cpu import Holds, KernelBuilder, PlanDraft, Run, Step

# A part is a thread, whose first block row is starts[t]. `progress` is the number of blocks that a block row has done;
# the locks are those of block rows. After each block a thread begins again with its first block row: so it leaves those
# of others to them, and mostly runs blocks of one block column after each other.
GRID = """
    @part
    rows = len(progress)
    left = True
    while left:
        left = False
        ran = False
        for n in range(rows):
            row = (at(starts, t) + n) % rows
            after = (row + 1) % rows
            stratum = int64(published(progress, row))
            if stratum < rows:
                left = True
                if published(progress, after) >= stratum and try_lock(locks, row):
                    stratum = int64(published(progress, row))
                    if stratum < rows and published(progress, after) >= stratum:
                        block = stratum * rows + row
                        for j in range(at(block_bounds, block), at(block_bounds, block + 1)):
                            e = at(edge_order, j)
                            u = at(order_sources, j)
                            v = at(order_destinations, j)
                            @edge
                        publish(progress, row, stratum + 1)
                        ran = True
                    unlock(locks, row)
                    if ran:
                        break
        if left and not ran:
            give_way()
"""
# Edges of a block whose ends are prefetched before they are updated. 20 sweeps over 90,000 ratings of 4,000 items by
# 20,000 users took, with k = 32, 22.1 ms without and 17.9 ms with 6, on two threads 10.7 and 9.3 ms, and with k = 128
# 73 and 66 ms; by 2,000 users, whose rows fit in the cache of a core, 16.9 and 17.1 ms with k = 32 (Intel Xeon, 28
# November 2026).
AHEAD = "min(j + 6, at(block_bounds, block + 1) - 1)"
# A part is a block row. Its blocks are visited in the order of `visits`.
WAVEFRONT = """
    @part
    across = len(visits) // len(left)
    missing = 0
    for i in range(t * across, (t + 1) * across):
        c = at(visits, i)
        if at(done_blocks, t * across + c):
            continue
        if try_lock(locks, c):
            for j in range(at(wave_bounds, t * across + c), at(wave_bounds, t * across + c + 1)):
                e = at(edge_order, j)
                u = int64(at(order_sources, j))
                v = int64(at(order_destinations, j))
                @edge
                @stamp
            unlock(locks, c)
            done_blocks[t * across + c] = True
        else:
            missing += 1
    left[t] = missing
"""


@dataclass(frozen=True)
class GridPass:
    """A step over the blocks of a grid. ``blocks``: the number of block rows."""

    kernel: str
    blocks: int

    def bound(self, run: Run) -> Step:
        """Return the step that runs all blocks. It raises EngineFailure if one is left."""
        threads = min(run.threads, self.blocks)
        starts = np.arange(threads) * self.blocks // threads

        def step() -> None:
            progress = run.memory.arrays["progress"]
            progress[:] = run.memory.arrays["locks"][:] = 0
            run.call(self.kernel, threads, starts=starts)
            if (progress != self.blocks).any():
                raise EngineFailure(f"{self.kernel} ran {int(progress.sum())} of {self.blocks**2} blocks")
            run.edges += run.rules.graph.num_edges

        return step


def plan_grid(draft: PlanDraft, stage: EdgeStep, schedule: LonestarSchedule) -> None:
    """Add the kernel and the pass of a step under the grid."""
    assert schedule.blocks is not None
    setting = draft.setting
    draft.table(GridTable(schedule))
    for name in ("progress", "locks"):
        draft.array(name, Holds.WORK, "", "int32", schedule.blocks)
    signature = [
        ("starts", "i64"), ("progress", "i32"), ("locks", "i32"), ("block_bounds", "i64"), ("edge_order", "i64"),
        ("order_sources", setting.ids), ("order_destinations", setting.ids),
    ]  # fmt: skip
    builder = KernelBuilder(stage.name, setting.program, setting.layout, GRID, signature)
    draft.kernels.append(updating(draft, builder, stage, "e", "csr_", ahead=AHEAD))
    draft.passes.append(GridPass(stage.name, schedule.blocks))


@dataclass(frozen=True)
class WavePass:
    """A step over the blocks of a wavefront, in passes until all of them are done."""

    name: str
    table: WaveTable

    def bound(self, run: Run) -> Step:
        """Return the step that runs passes. It raises EngineFailure if one runs no block, or leaves a lock held."""
        rows = self.table.rows
        bounds = np.arange(rows + 1)

        def step() -> None:
            arrays, left, passes = run.memory.arrays, rows * self.table.columns + 1, 0
            arrays["done_blocks"][:] = False
            while left:
                stamps, counters = arrays[stamps_of(self.name)], arrays[counters_of(self.name)]
                run.call(f"{self.name}_blocks", rows, bounds=bounds, stamps=stamps, counters=counters)
                passes += 1
                before, left = left, int(arrays["left"].sum())
                if left >= before:
                    raise EngineFailure(f"a pass of {self.name} ran none of {before} blocks: locks were left held")
            if arrays["locks"].any():
                raise EngineFailure(f"{np.count_nonzero(arrays['locks'])} locks are held after all of {self.name}")
            arrays[passes_of(self.name)][0] = passes
            run.edges += run.rules.graph.num_edges

        return step


def plan_wavefront(draft: PlanDraft, stage: EdgeStep, schedule: LonestarSchedule) -> None:
    """Add the kernel and the pass of a step under the wavefront."""
    assert schedule.blocks is not None
    setting, table = draft.setting, WaveTable(schedule.blocks, schedule.seed)
    lock_arrays(draft, stage.name, locks=table.columns, left=table.rows)
    draft.table(table)
    draft.array("done_blocks", Holds.WORK, "", "bool", table.rows * table.columns)
    signature = [
        ("visits", "i64"), ("done_blocks", "flag"), ("wave_bounds", "i64"), ("edge_order", "i64"),
        ("order_sources", setting.ids), ("order_destinations", setting.ids),
    ]  # fmt: skip
    draft.kernels.append(locked_kernel(draft, stage, f"{stage.name}_blocks", WAVEFRONT, signature, ("e", "csr_")))
    draft.passes.append(WavePass(stage.name, table))

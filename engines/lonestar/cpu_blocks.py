"""The wavefront on the CPU: threads own block rows and try to lock the block columns of their blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.lonestar.cpu_kernels import counters_of, lock_arrays, locked_kernel, passes_of, stamps_of
from engines.lonestar.orders import WaveTable
from engines.lonestar.schedule import LonestarSchedule
from harness.api import EdgeStep, EngineFailure
from harness.api.cpu import Holds, PlanDraft, Run, Step

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

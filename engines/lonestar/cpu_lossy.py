"""Hogwild on the CPU: threads take edges of a random order and lock nothing, so that they may lose updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.lonestar.cpu_kernels import counters_of, updating
from engines.lonestar.cpu_locks import FirstList
from engines.lonestar.schedule import LonestarSchedule
from harness.api import EdgeStep
from harness.api.cpu import Holds, KernelBuilder, PlanDraft, Rows, Run, Step

# Counts are read before the rows and written after them, and are lost as rows are.
HOGWILD = """
    @part
    counting = len(counters) > 0
    for i in range(at(bounds, t), at(bounds, t + 1)):
        e = at(first_list, i)
        u = int64(at(out_rows, e))
        v = int64(at(out_neighbours, e))
        at_u = counters[u] if counting else 0
        at_v = counters[v] if counting else 0
        @edge
        if counting:
            counters[u] = at_u + 1
            counters[v] = at_v + 1
"""


@dataclass(frozen=True)
class LossyPass:
    """A step over all edges without locks; a thread takes ``batch`` of them at a time."""

    name: str
    batch: int

    def bound(self, run: Run) -> Step:
        """Return the step."""
        edges = run.rules.graph.num_edges
        bounds = np.append(np.arange(0, edges, self.batch), edges)

        def step() -> None:
            run.call(f"{self.name}_lossy", len(bounds) - 1, bounds=bounds,
                     counters=run.memory.arrays[counters_of(self.name)])  # fmt: skip
            run.edges += edges

        return step


def plan_lossy(draft: PlanDraft, stage: EdgeStep, schedule: LonestarSchedule) -> None:
    """Add the kernel and the pass of a step without locks."""
    setting = draft.setting
    draft.table(FirstList(bool(schedule.shuffle), schedule.seed))
    draft.table(Rows(incoming=False))
    draft.array(counters_of(stage.name), Holds.WORK, "", "int32", 0)
    signature = [
        ("bounds", "i64"), ("counters", "i32"), ("first_list", "i64"), ("out_rows", setting.ids),
        ("out_neighbours", setting.ids),
    ]  # fmt: skip
    builder = KernelBuilder(
        f"{stage.name}_lossy", setting.program, setting.layout, HOGWILD, signature, dynamic=True
    )  # fmt: skip
    draft.kernels.append(updating(draft, builder, stage, "e", "csr_"))
    draft.passes.append(LossyPass(stage.name, schedule.batch))

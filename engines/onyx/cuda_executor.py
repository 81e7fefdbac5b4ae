"""Onyx on CUDA: the execution of a plan, whose supersteps are recorded with the reason of their direction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from harness.api import Superstep
from harness.api.cuda import PersistentExecutor

if TYPE_CHECKING:
    from engines.onyx.direction_choice import DirectionChoice
    from harness.api.cuda import CudaKernel


class OnyxExecutor(PersistentExecutor):
    """Run a plan of Onyx. ``choice``: of the direction of its supersteps; None unless it is adaptive.

    ``rebuild``: supersteps of a side between rebuilds of sums.
    """

    choice: DirectionChoice | None = None
    rebuild: int = 0

    def _blocks(self, kernel: CudaKernel) -> int:
        """Return the blocks of a persistent kernel: all that are resident, or fewer if a superstep is one launch.

        These are at most as many as have work, and at least one for each multiprocessor.

        A barrier takes longer the more blocks wait for it. Whole runs with these blocks, over all resident ones: BFS,
        SSSP and components, k = 1, 4 and 16, on grids of 64^2 to 256^2 and random graphs 0.73 to 1.08, 0.89 in the
        mean; label propagation 0.80 to 0.98. With several launches, whose work is in different blocks, 0.88 to 1.22
        (H100, 27 November 2026).
        """
        combined, resident = self.plan.combined, super()._blocks(kernel)
        if combined is None or len(combined.steps) > 1:
            return resident
        (launch,) = combined.steps
        bounds = [self.ranges.bounds(launch.over, side) for side in range(len(self.plan.sides))]
        items = max(last - first for first, last in bounds)
        wanted = launch.blocks or math.ceil(items * launch.lanes / self.plan.threads)
        return min(resident, max(wanted, int(self.attributes["MultiProcessorCount"])))

    def supersteps_of(self, records: list[list[int]], first: int) -> list[Superstep]:
        """Return the statistics of supersteps, each with its choice."""
        choice, plan = self.choice, self.plan
        if choice is None:
            return super().supersteps_of(records, first)
        ways, sides, rebuild = (plan.direction, plan.extension.dense), len(plan.sides), self.rebuild
        return [
            Superstep(
                active, edges, ways[dense > 0],
                choice.noted(ways[dense > 0], sent, limit, number, sides, rebuild),
            )
            for number, (active, edges, dense, sent, limit) in enumerate(records, first)
        ]  # fmt: skip

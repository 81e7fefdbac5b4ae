"""Onyx on CUDA: the execution of a plan, whose supersteps are recorded with the reason of their direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api import Superstep
from harness.api.cuda import PersistentExecutor

if TYPE_CHECKING:
    from engines.onyx.direction_choice import DirectionChoice


class OnyxExecutor(PersistentExecutor):
    """Run a plan of Onyx. ``choice``: of the direction of its supersteps; None unless it is adaptive.

    ``rebuild``: supersteps of a side between rebuilds of sums.
    """

    choice: DirectionChoice | None = None
    rebuild: int = 0

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

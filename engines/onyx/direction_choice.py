"""The share of the edges from which ``direction=adaptive`` pulls: how it was chosen, and the estimates for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from engines.onyx.direction_costs import Costs
from harness.api.directions import By, Choice, Noted, Reason

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import DeviceFacts, Direction, GraphFacts, Program

UNMEASURED = (
    "share_by=estimated needs figures of the device, which has not been measured; run once on it, or give "
    "share_by=fitted or dense_share"
)


@dataclass(frozen=True)
class DirectionChoice:
    """The share of the edges from which a superstep pulls: that of the sources that moved.

    ``by``: *given*, *fitted* (a constant) or *estimated*. ``edges``: of the graph. ``costs``: the estimates; None
    without figures of the device. They are also shown for a share that is given or fitted.
    """

    share: float
    by: By
    edges: int
    costs: Costs | None

    @classmethod
    def of(
        cls, given: OnyxSchedule, resolved: OnyxSchedule, program: Program, features: int, graph: GraphFacts,
        device: DeviceFacts,
    ) -> Self | None:  # fmt: skip
        """Return the choice of a resolved schedule for a lowered program; None unless its direction is adaptive.

        ``given``: the schedule before it was resolved.
        """
        if resolved.direction != "adaptive":
            return None
        assert resolved.dense_share is not None
        by: By = "estimated" if resolved.share_by == "estimated" else "fitted"
        costs = Costs.of(program, features, graph, dict(device.figures)) if device.figures else None
        return cls(resolved.dense_share, "given" if given.dense_share is not None else by, graph.num_edges, costs)

    def made(self, edges: int, reason: Reason, share: float | None = None) -> Choice:
        """Return the choice of a superstep before which sources with these edges had moved.

        ``share``: from which it pulled; None: :attr:`share`.
        """
        share = self.share if share is None else share
        if self.costs is None:
            return Choice(edges, reason, share, self.by)
        push = self.costs.push(min(1.0, edges / max(1, self.edges)))
        return Choice(edges, reason, share, self.by, push, self.costs.pull)

    def noted(self, way: Direction, sent: int, limit: int, number: int, sides: int, rebuild: int) -> Noted:
        """Note the choice of a superstep of a GPU, which counts the edges ``sent`` of the sources that had moved.

        More than all: all sources were active, or changes were not tracked. ``way``: it pushed or pulled. ``limit``:
        the edges from which it pulled. ``number``: of the superstep. ``rebuild``: supersteps of a side between rebuilds
        of sums.
        """
        turn = number // sides
        if way == "push":
            reason: Reason = "few"
        elif turn == 0 and sent > self.edges:
            reason = "start"
        elif sent >= limit:
            reason = "many"
        else:
            reason = "rebuild" if rebuild and turn % rebuild == 0 else "confirm"
        lower = limit < int(self.share * self.edges / sides)
        made = partial(self.made, share=round(limit * sides / self.edges, 6)) if lower else self.made
        return Noted(min(sent, self.edges), reason, made)

    @property
    def lines(self) -> list[str]:
        """The lines of ``explain`` on the choice."""
        found = [
            f"direction: pulls over all edges if sources with at least {self.share:.2g} of the edges have moved "
            f"({self.by}); otherwise pushes"
        ]
        if self.costs is not None:
            costs = self.costs
            found.append(
                f"direction: a push of the edges of 0.1, 0.5 and all sources is estimated to take "
                f"{', '.join(f'{1e3 * costs.push(share):.3g}' for share in (0.1, 0.5, 1.0))} ms, a pull "
                f"{1e3 * costs.pull:.3g} ms; the direction changes at {costs.turn:.2g} of the edges"
            )
        return found


def estimates(schedule: OnyxSchedule, *, default: bool) -> bool:
    """Return whether the share of a schedule as given is to be estimated, if supersteps choose their direction.

    ``default``: it is if *adaptive* is given and ``share_by`` is not.
    """
    if schedule.dense_share is not None or schedule.direction in ("push", "pull"):
        return False
    return schedule.share_by == "estimated" or (default and schedule.direction == "adaptive" and not schedule.share_by)


def meaningless(given: OnyxSchedule, device: DeviceFacts) -> str:
    """Return why ``share_by`` of a schedule as given cannot be followed; empty if it can."""
    if given.share_by is None:
        return ""
    if given.change_driven is False:
        return "share_by chooses the share of direction=adaptive; leave it unset with change_driven=false"
    if given.direction in ("push", "pull"):
        return f"share_by chooses the share of direction=adaptive; leave it unset with direction={given.direction}"
    if given.dense_share is not None:
        return "share_by has no meaning beside dense_share, which is the share; leave one of them unset"
    return UNMEASURED if given.share_by == "estimated" and not device.figures else ""

"""Onyx on the CPU."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engines.onyx.cpu_pull import Pull
from engines.onyx.cpu_push import Push
from engines.onyx.resolve import resolve
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    CpuEngine,
    Device,
    DeviceFacts,
    FoldGroup,
    Graph,
    GraphReduce,
    Program,
    change_driven,
    fold_groups,
    unfolded,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OnyxCpuEngine(CpuEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for the meaning of each
    option."""

    schedule: OnyxSchedule
    resolved: OnyxSchedule
    traversal: Pull | Push

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.feature_aware = schedule.feature_aware
        self.change_driven = schedule.change_driven
        self.direction = schedule.direction

    def refusal(self, program: Program, graph: Graph, features: int, device: Device) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        reason = self.schedule.refusal() or super().refusal(program, graph, features, device)
        if reason:
            return reason
        for name in OnyxSchedule.GPU_ONLY:
            if getattr(self.schedule, name) is not None:
                return f"schedule option {name} has no meaning on the CPU; leave it unset"
        if self.change_driven and self.direction == "push":
            forms = change_driven(program)
            return forms if isinstance(forms, str) else ""
        return ""

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the stale vertices.

        A pull recomputes only these vertices, if they have few in-edges and no stage needs the results of a reduction
        at other vertices. A push sends extrema from the senders. Kept sums must first be built: all messages are then
        sent once.
        """
        if not self.change_driven:
            return
        if self.direction == "push":
            if self.accumulators.extrema:
                self.begin_with(stale, senders)
            return
        few = int(self.graph.in_degrees[stale].sum()) <= self.resolved.dense_share * self.graph.num_edges
        between = {name for group in self.tracking.groups for name in self.tracking.live(group.stages)}
        properties = [self.program.properties[name] for name in between]
        if few and not any(prop.role == "temporary" and prop.place == "vertex" for prop in properties):
            self.begin_with(stale, np.zeros_like(senders))
            assert isinstance(self.traversal, Pull)
            self.traversal.was_sparse = True

    def resolve(self) -> OnyxSchedule:
        """Return the schedule with every option filled in that applies on the CPU."""
        facts = DeviceFacts("cpu")
        return resolve(self.schedule, self.program, self.layout.features, self.graph.facts, facts)

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return the groups of stages, folded according to the schedule."""
        return fold_groups(self.program, self.schedule.direction) if self.schedule.fold else unfolded(self.program)

    def missed(self) -> list[str]:
        """Return what is not folded, not tracked or not vectorised here, and why."""
        reasons = []
        if not self.schedule.feature_aware:
            reasons.append("rows as vector values: feature_aware is off")
        if not self.schedule.fold:
            reasons.append("stages in one kernel: fold is off")
        elif self.schedule.direction == "push":
            reasons.append("vertex steps in one kernel with edges: owners of destinations push, not owners of sources")
        for before, after in pairwise(self.tracking.groups if self.schedule.fold else ()):
            names = f"{self.tracking.name(before)} with {self.tracking.name(after)}"
            reasons.append(f"folding {names}: one needs what the other makes of all vertices or edges")
        forms = change_driven(self.program)
        if not self.change_driven:
            reasons.append("propagating changes only: change_driven is off")
        elif isinstance(forms, str):
            reasons.append(f"pushing changes: {forms}; destinations of sources that moved are recomputed instead")
        return reasons

    def plan(self) -> None:
        """Plan the kernels and steps of the direction."""
        self.traversal = {
            "pull": lambda: Pull(self, self.resolved.dense_share), "push": lambda: Push(self, self.schedule.rebuild),
        }[self.schedule.direction]()  # fmt: skip
        for group in self.tracking.groups:
            if group.kind == "graph":
                for stage in group.stages:
                    assert isinstance(stage, GraphReduce)
                    self.plan_graph(stage)
            elif group.kind == "vertex":
                self.plan_vertices(group)
            elif group.kind == "update":
                self.plan_update(group)
            else:
                self.traversal.plan_reductions(group)
        if self.change_driven:
            self.steps.append(lambda: self.active_sources.count_moved(self.traversal.gathered))

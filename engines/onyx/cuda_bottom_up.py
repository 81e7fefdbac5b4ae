"""Onyx on CUDA, ``bottom_up``: pulls of ``direction=adaptive`` read only edges that may improve a vertex.

Vertex steps note the best value that any moved source holds. The next pull computes the bound of all messages
(:mod:`harness.language.message_bounds`) from it, skips vertices that have reached the bound in every feature, and ends
the rows of others once their messages have reached it (Beamer et al. 2012, section IV, for any extremum along paths).
The accumulators of skipped vertices keep the messages of earlier supersteps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api.cuda import BEST, EXTREME, CudaBuffer, Holds, work
from harness.api.directions import message_bound

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import EdgeReduce, FoldGroup, Program
    from harness.api.cuda import CudaKernelBuilder, CudaSetting, MessageBound, Tracking

KEPT_BEST = 3  # of bottom_up.cuh
LATER = "run->superstep > 0"  # at first every source counts as moved, and no accumulator has a value


def explained(program: Program, schedule: OnyxSchedule) -> str:
    """Return a line of ``explain`` on the edges that pulls read. ``schedule``: resolved."""
    bound = message_bound(program)
    if isinstance(bound, str):
        return f"bottom_up: pulls read all edges, because {bound}"
    if not schedule.bottom_up:
        return "bottom_up: pulls read all edges, because bottom_up=false"
    extremes = "" if not bound.inputs else f", extreme: the {'least' if bound.minimizes else 'greatest'} of an input"
    best = f"best: the {bound.reduction.reducer} of the sources that moved{extremes}"
    return f"bottom_up: pulls skip vertices that are as good as {bound.message}, and end rows there ({best})"


@dataclass(frozen=True, eq=False)
class BottomUp:
    """The bound of a program's messages in the kernels of a plan."""

    setting: CudaSetting
    bound: MessageBound

    @property
    def operation(self) -> str:
        """The operation of the reduction in ``lane_groups.cuh``."""
        return "Min" if self.bound.minimizes else "Max"

    @property
    def best(self) -> str:
        """The array of the best values of moved sources, a row for each of three supersteps in turn."""
        return f"{BEST}_{self.bound.state}"

    @property
    def _stride(self) -> int:
        return self.setting.layout.stride(self.bound.reduction.message.shape)

    @property
    def _length(self) -> int:
        """Features of a vertex; 0 if it has a single value."""
        shape = self.bound.reduction.message.shape
        return self.setting.layout.dims(shape)[0] if shape else 0

    @property
    def _constants(self) -> str:
        return f"{self.operation}, {max(1, self._length)}, {self._stride}"

    @property
    def wanted(self) -> str:
        """The test whether any message may improve a vertex."""
        return f"Improvable<{self._constants}>{{vertex_{self.bound.state}, bounds}}"

    def buffers(self) -> tuple[CudaBuffer, ...]:
        """Return the best values, and the extremes of the inputs that messages read."""
        worst = float("inf") if self.bound.minimizes else float("-inf")
        holds, found = Holds.LEAST if self.bound.minimizes else Holds.GREATEST, []
        for name in self.bound.inputs:
            prop = self.setting.program.properties[name]
            found.append(CudaBuffer.of_values(f"{EXTREME}_{name}", holds, prop, 1, self.setting.layout, kept=True))
        return (work(self.best, KEPT_BEST * self._stride, start=worst), *found)

    def note(self, builder: CudaKernelBuilder, tracking: Tracking, group: FoldGroup) -> None:
        """Let the kernel of a group's vertex steps store the best values, if these steps write the state."""
        state = self.bound.state
        written = {name: value for step in group.vertex_steps for name, value in step.values}
        if state not in written:
            return
        (reader,) = tracking.listening_groups(state)
        node = builder.reading(f"sent_{tracking.name(reader)}", state)  # what a moved source differs from
        before, now = builder.mapping.lower(node), builder.mapping.kept(written[state])
        builder.argument(self.best, "f32")
        constants = f"{self.operation}, {self._stride}"
        builder.root.line(f"clear_best<{constants}>({self.best}, run->superstep);")
        best = builder.accumulator(f"{BEST}_moved", node, self.bound.reduction.reducer, "kernel")
        improve = f"improve<{self.operation}>({', '.join(one.element('f') for one in (best, before, now))});"
        holds = f"FEATURES(f, {self._length}) if (group.holds(f, {self._length})) " if self._length else ""
        builder.blocks["vertex"].line(holds + improve)
        moved = builder.counter("moved", "&run->moved")
        given = f"group, {self.best}, run->superstep, {best.text}, {moved} != 0"
        builder.blocks["end"].line(f"note_best<{constants}>({given});")

    def share(self, builder: CudaKernelBuilder) -> None:
        """Let every block of a gather compute the bounds before it visits vertices."""
        builder.argument(f"vertex_{self.bound.state}", "input")
        builder.bind(BEST, "kernel", f"(run->superstep % {KEPT_BEST})", f"{BEST}_")
        builder.bind(EXTREME, "kernel", "0", f"{EXTREME}_")
        bound = builder.mapping.kept(self.bound.message)
        builder.root.line(f"__shared__ float bounds[{self._stride}];")
        builder.root.line(f"share_bounds<{self.operation}>(group, bounds, {bound.text}, {LATER});")

    def stop(self, builder: CudaKernelBuilder, stage: EdgeReduce) -> None:
        """Let a gather end a row once its messages have reached the bounds, and count the edges that it reads.

        If no message improves a vertex, nothing is stored for it, and its readers are not flagged.
        """
        goal, start = "bounds[0]", builder.blocks["start"]
        row, total = builder.mapping.start(f"vertex_{self.bound.state}", "v", stage.message), f"{stage.into}_total"
        if self._length:
            goal = start.declare(f"Row<{self._length}>", "goal")
            start.line(f"{goal} = goals<{self._constants}>(group, {row}, bounds);")
        builder.blocks["enough"].line(f"return reached<{self.operation}>(group, {total}, {goal});")
        no_better = f"{LATER} && !improves<{self._constants}>(group, {total}, {row})"
        wanted = builder.counter("wanted", "&run->wanted")
        builder.blocks["finish"].lines[:0] = [f"if (group.leads()) ++{wanted};", f"if ({no_better}) return;"]
        visited = builder.counter("visited", "&run->edges")
        builder.blocks["visit"].line(f"if (group.leads()) ++{visited};")

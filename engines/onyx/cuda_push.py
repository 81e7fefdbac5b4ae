"""Onyx on CUDA, pushing: every edge sends its messages to its destination, or edges of active sources send changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates
from engines.onyx.cuda_kernels import EVERY, Kernels
from engines.onyx.cuda_sent_edges import SentEdges
from harness.api.cuda import CHANGING, OVER, REBUILDING, Visits, collect_change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.onyx.cuda_kernels import Choices
    from harness.api import EdgeReduce, Expression, FoldGroup
    from harness.api.cuda import CudaKernel, CudaSetting


class PushKernels(Kernels):
    """Builds the kernels of a plan that pushes; ``sent_edges``: for reductions that read changing edges."""

    def __init__(self, setting: CudaSetting, choices: Choices, *, untracked: bool = False) -> None:
        super().__init__(setting, choices, untracked=untracked)
        self.sent_edges = SentEdges(self)

    def scatter(self, group: FoldGroup, *, either: bool = False, parts: bool | None = None) -> CudaKernel:
        """Build the kernel that sends the messages of every edge.

        ``either``: it runs in tracked and untracked supersteps. ``parts``: as in :meth:`changes`; the kernel over the
        other vertices counts all edges.
        """
        stem = f"{self.tracking.name(group)}{'_parts' if parts else ''}"
        builder = self.edges(stem, "csr", self.depth(group), tiles=self.tiles, either=either, parts=parts)
        self.bind_reverse(builder, group.stages, "csr")
        for stage in group.edge_stages:
            builder.comment("visit", stage)
            builder.reduce_into(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "visit")
        if not self.tracking.change_driven:
            return builder.finish()
        self.sent_edges.note(builder, group)
        edges = "last - first" if self.tiles else "out_offsets[last] - out_offsets[first]"
        counted = f"run->edges += {len(group.edge_stages)} * Count({edges});"
        tracked = " && !run->untracked" if either else ""
        if not parts:
            builder.root.line(f"if (blockIdx.x == 0 && threadIdx.x == 0{tracked}) {counted}")
        return builder.finish(unless=OVER | CHANGING)

    def changes(
        self, group: FoldGroup, messages: Mapping[str, Expression], *, tiles: bool, parts: bool | None = None
    ) -> CudaKernel:
        """Build the kernel in which active sources send their changes into kept accumulators.

        It runs over ``tiles`` if there are many, and the schedule balances edges. ``parts``: it runs over parts of
        vertices of many edges (True), or over the other vertices (False).
        """
        name = self.tracking.name(group)
        stem = f"{name}_changes{'_tiles' if tiles else '_parts' if parts else ''}"
        wanted, listed = self.sent_edges.tests(group, tiles=tiles)
        builder = self.edges(stem, "csr", self.depth(group), wanted=wanted, listed=listed, tiles=tiles, parts=parts)
        self.sent_edges.add_flags(builder, group)
        self.bind_reverse(builder, group.stages, "csr", name)
        builder.bind("sent", "fetch", "u", f"sent_{name}_")
        builder.bind("sent_edge", "fetch", "e", f"sent_{name}_")
        for stage in group.edge_stages:
            builder.comment("visit", stage)
            array = "change" if self.sums_changes(stage) else "vertex"
            extremum = stage.reducer in ("min", "max") and len(stage.message.shape) < 2
            taken = f"{stage.into}_taken" if extremum else ""
            message = messages[stage.name]
            builder.reduce_into(f"{array}_{stage.into}", "v", message, stage.reducer, "visit", taken=taken)
            self.make_stale(builder, stage, "visit", taken=taken)
        self.sent_edges.note(builder, group)
        self.count_edge(builder, len(group.edge_stages), "visit")
        active, rows, _ = self.sent_edges.flags(group)
        visits = Visits(active[0]) if active and not rows else Visits()
        return builder.finish(unless=self.unless(group, tiles=tiles) | REBUILDING, visits=visits)

    def sums_changes(self, stage: EdgeReduce) -> bool:
        """Return whether changes are summed separately from the accumulator of a reduction, which would round them."""
        return stage.reducer == "sum" and self.setting.accumulators.round

    def collect(self, stage: EdgeReduce) -> CudaKernel:
        """Add the sums of changes to the accumulators of the vertices that they have reached."""
        flags = [f"dirty_{self.tracking.name(reader)}" for reader in self.tracking.stale_groups(stage.into)]
        wanted = templates.flagged(flags[0]) if flags else EVERY  # a change sets all of them
        template = templates.vertices(wanted)
        signature = [*templates.RANGE, *((flag, "flag") for flag in flags[:1])]
        builder = self.builder(f"collect_{stage.into}", template, signature)
        collect_change(builder, stage, "vertex")
        return builder.finish(unless=OVER | REBUILDING)

    def sends_with(self, group: FoldGroup) -> FoldGroup | None:
        """Return the only group that propagates, if its sources are the vertices of ``group``, which moves them.

        A vertex step then notes what its vertex has sent before it moves. A launch, or a barrier of a persistent
        kernel, less is needed for that.
        """
        tracking = self.tracking
        propagating = tracking.propagating()
        if self.untracked or not tracking.change_driven or len(propagating) != 1 or len(self.setting.sides) != 1:
            return None
        (sender,) = propagating
        if not self.flags_at_once or tracking.edges(sender) or tracking.of_graph(group):
            return None
        if tracking.hears_at_once(sender):  # the steps run before the push
            return None
        moved = {name for step in group.vertex_steps for name in step.writes} & set(tracking.sources(sender))
        alone = [one.kind for one in tracking.groups].count("vertex") == 1
        return sender if moved and alone else None

    @property
    def all_sent(self) -> str:
        """The condition under which all sources have sent their values: everything was sent.

        Without a tolerance, and without supersteps that do not track changes, a source that is not active has not moved
        since it sent its value.
        """
        exact = self.program.control.tolerance is None and not self.choices.pauses
        return "false" if exact else "bool(run->rebuilding)"

    def sent(self, group: FoldGroup) -> CudaKernel:
        """Build the kernel that stores what active sources have sent, or all sources if everything was sent."""
        name = self.tracking.name(group)
        template = templates.SENT.format(active=f"active_{name}", every=self.all_sent)
        builder = self.builder(f"sent_{name}", template, templates.RANGE)
        builder.argument(f"active_{name}", "flag")
        self.note_sent(builder, group)
        return builder.finish()

"""Onyx on CUDA, pulling: owners of vertices gather over in-edges, or lane groups process runs of all in-edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates
from engines.onyx.cuda_kernels import Kernels
from harness.api import reads
from harness.api.cuda import OVER, Visits, cuda_write_back, dense, sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.api import EdgeReduce, FoldGroup, Stage
    from harness.api.cuda import Condition, CudaKernel, CudaKernelBuilder

OPERATION = {"sum": "Add", "min": "Min", "max": "Max"}
OWNERS = {"middle": "groups", "hubs": "block"}  # of the vertices of a list


def whole_warp(lane_groups: int) -> int:
    """Return the number of the ``lane_groups`` of a warp that combine their values: the largest power of two."""
    return 1 << (lane_groups.bit_length() - 1)


class PullKernels(Kernels):
    """Builds the kernels of a plan that pulls.

    ``enough``: the test whether a gather has read enough of a row.
    """

    enough = templates.WHOLE_ROW

    def gather(
        self, group: FoldGroup, share: int, doubled: tuple[str, ...], *, many: int = 0, dirty_only: bool = False
    ) -> CudaKernel:
        """Build the kernel in which the owners of a vertex, ``share`` lane groups, gather over its in-edges and run its
        vertex steps.

        ``many``: vertices of at least this many in-edges are left to :meth:`gather_listed`; 0: none are.
        ``dirty_only``: another kernel gathers in supersteps that recompute everything.
        """
        rounds = self.rounds
        name, across = self.tracking.name(group), f"across_groups<{share}" if share > 1 else ""
        ahead = str(self.scans_ahead).lower()
        constants = f"{share}, {self._depth_of_owner(group, share)}, {rounds}, {ahead}, {many}"
        mapped = f"gather<{constants}>", "in_offsets, in_neighbours"
        builder = self._gathering(f"{name}_dirty" if dirty_only else name, group, mapped, across, doubled)
        if self.tracking.change_driven:
            builder.root.line("if (dense && blockIdx.x == 0 && threadIdx.x == 0) ++run->dense;")
        return builder.finish(unless=self._unless(group, dirty_only=dirty_only), visits=self._visits(group))

    def _visits(self, group: FoldGroup) -> Visits:
        """Return the vertices into which a gather recomputes: dirty ones, or all if a graph value may have changed."""
        if not self.tracking.change_driven or self.tracking.of_graph(group):
            return Visits()
        return Visits(f"dirty_{self.tracking.name(group)}", every=dense(self.number(group)))

    @property
    def rounds(self) -> int:
        """Consecutive vertices of each owner of a gather, if rows are so long that a warp processes one at a time.

        Blocks begin in order, so that rows of neighbours are still cached. 0: an owner's vertices are a grid apart.
        """
        long_rows = self.setting.lane_group.per_warp == 1 and self.choices.small_degrees
        return self.choices.policy.rounds if long_rows and not self.tracking.change_driven else 0

    def gather_listed(
        self, group: FoldGroup, listed: str, doubled: tuple[str, ...], *, dirty_only: bool = False
    ) -> CudaKernel:
        """Build the same kernel for a table of vertices: *middle* ones, which a warp owns, or *hubs*, a block."""
        share = whole_warp(self.setting.lane_group.per_warp)
        constants = f"{share}, {self.depth(group)}, {str(self.scans_ahead).lower()}"
        mapped = f"gather_{listed}<{constants}>", f"{listed}, in_offsets, in_neighbours"
        across, name = f"across_{OWNERS[listed]}<{share}", f"{self.tracking.name(group)}_{listed}"
        builder = self._gathering(name, group, mapped, across, doubled, [(listed, "ids")])
        return builder.finish(unless=self._unless(group, dirty_only=dirty_only), visits=Visits(listed=listed))

    def _depth_of_owner(self, group: FoldGroup, share: int) -> int:
        """Return the number of edges that a lane group of an owner fetches before it computes the first."""
        graph = self.setting.facts
        edges = max(1, -(-graph.num_edges // max(1, graph.num_vertices * share)))  # of a lane group, on average
        depth = min(self.depth(group), edges)
        return -(-edges // -(-edges // depth)) if self.choices.small_degrees else depth  # rounds of equal length

    def _unless(self, group: FoldGroup, *, dirty_only: bool) -> Condition:
        return OVER | dense(self.number(group)) if dirty_only else OVER

    def _gathering(
        self, kernel: str, group: FoldGroup, mapped: tuple[str, str], across: str, doubled: tuple[str, ...],
        more: Sequence[tuple[str, str]] = (),
    ) -> CudaKernelBuilder:  # fmt: skip
        """Return the builder of a gather.

        ``mapped``: the function that gathers and the arrays that it traverses. ``across``: the function that combines
        the parts of an owner's lane groups, if there are several. ``more``: additional parameters.
        """
        name = self.tracking.name(group)
        wanted, flags = self.recompute_test(group)
        template = templates.GATHER.format(map=mapped[0], edge_arrays=mapped[1])
        template = template.replace("WANTED", wanted).replace("FETCH", templates.fetch("u", "v"))
        template = template.replace("ENOUGH", self.enough)
        signature = [*more, ("in_offsets", "offsets"), ("in_neighbours", "ids"), *templates.RANGE, *flags]
        builder = self.builder(kernel, template, signature, ("start",))
        if flags:
            builder.root.line(f"const bool dense = !{builder.sparse(self.number(group))};")
            builder.blocks["finish"].line(f"if (group.leads()) dirty_{name}[v] = false;")
            visited = builder.counter("visited", "&run->edges")
            edges = f"{len(group.edge_stages)} * Count(in_offsets[v + 1] - in_offsets[v])"
            builder.blocks["finish"].line(f"if (group.leads()) {visited} += {edges};")
            if doubled:
                fresh = builder.argument(f"fresh_{name}", "flag")
                builder.blocks["finish"].line(f"if (group.leads() && !dense) {fresh}[v] = true;")
        self._gather_body(builder, group, across)
        live = self.tracking.live(group.stages)
        reduced = [(s.into, builder.reading("v", s.into)) for s in group.edge_stages if s.into in live]
        prefixes = dict.fromkeys(doubled, "next_vertex_")
        cuda_write_back(builder, self.tracking, group, "finish", reduced=reduced, prefix_of=prefixes)
        return builder

    def _gather_body(self, builder: CudaKernelBuilder, group: FoldGroup, across: str) -> None:
        builder.blocks["start"].parent = builder.root
        builder.blocks["fetch"].parent = builder.blocks["start"]
        builder.blocks["finish"].parent = builder.blocks["start"]
        builder.bind("src", "fetch", "u")
        builder.bind("dst", "start", "v")
        builder.bind("edge", "fetch", "e", "csc_")
        self.bind_reverse(builder, group.edge_stages, "csc")
        builder.bind("v", "finish", "v")
        for stage in group.edge_stages:
            total = builder.accumulator(f"{stage.into}_total", stage.message, stage.reducer, "start")
            builder.comment("visit", stage)
            builder.accumulate(total, stage.message, stage.reducer, "visit")
            if across:
                joined = f"{across}, {OPERATION[stage.reducer]}>(group, {total.text})"
                builder.blocks["join"].line(f"{total.text} = {joined};")
            builder.bind_value("v", stage.into, "finish", total)
        for step in group.vertex_steps:
            builder.comment("finish", step)

    def segments(self, group: FoldGroup, run: int, *, unless: Condition = OVER) -> CudaKernel:
        """Build the kernel whose lane groups process runs of in-edges and keep the sum of the row in registers."""
        name, panel = self.tracking.name(group), self.choices.panel
        builder = segments_builder(self, name, group.edge_stages, run, self.depth(group), panel)
        for stage in group.edge_stages:
            total = builder.accumulator(f"{stage.into}_total", stage.message, stage.reducer, "start")
            builder.comment("visit", stage)
            builder.accumulate(total, stage.message, stage.reducer, "visit")
            builder.bind_value("v", stage.into, "store", total)
        store_rows(builder, group.edge_stages)
        if not self.tracking.change_driven:
            return builder.finish(unless=unless)
        edges = f"Count(last - first) * {len(group.edge_stages)}"
        one = "blockIdx.x == 0 && threadIdx.x == 0" + (" && panel == 0" if panel else "")
        builder.root.line(f"if ({one}) run->edges += {edges};")
        return builder.finish(unless=OVER | sparse(self.number(group)))

    def mark(self, group: FoldGroup) -> CudaKernel:
        """Build the kernel that marks the destinations of active sources, and stores what these have sent."""
        name = self.tracking.name(group)
        names = {"number": self.number(group), "active": f"active_{name}", "dirty": f"dirty_{name}"}
        signature = [("out_offsets", "offsets"), ("out_neighbours", "ids"), *templates.RANGE]
        template = templates.MARK.format(**names, resuming=self.resuming)
        builder = self.builder(f"mark_{name}", template, signature)
        builder.argument(names["active"], "flag")
        builder.argument(names["dirty"], "flag")
        builder.reads_frontier = True
        builder.counter("followed", "&run->edges")
        self.note_sent(builder, group)
        return builder.finish(visits=Visits(names["active"], never=dense(self.number(group)), alone=False))

    def commit(self, group: FoldGroup, doubled: tuple[str, ...]) -> CudaKernel:
        """Copy fresh rows from the second buffer, or swap the buffers if it holds everything."""
        name = self.tracking.name(group)
        flips = [f"flips_vertex_{written}" for written in doubled]
        flip = " ".join(f"++{count}[0];" for count in flips)
        names = {"number": self.number(group), "flip": flip, "fresh": f"fresh_{name}"}
        builder = self.builder(f"commit_{name}", templates.COMMIT.format(**names), templates.RANGE, either=True)
        for count in flips:
            builder.argument(count, "counts")
        builder.argument(names["fresh"], "flag")
        builder.reads_frontier = True
        builder.bind("next", "vertex", "v", "next_vertex_")
        for written in doubled:
            node = builder.reading("next", written)
            builder.store(f"vertex_{written}", "v", node, builder.mapping.lower(node), "vertex")
        return builder.finish()


def segments_builder(
    kernels: Kernels, name: str, stages: Sequence[Stage], run: int, depth: int, panel: int = 0
) -> CudaKernelBuilder:
    """Return the builder of a kernel whose lane groups process runs of ``run`` in-edges, ``depth`` fetched ahead.

    Reductions start in the block ``start``, edges are visited in ``visit``, and rows end in ``store``. ``panel``: the
    kernel repeats its work for every panel of this many features (:mod:`engines.onyx.cuda_panels`).
    """
    paired = any(space == "reverse" for stage in stages for space, _ in reads(stage))
    words = ("true", "reverse") if paired else ("false", "nullptr")
    names = {"run": run, "depth": depth, "abreast": kernels.abreast(stages)}
    template = templates.SEGMENTS.format(**names, reverses=words[0], reverse=words[1])
    template = template.replace("FETCH", templates.fetch("u", "v", ", Id back"))
    signature = [("in_rows", "ids"), ("in_neighbours", "ids"), ("first", "EdgeId"), ("last", "EdgeId")]
    builder = kernels.builder(name, template, signature, ("start",), panel)
    builder.blocks["start"].parent = builder.root
    builder.blocks["fetch"].parent = builder.blocks["start"]
    builder.blocks["store"].parent = builder.blocks["start"]
    builder.bind("src", "fetch", "u")
    builder.bind("dst", "fetch", "v")
    builder.bind("edge", "fetch", "e", "csc_")
    if paired:
        builder.argument("reverse", "ids")
        builder.bind("reverse", "fetch", "back", "csc_")
    return builder


def store_rows(builder: CudaKernelBuilder, reductions: Sequence[EdgeReduce]) -> None:
    """Store the result of a run of segments after the last edge of a row if it is the whole row; else reduce it."""
    at = builder.blocks["store"]
    for stage in reductions:
        node = builder.reading("v", stage.into)
        at.line("if (whole) {")
        builder.store(f"vertex_{stage.into}", "v", node, builder.mapping.lower(node), "store")
        at.line("} else {")
        builder.reduce_into(f"vertex_{stage.into}", "v", node, stage.reducer, "store")
        at.line("}")

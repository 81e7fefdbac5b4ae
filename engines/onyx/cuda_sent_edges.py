"""Onyx on CUDA, pushing: the edge values last propagated to a group of reductions, and which edges have moved since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates
from harness.api.cuda import Over

if TYPE_CHECKING:
    from engines.onyx.cuda_kernels import Kernels
    from harness.api import FoldGroup
    from harness.api.cuda import CudaKernel, CudaKernelBuilder, PlanDraft


class SentEdges:
    """The edges to visit although their source did not move, for groups that read changing edge properties.

    ``moved_<group>``: flags of such edges by CSR position. ``rows_<group>``: flags of their sources.
    ``sent_<group>_<property>``: the values last propagated, so that the new message replaces the one computed from
    these.

    Only the edge itself reads the value it has sent, so it stores the new one at once. If a group also reads reverse
    edges, a separate kernel does so.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels, self.tracking = kernels, kernels.tracking

    def flags(self, group: FoldGroup) -> tuple[list[str], list[str], list[str]]:
        """Return the flags by which a group visits edges: of active sources, of rows with moved edges, of these
        edges."""
        name, edges = self.tracking.name(group), self.tracking.edges(group)
        active = [f"active_{name}"] if self.tracking.sources(group) or not edges else []
        return active, [f"rows_{name}"] if edges else [], [f"moved_{name}"] if edges else []

    def add_flags(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        """Add the flags to the arguments of a kernel."""
        active, rows, moved = self.flags(group)
        for flag in (*active, *rows, *moved):
            builder.argument(flag, "flag")

    def tests(self, group: FoldGroup, *, tiles: bool) -> tuple[str, str]:
        """Return the tests of a source and of an edge; the latter is empty if the source's suffices."""
        active, rows, moved = self.flags(group)
        of_rows, of_edges = [f"{flag}[u]" for flag in (*active, *rows)], [f"{flag}[e]" for flag in moved]
        one = len(of_rows) == 1
        wanted = templates.flagged(*active, *rows) if one else f"[&](Id u) {{ return {' || '.join(of_rows)}; }}"
        listed = f"[&](Id u, EdgeId e) {{ return {' || '.join([*of_rows[: len(active)], *of_edges])}; }}"
        return wanted, listed if tiles or self.tracking.edges(group) else ""

    def note(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        """Store the present values of edge ``e`` as propagated when the edge is visited."""
        if not self.tracking.change_driven or not self._at_once(group):
            return
        self._store(builder, group)

    def plan(self, draft: PlanDraft, group: FoldGroup, over: Over, lanes: float) -> None:
        """Add the launches after those that propagate to a draft."""
        if not self.tracking.edges(group):
            return
        kernels = self.kernels
        if not self._at_once(group):
            draft.add(self._propagated(group, tiles=False), Over.ALL_VERTICES, 1)
            if kernels.tiles:
                draft.add(self._propagated(group, tiles=True), over, lanes)
        rows = f"rows_{self.tracking.name(group)}"
        builder = kernels.builder(f"forget_{rows}", templates.FORGET.format(rows=rows), templates.RANGE)
        builder.argument(rows, "flag")
        draft.add(builder.finish(), Over.ALL_VERTICES, 1)

    def _at_once(self, group: FoldGroup) -> bool:
        spaces = {space for space, _ in self.tracking.edges(group)}
        return spaces == {"edge"}

    def _propagated(self, group: FoldGroup, *, tiles: bool) -> CudaKernel:
        """Build the kernel that stores the present values of edges that moved as propagated, or of all when everything
        was sent."""
        name, kernels = self.tracking.name(group), self.kernels
        wanted = templates.flagged(f"rows_{name}", "bool(run->rebuilding)")
        listed = f"[&](Id, EdgeId e) {{ return run->rebuilding || moved_{name}[e]; }}"
        stem = f"sent_edges_{name}{'_tiles' if tiles else ''}"
        builder = kernels.edges(stem, "csr", kernels.depth(group), wanted=wanted, listed=listed, tiles=tiles)
        builder.argument(f"rows_{name}", "flag")
        kernels.bind_reverse(builder, group.stages, "csr")
        self._store(builder, group)
        return builder.finish(unless=kernels.unless(group, tiles=tiles))

    def _store(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        name = self.tracking.name(group)
        for space, read in self.tracking.edges(group):
            node, index = builder.reading(space, read), "e" if space == "edge" else "reverse[e]"
            builder.store(f"sent_{name}_{read}", index, node, builder.mapping.lower(node), "visit")
        flag = builder.argument(f"moved_{name}", "flag")
        builder.blocks["visit"].line(f"if (group.leads()) {flag}[e] = false;")

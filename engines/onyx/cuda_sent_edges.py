"""Onyx on CUDA, pushing: what a group of reductions was last told of edges, and which edges have moved since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates

if TYPE_CHECKING:
    from engines.onyx.cuda_kernels import Kernels
    from harness.api import CudaKernel, CudaKernelBuilder, FoldGroup


class SentEdges:
    """For groups that read changing edge properties: the edges to visit though their source did not move,
    ``moved_<group>`` by CSR position, the sources of such edges, ``rows_<group>``, and the values last propagated,
    ``sent_<group>_<property>``, so that the new message takes the place of the one made of these.

    An edge is alone in reading what was sent of it, and notes what it sends at once, unless a group reads reverse edges
    too: then that is a kernel of its own.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels, self.tracking = kernels, kernels.tracking

    def flags(self, group: FoldGroup) -> tuple[list[str], list[str]]:
        """The flags of sources, and of edges, by which a group visits edges."""
        name, edges = self.tracking.name(group), self.tracking.edges(group)
        sources = [f"active_{name}"] if self.tracking.sources(group) or not edges else []
        return [*sources, *([f"rows_{name}"] if edges else [])], [*sources, *([f"moved_{name}"] if edges else [])]

    def add_flags(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        """Have a kernel take them."""
        for names in self.flags(group):
            for flag in names:
                builder.argument(flag, "flag")

    def tests(self, group: FoldGroup, *, tiles: bool) -> tuple[str, str]:
        """The tests of a source and of an edge; that of an edge is empty where the source's is enough."""
        sources, edges = self.flags(group)
        wanted = f"[&](Id u) {{ return {' || '.join(f'{flag}[u]' for flag in sources)}; }}"
        either = " || ".join(f"{flag}[{'e' if flag.startswith('moved_') else 'u'}]" for flag in edges)
        listed = f"[&](Id u, Arc e) {{ return {either}; }}"
        return wanted, listed if tiles or self.tracking.edges(group) else ""

    def note(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        """In the visit of edge ``e``: it has propagated what it has now."""
        if not self.tracking.change_driven or not self._at_once(group):
            return
        self._store(builder, group)

    def plan(self, group: FoldGroup, over: str, lanes: float) -> None:
        """The launches after those that propagate."""
        if not self.tracking.edges(group):
            return
        engine, kernels = self.kernels.engine, self.kernels
        if not self._at_once(group):
            engine.add(self._propagated(group, tiles=False), "all", 1)
            if kernels.tiles:
                engine.add(self._propagated(group, tiles=True), over, lanes)
        rows = f"rows_{self.tracking.name(group)}"
        builder = kernels.builder(f"forget_{rows}", templates.FORGET.format(rows=rows), templates.RANGE)
        builder.argument(rows, "flag")
        engine.add(builder.finish(), "all", 1)

    def _at_once(self, group: FoldGroup) -> bool:
        spaces = {space for space, _ in self.tracking.edges(group)}
        return spaces == {"edge"}

    def _propagated(self, group: FoldGroup, *, tiles: bool) -> CudaKernel:
        """Note that edges that moved, or all when everything was sent, have propagated what they have now."""
        name, kernels = self.tracking.name(group), self.kernels
        wanted = f"[&](Id u) {{ return run->rebuilding || rows_{name}[u]; }}"
        listed = f"[&](Id, Arc e) {{ return run->rebuilding || moved_{name}[e]; }}"
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
        builder.blocks["visit"].line(f"if (team.leads()) {flag}[e] = false;")

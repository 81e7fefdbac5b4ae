"""Onyx on CUDA: edge updates under change tracking, over the rows of sources in which one of their inputs has moved.

An update proceeds by source, regardless of the order in which edge values are stored: properties of the source are read
consecutively, and the unit that becomes dirty is a row. A value that moves by at most a quarter of the tolerance is
kept (see ``harness.lowering.tracking``). Values are written in place if only the edge itself reads its old one.

If an update reads old values from the reverse edges, there is a second buffer. A superstep over all rows writes every
value into it, and the two buffers are swapped. A superstep over dirty rows writes the values that move, which the
following kernel copies. The device chooses between the two by the number of edges of dirty rows.

The flags of dirty rows are also swapped in every superstep, since an update may make its own rows dirty for the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from engines.onyx import cuda_templates as templates
from harness.api import EdgeUpdate
from harness.api.cuda import PROPAGATED_SHARE, Over, constants_by_source, frontier

if TYPE_CHECKING:
    from engines.onyx.cuda_kernels import Kernels
    from harness.api import Direction, Expression, FoldGroup
    from harness.api.cuda import CudaKernel, CudaKernelBuilder, PlanDraft, Tracking, Value


def order_of(direction: Direction) -> str:
    """Return the order in which edge values are stored: the order in which they are reduced."""
    return "csc" if direction == "pull" else "csr"


def doubled_edges(tracking: Tracking, direction: Direction, group: FoldGroup) -> tuple[str, ...]:
    """Return the arrays of a tracked edge update that have a second buffer."""
    if not tracking.reads_own_reverse(group):
        return ()
    return tuple(f"{order_of(direction)}_{name}" for stage in group.stages for name in stage.writes)


class EdgeChanges:
    """One edge update of a plan that tracks changes."""

    def __init__(self, kernels: Kernels, group: FoldGroup) -> None:
        self.kernels, self.group = kernels, group
        self.tracking, self.order = kernels.tracking, order_of(kernels.setting.direction)
        self.stage = cast(EdgeUpdate, group.stages[0])
        self.name, self.number = self.tracking.name(group), kernels.number(group)
        self.dirty = f"dirty_{self.name}"
        self.array = f"{self.order}_{self.stage.updates}"
        self.doubled = self.tracking.reads_own_reverse(group)

    def plan(self, draft: PlanDraft) -> None:
        """Add the launches of a superstep to a draft."""
        if any(self._through_flags(name) for name in self.tracking.sources(self.group)):
            draft.add(self.mark(), Over.ALL_VERTICES, 1)
        draft.add(self.count(), Over.ALL_VERTICES, 1)
        turns = (False, True) if self.kernels.tiles else (False,)
        if self.doubled:
            draft.double(self.array)
        made = [self.update, self.commit] if self.doubled else [self.update]
        kernels = [(make(tiles=tiles), tiles) for make in made for tiles in turns]
        for kernel, tiles in kernels:
            over, lanes = (Over.ALL_EDGES, self.kernels.setting.lane_group.lanes) if tiles else (Over.ALL_VERTICES, 1)
            draft.add(kernel, over, lanes, (self.dirty,) if kernel is kernels[-1][0] else ())

    def _through_flags(self, name: str) -> bool:
        """Return whether movement of this property makes a vertex active for the update; else its row becomes dirty at
        once."""
        return not self.tracking.exact(self.group, name) or name in self.tracking.destinations(self.group)

    # which rows -------------------------------------------------------------------------------------------------------
    def mark(self) -> CudaKernel:
        """Build the kernel that marks rows of active vertices as dirty, and those that lead to them if destinations are
        read."""
        mark, signature = "", templates.RANGE
        if self.tracking.destinations(self.group):
            mark = f"if (sparse_rows(run, {self.number})) "
            active = templates.flagged(f"active_{self.name}")
            mark += f"mark(in_offsets, in_neighbours, first, last, {active}, {self.dirty});"
            signature = [("in_offsets", "offsets"), ("in_neighbours", "ids"), *signature]
        names = {"active": f"active_{self.name}", "dirty": self.dirty, "resuming": self.kernels.resuming}
        template = templates.MARK_ROWS.format(mark=mark, **names)
        builder = self.kernels.builder(f"mark_{self.name}", template, signature)
        builder.argument(f"active_{self.name}", "flag")
        builder.argument(self.dirty, "flag")
        builder.reads_frontier = bool(mark)
        self.kernels.note_sent(builder, self.group)
        return builder.finish()

    def count(self) -> CudaKernel:
        """Build the kernel that counts the edges of dirty rows.

        If a graph value that the update reads has changed, the count is set above the limit of sparse supersteps.
        """
        signature = [("out_offsets", "offsets"), *templates.RANGE]
        template = templates.COUNT_ROWS.format(dirty=self.dirty)
        builder = self.kernels.builder(f"count_{self.name}", template, signature)
        builder.argument(self.dirty, "flag")
        builder.argument(f"next_{self.dirty}", "flag")
        edges = builder.frontier_counter("edges", self.number)
        for value in self.tracking.of_graph(self.group):
            flag = builder.argument(f"changed_{value}", "flag")
            one = "blockIdx.x == 0 && threadIdx.x == 0"
            builder.root.line(f"if ({flag}[0] && {one}) {edges} = run->dense_rows + 1;")
        return builder.finish()

    # edges ------------------------------------------------------------------------------------------------------------
    def _edges(
        self, stem: str, depth: int, wanted: str, listed: str, *, tiles: bool, either: bool = False
    ) -> CudaKernelBuilder:
        """Return the builder of an edgemap over rows, with edge ``e`` at ``own`` and its reverse at ``back``."""
        name = f"{stem}{'_tiles' if tiles else ''}"
        builder = self.kernels.edges(name, "csr", depth, wanted=wanted, listed=listed, tiles=tiles, either=either)
        builder.argument(self.dirty, "flag")
        builder.argument("places" if self.order == "csc" else "reverse", "ids")
        own, back = ("places[e]", "e") if self.order == "csc" else ("e", "reverse[e]")
        builder.bind("edge", "fetch", own, f"{self.order}_")
        builder.bind("next", "fetch", own, f"next_{self.order}_")
        builder.bind("given", "fetch", "e", "csr_")
        builder.bind("reverse", "fetch", back, f"{self.order}_")
        self.own = own
        return builder

    def update(self, *, tiles: bool) -> CudaKernel:
        """Build the kernel of the new values of the edges of dirty rows, or of all edges if the dirty rows have most of
        them."""
        wanted = templates.flagged(self.dirty, "dense")
        listed = f"[&](Id u, EdgeId) {{ return dense || {self.dirty}[u]; }}" if tiles else ""
        builder = self._edges(self.name, self.kernels.depth_of_update(self.stage), wanted, listed, tiles=tiles)
        builder.reads_frontier = True
        builder.root.line(f"const bool dense = !sparse_rows(run, {self.number});")
        builder.comment("visit", self.stage)
        value = constants_by_source(self.kernels.program, self.stage.value)
        new = builder.mapping.kept(value)
        self._write(builder, value, new, self._far(builder, new))
        self.kernels.count_edge(builder, 1, "visit")
        return builder.finish(unless=self.kernels.unless(self.group, tiles=tiles))

    def _write(self, builder: CudaKernelBuilder, value: Expression, new: Value, far: str) -> None:
        """Store an edge that moved and notify its readers.

        Values that did not move must be copied if everything is written to the second buffer.
        """
        body, node = builder.blocks["visit"], builder.reading("edge", self.stage.updates)
        target = f"next_{self.array}" if self.doubled else self.array
        if self.doubled:
            flag = builder.argument(f"far_{self.name}", "flag")
            body.line(f"if (!dense && group.leads()) {flag}[e] = {far};")
        elif len(node.shape) == 2:
            body.line("group.sync();  // lanes may read what others of the group are about to write")
        body.line(f"if ({far}) {{")
        builder.store(target, self.own, value, new, "visit")
        body.line("if (group.leads()) {")
        self._tell(builder)
        body.line("}")
        if self.doubled and far != "true":
            body.line("} else if (dense) {")
            builder.store(target, self.own, node, builder.mapping.lower(node), "visit")
        body.line("}")

    def commit(self, *, tiles: bool) -> CudaKernel:
        """Copy the values that moved from the second buffer, or swap the buffers if it holds everything."""
        flips, far = f"flips_{self.array}", f"far_{self.name}"
        wanted = templates.flagged(self.dirty)
        listed = f"[&](Id u, EdgeId e) {{ return {self.dirty}[u] && {far}[e]; }}"
        builder = self._edges(f"commit_{self.name}", 1, wanted, listed, tiles=tiles, either=True)
        builder.argument(flips, "counts")
        builder.argument(far, "flag")
        builder.reads_frontier = True
        builder.root.line(f"if (!sparse_rows(run, {self.number})) {{")
        builder.root.line(f"    if (blockIdx.x == 0 && threadIdx.x == 0) ++{flips}[0];")
        builder.root.line("    return;")
        builder.root.line("}")
        node = builder.reading("next", self.stage.updates)
        builder.store(self.array, self.own, node, builder.mapping.lower(node), "visit")
        return builder.finish(unless=self.kernels.unless(self.group, tiles=tiles))

    # what moved -------------------------------------------------------------------------------------------------------
    def _far(self, builder: CudaKernelBuilder, new: Value) -> str:
        """Return a bool variable: whether an edge moved so far that it is written.

        Edges that moved by more than the tolerance are counted.
        """
        moved = builder.moved("edge", self.stage.updates, new, "visit")
        count = builder.counter("moved", "&run->moved")
        builder.blocks["visit"].line(f"if (group.leads() && {moved}) ++{count};")
        control = self.tracking.program.control
        if self.stage.updates in self.tracking.factors and moved != "true":
            margin, relative = self._share_of_tolerance(builder), True
        elif control.tolerance is not None and moved != "true":
            margin, relative = builder.tolerance(propagated=True), control.relative
        else:
            return moved
        node = builder.reading("edge", self.stage.updates)
        beyond = builder.mapping.differs(node, new, builder.blocks["visit"], margin, relative)
        return builder.blocks["visit"].declare("bool", builder.mapping.fresh("far"), f"{moved} || {beyond}")

    def _share_of_tolerance(self, builder: CudaKernelBuilder) -> str:
        """Return a variable: the propagated tolerance over the number of factors of the products with an edge.

        It is computed from the tolerance, which is in a register. Reading the propagated tolerance as well made kernels
        spill registers.
        """
        offsets = builder.argument("in_offsets", "offsets")
        readers = self.tracking.edge_readers(self.stage.updates)
        reverse = any(reader.edge_stages and "reverse" in spaces for reader, spaces in readers)
        count = "1.0f"
        for vertex in ("v", "u")[: 1 + reverse]:
            count = f"fmaxf({count}, float({offsets}[{vertex} + 1] - {offsets}[{vertex}]))"
        name = builder.mapping.fresh("margin")
        return builder.blocks["visit"].declare(
            "float", name, f"{builder.tolerance()} / ({1 / PROPAGATED_SHARE}f * {count})"
        )

    def _tell(self, builder: CudaKernelBuilder) -> None:
        """Set the flags of the readers of an edge that moves.

        A flag belongs to the vertex that owns the row of the edge that reads it.
        """
        body = builder.blocks["visit"]
        for reader, spaces in self.tracking.edge_readers(self.stage.updates):
            name = self.tracking.name(reader)
            for space in spaces:
                source, destination = ("u", "v") if space == "edge" else ("v", "u")
                if reader.kind == "update":
                    flag = f"{'next_' if reader is self.group else ''}dirty_{name}"
                    body.line(f"{builder.argument(flag, 'flag')}[{source}] = true;")
                    continue
                body.line(f"++{frontier(builder, self.tracking, self.group, reader)};")
                if self.order == "csc":
                    body.line(f"{builder.argument(f'dirty_{name}', 'flag')}[{destination}] = true;")
                else:
                    edge = "e" if space == "edge" else f"{builder.argument('reverse', 'ids')}[e]"
                    body.line(f"{builder.argument(f'moved_{name}', 'flag')}[{edge}] = true;")
                    body.line(f"{builder.argument(f'rows_{name}', 'flag')}[{source}] = true;")

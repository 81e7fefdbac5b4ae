"""Kernels of an edge update: new edge values from the end vertices, the edge's own and its reverse's old values.

The kernels iterate over sources and read the properties of a source once per row. If all edges pair, rows of CSR and
CSC list the same vertices: the j-th out-edge in a CSR row is the reverse of the j-th in-edge in the same CSC row.
Values that a pull gathers are stored in CSC order, in which the reverse edges of a row are contiguous and its own edges
are in other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.language.analysis import FoldGroup
from harness.language.criterion import PROPAGATED_SHARE
from harness.language.program import EdgeUpdate, reads
from harness.lowering.cpu.code import Block
from harness.lowering.cpu.flags import every_vertex, flagged_loop, raised
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.edge_order import constants_by_source
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking

BY_SOURCE = """
    @part
    moved = 0
    {loop}
    counts[t] = moved
"""

ROW = """
{fresh}
@source
for e in range(at(out_offsets, u), at(out_offsets, u + 1)):
    v = at(out_neighbours, e)
    own = {own}
    back = {back}
    @edge
"""

COMMIT = """
    @part
    {loop}
"""

COMMITTED_ROW = """
for e in range(at(out_offsets, u), at(out_offsets, u + 1)):
    if {far}[e]:
        own = {own}
        @edge
"""


@dataclass(frozen=True)
class UpdateKernels:
    """Generate the kernels of one edge update for an engine whose edge properties are in ``order`` (csc or csr)."""

    tracking: Tracking
    group: FoldGroup
    layout: Layout
    order: Literal["csc", "csr"]
    ids: str
    feature_aware: bool

    @property
    def stage(self) -> EdgeUpdate:
        """Return the update."""
        (stage,) = self.group.stages
        assert isinstance(stage, EdgeUpdate)
        return stage

    @property
    def reads_reverse(self) -> bool:
        """Return whether the update reads what it writes from the reverse edge.

        The old values must then outlive the step.
        """
        return self.tracking.reads_own_reverse(self.group)

    @property
    def reads_itself(self) -> bool:
        """Return whether a change of what the update writes makes rows of the same update dirty."""
        return any(reader is self.group for reader, _ in self.tracking.edge_readers(self.stage.updates))

    def everything(self) -> Kernel:
        """Return the kernel that writes new values of all edges to the second buffer ``next_<order>_<property>``."""
        builder = self._builder(self.stage.name)
        self._compute(builder, f"next_{self.order}_", keep=True)
        return builder.finish()

    def changes(self) -> Kernel:
        """Return the kernel that writes new values of edges of dirty rows, if they moved.

        It writes in place, or to the second buffer if old values are read from the reverse edges; :meth:`commit` must
        then follow.
        """
        name = self.tracking.name(self.group)
        builder = self._builder(f"{name}_changes", dirty=f"dirty_{name}")
        builder.flags(f"dirty_{name}")
        if self.reads_reverse:
            builder.flags("fresh")
        self._compute(builder, f"{'next_' if self.reads_reverse else ''}{self.order}_", keep=False)
        return builder.finish()

    def commit(self) -> Kernel:
        """Return the kernel that copies the moved edges of fresh rows from the second buffer."""
        stage, far = self.stage, f"far_{self.stage.name}"
        signature = [("bounds", "i64"), ("out_offsets", "offsets"), (far, "flag")]
        row = COMMITTED_ROW.format(far=far, own=self._own())
        template = COMMIT.format(loop=flagged_loop("u", "fresh", row))
        builder = KernelBuilder(
            f"{stage.name}_commit", self.tracking.program, self.layout, template, signature,
            feature_aware=self.feature_aware,
        )  # fmt: skip
        builder.flags("fresh")
        self._places(builder)
        builder.bind("next", "edge", "own", f"next_{self.order}_")
        node = builder.reading("next", stage.updates)
        builder.store(f"{self.order}_{stage.updates}", "own", node, builder.lower(node), "edge")
        return builder.finish()

    # parts ------------------------------------------------------------------------------------------------------
    def _own(self) -> str:
        return "at(places, e)" if self.order == "csc" else "e"

    def _places(self, builder: KernelBuilder) -> None:
        if self.order == "csc":
            builder.argument("places", self.ids)

    def _builder(self, name: str, *, dirty: str = "") -> KernelBuilder:
        reverse = self.order == "csr" and any(space == "reverse" for space, _ in reads(self.stage))
        back = "at(reverse, e)" if reverse else "e"
        fresh = raised("fresh", "u") if dirty and self.reads_reverse else ""
        row = ROW.format(fresh=fresh, own=self._own(), back=back)
        loop = every_vertex("u", row)
        if dirty:
            loop = flagged_loop("u", dirty, row)
        template = BY_SOURCE.format(loop=loop)
        signature = [
            ("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets"), ("out_neighbours", self.ids)
        ]  # fmt: skip
        builder = KernelBuilder(
            name, self.tracking.program, self.layout, template, signature,
            feature_aware=self.feature_aware, dynamic=True,
        )  # fmt: skip
        self._places(builder)
        if reverse:
            builder.argument("reverse", self.ids)
        builder.bind("src", "source", "u")
        builder.bind("dst", "edge", "v")
        builder.bind("edge", "edge", "own", f"{self.order}_")
        builder.bind("given", "edge", "e", "csr_")
        builder.bind("reverse", "edge", "back", f"{self.order}_")
        return builder

    def _compute(self, builder: KernelBuilder, prefix: str, *, keep: bool) -> None:
        """Store new values; under change tracking only of edges that moved, and set the flags that this requires.

        ``keep``: the values of the other edges must be stored too.
        """
        stage, body = self.stage, builder.blocks["edge"]
        value = constants_by_source(self.tracking.program, stage.value)
        new = builder.mapping.detached(value)
        node = builder.reading("edge", stage.updates)
        target = f"{prefix}{stage.updates}"
        tracked = self.tracking.change_driven
        if not tracked and ("edge", stage.updates) not in self.tracking.watches:
            builder.store(target, "own", value, new, "edge")
            return
        old = builder.lower(node)
        far = builder.mapping.fresh("far")
        body.line(f"{far} = {builder.differs(old, new, 'edge', tolerance=builder.tolerance())}")
        body.line(f"moved += int64({far})")
        if not tracked:
            builder.store(target, "own", value, new, "edge")
            return
        margin, relative = None, None
        if stage.updates in self.tracking.factors:
            margin, relative = self._share_of_tolerance(builder), True
        elif self.tracking.program.control.tolerance is not None:
            margin = builder.tolerance(PROPAGATED_SHARE)
        if margin is not None:
            body.line(f"{far} = {far} or {builder.differs(old, new, 'edge', tolerance=margin, relative=relative)}")
        if not keep and self.reads_reverse:
            body.line(f"{builder.argument(f'far_{stage.name}', 'flag')}[e] = {far}")
        body.line(f"if {far}:")
        moving, still = Block("moving", body), Block("still", body)
        builder.mapping.store(builder.argument(target, "f32"), "own", value, new, moving)
        body.inner([*moving.lines, *self._flags(builder)])
        if keep:
            builder.mapping.store(target, "own", node, old, still)
            body.line("else:").inner(still.lines)

    def _share_of_tolerance(self, builder: KernelBuilder) -> str:
        """Declare the propagated tolerance divided by the number of factors of the products that contain an edge.

        Return the variable.
        """
        margin, offsets = builder.mapping.fresh("margin"), builder.argument("in_offsets", "offsets")
        reverse = any(
            reader.edge_stages and "reverse" in spaces
            for reader, spaces in self.tracking.edge_readers(self.stage.updates)
        )
        counts = [f"at({offsets}, {x} + 1) - at({offsets}, {x})" for x in ("v", "u")[: 1 + reverse]]
        builder.blocks["edge"].line(
            f"{margin} = {builder.tolerance(PROPAGATED_SHARE)} / float32(max(1, {', '.join(counts)}))"
        )
        return margin

    def _flags(self, builder: KernelBuilder) -> list[str]:
        """Return the flags that a moved edge sets for its readers.

        A flag belongs to the row of the edge for which the value is read, at the vertex that owns the row.
        """
        lines = []
        for reader, spaces in self.tracking.edge_readers(self.stage.updates):
            name = self.tracking.name(reader)
            for space in spaces:
                source, destination = ("u", "v") if space == "edge" else ("v", "u")
                if reader.kind == "update":
                    lines.append(_raise(builder, f"{'next_' if reader is self.group else ''}dirty_{name}", source))
                elif self.order == "csc":
                    lines.append(_raise(builder, f"dirty_{name}", destination))
                else:
                    edge = "e" if space == "edge" else f"at({builder.argument('reverse', self.ids)}, e)"
                    lines.append(f"{builder.argument(f'changed_{name}', 'flag')}[{edge}] = True")
                    lines.append(_raise(builder, f"rows_{name}", source))
        return lines


def _raise(builder: KernelBuilder, flags: str, v: str) -> str:
    builder.flags(flags)
    return raised(flags, v)

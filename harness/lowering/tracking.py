"""Change tracking: which vertices a change makes stale, and which sources have to propagate.

Groups of stages (a kernel each) are the readers. When a kernel writes a property of vertex v, every group that reads
it *at v* has v **dirty** if the value changed at all. For a group that reads it *from the source of an edge*, the value
is compared with the one that the group last read (**sent**). The group has v **active** if they differ by more than a
share of the tolerance (:mod:`harness.language.criterion`). Without change tracking, a kernel only counts the vertices
that moved by more than the tolerance. These are the rules; each device records changes in its own way.

An updated edge property is read only by propagation, so a value that is not propagated is not stored: an update that
moves an edge by at most a quarter of the tolerance keeps the old value, which thus *is* what was sent, to every reader.
An edge that moved by more makes dirty the destination of every reduction that reads it. If an update reads its old
value, the edge is recomputed, and so is its reverse. Edge updates process rows of sources. A row is **dirty** when a
property of its source, or of the destination of one of its edges, has moved since it was sent to the update. It is also
dirty when such an edge has moved.

A factor of a product counts by its logarithm, and the errors of many factors add up. Therefore a factor is kept only
while it is within a quarter of the tolerance divided by the number of factors, relative to its magnitude. (With the
tolerance undivided and absolute, and 8 messages of 33 states per vertex, beliefs were off by 10^-3 at 10^-5.) The parts
of a product are compared exactly, because the tolerance was applied to its factors. If factors compensate, the product
does not move, but the product without one of them does. The tolerance as the program states it decides whether
a run has settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.language.analysis import FoldGroup, Watched, compose, edge_properties, mutable
from harness.language.expressions import Expression
from harness.language.program import Program, Stage, reads


@dataclass(frozen=True)
class Tracking:
    """The readers of each property. ``change_driven`` False: only movement of what the program ``watches`` is counted.

    (What the program watches differs from what its lowered form reads: the logarithm of a vanishing message never stops
    changing.)
    """

    program: Program
    groups: tuple[FoldGroup, ...]
    change_driven: bool
    watches: tuple[Watched, ...]
    factors: frozenset[str] = frozenset()  # edge properties that are factors of the program's products
    keeps_sent: bool = True  # False: any change is propagated to reductions, and sent values are not read
    propagated_share: float = 1.0  # of the tolerance, by which a vertex may differ from what was sent

    @staticmethod
    def name(group: FoldGroup) -> str:
        """Return the name of a group: that of its first stage."""
        return group.stages[0].name

    def sources(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the changing properties that a group reads from edge sources; an edge update, from either end."""
        return self._read(group, ("src", "dst") if group.kind == "update" else ("src",))

    def destinations(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the changing properties that a group reads from the destinations of edges."""
        return self._read(group, ("dst",))

    def own(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the changing properties that a group reads at its own vertex before it writes them."""
        return self._read(group, ("v",) if group.kind == "update" else ("v", "dst"))

    def of_graph(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the changing values of the graph that a group reads."""
        return self._read(group, ("graph",))

    def _read(self, group: FoldGroup, spaces: Sequence[str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        made: set[str] = set()
        for stage in group.stages:
            for space, name in reads(stage):
                if space in spaces and name not in made and mutable(self.program, name):
                    found[name] = None
            made |= set(stage.writes)
        return tuple(found)

    def live(self, stages: Sequence[Stage]) -> frozenset[str]:
        """Return which of the properties that some stages write must reach memory, including watched ones."""
        written = {name for stage in stages for name in stage.writes}
        return live_after(self.program, stages) | {name for _, name in self.watches if name in written}

    def moved_before(self, group: FoldGroup) -> bool:
        """Return whether earlier groups of a superstep may move what a group reads from the sources of edges."""
        return bool(self._written_before(group) & set(self.sources(group)))

    def hears_at_once(self, group: FoldGroup) -> bool:
        """Return whether what moves a group's sources, or edges that it reads, runs earlier in the same superstep."""
        heard = {*self.sources(group), *(name for _, name in self.edges(group))}
        return bool(self._written_before(group) & heard) and not self.program.control.alternate

    def _written_before(self, group: FoldGroup) -> set[str]:
        earlier = self.groups[: self.groups.index(group)]
        return {name for g in earlier for stage in g.stages for name in stage.writes}

    def propagates_after(self, group: FoldGroup, writer: FoldGroup) -> bool:
        """Return whether a group already propagates in the same superstep what another one writes.

        It does if it runs later and processes the vertices that have been updated.
        """
        behind = self.groups.index(group) > self.groups.index(writer)
        return behind and not self.program.control.alternate

    def stale_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """Return the groups that a change of a vertex's own property makes stale.

        They are the groups that read it and, if several groups write it, those too, because they must write it again.
        """
        writers = [g for g in self.groups if any(name in stage.writes for stage in g.stages)]
        again = writers if len(writers) > 1 else []
        return tuple(g for g in self.groups if g.kind != "graph" and (name in self.own(g) or g in again))

    def stale_after(self, name: str) -> tuple[FoldGroup, ...]:
        """Return :meth:`stale_groups` without a group that has just written the property and would write the same
        again.

        The steps of such a group only bound the previous value (``level = minimum(level, nearest)``).
        """
        return tuple(group for group in self.stale_groups(name) if not self.bounds_only(group, name))

    def bounds_only(self, group: FoldGroup, name: str) -> bool:
        """Return whether a group alone writes a vertex's property, bounds its previous value, and has no other use for
        it.
        """
        if any(name in stage.writes for other in self.groups if other is not group for stage in other.stages):
            return False
        if any(("dst", name) in reads(stage) for stage in group.edge_stages):
            return False
        made = dict(compose(group.vertex_steps))
        others = [value for other, value in made.items() if other != name]
        return name in made and _bounded(made[name], name) and not any(("v", name) in reads(value) for value in others)

    def propagating(self) -> tuple[FoldGroup, ...]:
        """Return the groups to which changes are propagated along edges."""
        return tuple(group for group in self.groups if group.edge_stages or group.kind == "update")

    def reads_own_reverse(self, group: FoldGroup) -> bool:
        """Return whether an edge update reads old values of what it writes from the reverse edges.

        These values must outlive the step.
        """
        return any(("reverse", name) in reads(stage) for stage in group.stages for name in stage.writes)

    def listening_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """Return the groups to which a vertex's property is propagated along edges."""
        return tuple(g for g in self.groups if g.kind not in ("vertex", "graph") and name in self.sources(g))

    def exact(self, group: FoldGroup, name: str) -> bool:
        """Return whether every change of a property that a group reads from the ends of edges has to be propagated.

        It has to if an edge update reads a part of a product.
        """
        return group.kind == "update" and ("vertex", name) not in self.watches

    def sent(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the vertex properties whose values last propagated to a group are kept.

        Of the others, every change is propagated.
        """
        if not self.keeps_sent and group.kind != "update":
            return ()
        return tuple(name for name in self.sources(group) if not self.exact(group, name))

    def edges(self, group: FoldGroup) -> tuple[tuple[str, str], ...]:
        """Return the changing edge properties that a group reads, each with its space: *edge* or *reverse*."""
        return tuple(dict.fromkeys(pair for stage in group.stages for pair in edge_properties(self.program, stage)))

    def edge_readers(self, name: str) -> tuple[tuple[FoldGroup, tuple[str, ...]], ...]:
        """Return the groups that read an edge property, each with the spaces from which it reads.

        If several groups update the property, these are included, because they must write it again.
        """
        writers = [g for g in self.groups if any(name in stage.writes for stage in g.stages)]
        found = []
        for group in self.groups:
            spaces = {space: None for space, read in self.edges(group) if read == name}
            if group in writers and len(writers) > 1:
                spaces["edge"] = None
            found.append((group, tuple(spaces)))
        return tuple((group, spaces) for group, spaces in found if spaces)


def _bounded(value: Expression, name: str) -> bool:
    """Return whether an expression bounds a vertex's property by values that do not depend on it.

    The alternative to the property may be any such value. Then f(f(x)) is f(x), exactly.
    """
    if value.op == "read":
        return bool(value.attribute == ("v", name))
    if value.op not in ("min", "max", "where"):
        return False
    inner = [part for part in value.args if ("v", name) in reads(part)]
    condition = value.op == "where" and any(part is value.args[0] for part in inner)
    return len(inner) == 1 and not condition and _bounded(inner[0], name)


def composed_writes(program: Program, group: FoldGroup, live: frozenset[str]) -> list[tuple[str, Expression]]:
    """Return the final writes of a group's vertex steps, in terms of what the group reads; only live properties."""
    return [(name, value) for name, value in compose(group.vertex_steps) if name in live]


def live_after(program: Program, stages_inside: Sequence[Stage]) -> frozenset[str]:
    """Return which of the properties that some stages write must reach memory.

    They are read by other stages, or by these stages in the next superstep before they are written, or are outputs.
    """
    group = {name for stage in stages_inside for name in stage.writes}
    needed = set(program.outputs)
    written: set[str] = set()
    for stage in program.stages:
        for _, name in reads(stage):
            if not any(stage is inside for inside in stages_inside) or name not in written:
                needed.add(name)
        if any(stage is inside for inside in stages_inside):
            written |= set(stage.writes)
    return frozenset(name for name in group if name in needed and mutable(program, name))

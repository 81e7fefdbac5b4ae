"""Change tracking: which vertices a change makes stale, and which sources have to propagate.

Groups of stages (a kernel each) are the readers. When a kernel writes a property of vertex v, every group that reads
it *at v* has v **dirty** if the value changed at all; every group that reads it *from the source of an edge* has v
**active** if the value is farther than a share of the tolerance (:mod:`harness.language.criterion`) from what that
group last saw of it (**sent**). Without change tracking, a kernel only counts how many vertices moved by more than the
tolerance. These are the rules; how a kernel notes what they ask for is each device's own.

An updated edge property is read by propagation alone, so what is not propagated is not stored: an update that moves an
edge by no more than the tolerance leaves its value as it is, which thus *is* what was sent, to every reader. An edge
that moved by more makes dirty the destination of every reduction that reads it, and it is computed again, as its
reverse is, where an update reads its old value. Edge updates go row by row of sources: a row is **dirty** when a
property of its source, or of the destination of one of its edges, has moved since it was sent to the update, or such an
edge.

A factor of a product counts by its logarithm, and many of them add up: it is left as it is only while it is within the
tolerance divided by the number of factors, relative to its magnitude. (With the tolerance as it is, absolute, and 8
messages of 33 states a vertex, beliefs were off by 10^-3 at a tolerance of 10^-5.) The parts of a product are compared
exactly, since the tolerance was applied to its factors: compensating factors leave the product still, while what is
left without one of them moves. Whether a run has settled is decided by the tolerance as the program states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.language.analysis import FoldGroup, Watched, compose, edge_properties, mutable
from harness.language.expressions import Expression
from harness.language.program import Program, Stage, reads


@dataclass(frozen=True)
class Tracking:
    """Who reads what. ``change_driven`` False: nothing is tracked, movement of what the program ``watches`` is counted.

    (What the program watches is not what its lowered form reads: the logarithm of a message that vanishes goes on for
    ever.)
    """

    program: Program
    groups: tuple[FoldGroup, ...]
    change_driven: bool
    watches: tuple[Watched, ...]
    factors: frozenset[str] = frozenset()  # edge properties that the program's products are made of
    keeps_sent: bool = True  # False: any change at all is propagated to reductions, and nobody asks what was sent
    propagated_share: float = 1.0  # of the tolerance, by which a vertex may differ from what was sent
    pauses: bool = False  # where nearly everything moves, supersteps go untracked, by kernels of their own

    @staticmethod
    def name(group: FoldGroup) -> str:
        """A group goes by the name of its first stage."""
        return group.stages[0].name

    def sources(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing properties that a group reads from the sources of edges; an edge update, from either end."""
        return self._read(group, ("src", "dst") if group.kind == "update" else ("src",))

    def destinations(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing properties that a group reads from the destinations of edges."""
        return self._read(group, ("dst",))

    def own(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing properties that a group reads at the vertex it works for, and does not make itself before."""
        return self._read(group, ("v",) if group.kind == "update" else ("v", "dst"))

    def of_graph(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing values of the graph that a group reads."""
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
        """Of the properties that some stages write, those that must reach memory; what is watched is among them."""
        written = {name for stage in stages for name in stage.writes}
        return live_after(self.program, stages) | {name for _, name in self.watches if name in written}

    def moved_before(self, group: FoldGroup) -> bool:
        """Whether groups that run earlier in a superstep may move what a group reads from the sources of edges."""
        return bool(self._written_before(group) & set(self.sources(group)))

    def hears_at_once(self, group: FoldGroup) -> bool:
        """Whether what moves a group's sources, or the edges that it reads, runs earlier in the same superstep."""
        heard = {*self.sources(group), *(name for _, name in self.edges(group))}
        return bool(self._written_before(group) & heard) and not self.program.control.alternate

    def _written_before(self, group: FoldGroup) -> set[str]:
        earlier = self.groups[: self.groups.index(group)]
        return {name for g in earlier for stage in g.stages for name in stage.writes}

    def propagates_after(self, group: FoldGroup, writer: FoldGroup) -> bool:
        """Whether a group propagates what another one writes in the same superstep already: it comes behind that, and
        goes over the vertices that have been updated."""
        behind = self.groups.index(group) > self.groups.index(writer)
        return behind and not self.program.control.alternate

    def stale_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """The groups that a change of a vertex's own property makes stale: those that read it, and where several groups
        write it those as well, as they are to write it anew."""
        writers = [g for g in self.groups if any(name in stage.writes for stage in g.stages)]
        again = writers if len(writers) > 1 else []
        return tuple(g for g in self.groups if g.kind != "graph" and (name in self.own(g) or g in again))

    def stale_after(self, name: str) -> tuple[FoldGroup, ...]:
        """As :meth:`stale_groups`, without a group that has just written the property and would write the same again:
        its steps bound what the property was (``level = minimum(level, nearest)``) and make nothing else of it."""
        return tuple(group for group in self.stale_groups(name) if not self.bounds_only(group, name))

    def bounds_only(self, group: FoldGroup, name: str) -> bool:
        """Whether a group alone writes a vertex's property, by bounding what it was, and reads it for nothing else."""
        if any(name in stage.writes for other in self.groups if other is not group for stage in other.stages):
            return False
        if any(("dst", name) in reads(stage) for stage in group.edge_stages):
            return False
        made = dict(compose(group.vertex_steps))
        others = [value for other, value in made.items() if other != name]
        return name in made and _bounded(made[name], name) and not any(("v", name) in reads(value) for value in others)

    def propagating(self) -> tuple[FoldGroup, ...]:
        """The groups to which changes are propagated along edges."""
        return tuple(group for group in self.groups if group.edge_stages or group.kind == "update")

    def reads_own_reverse(self, group: FoldGroup) -> bool:
        """Whether an edge update reads old values of what it writes from the reverse edges, so that they must outlive
        the step."""
        return any(("reverse", name) in reads(stage) for stage in group.stages for name in stage.writes)

    def listening_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """The groups to which a vertex's property is propagated along edges."""
        return tuple(g for g in self.groups if g.kind not in ("vertex", "graph") and name in self.sources(g))

    def exact(self, group: FoldGroup, name: str) -> bool:
        """Whether any change at all of a property that a group reads from the ends of edges has to be propagated: where
        an edge update reads a part of a product."""
        return group.kind == "update" and ("vertex", name) not in self.watches

    def sent(self, group: FoldGroup) -> tuple[str, ...]:
        """The properties of vertices of which is kept what was last propagated to a group; of the others any change at
        all is propagated."""
        if not self.keeps_sent and group.kind != "update":
            return ()
        return tuple(name for name in self.sources(group) if not self.exact(group, name))

    def edges(self, group: FoldGroup) -> tuple[tuple[str, str], ...]:
        """The changing edge properties that a group reads, each with its space: *edge* or *reverse*."""
        return tuple(dict.fromkeys(pair for stage in group.stages for pair in edge_properties(self.program, stage)))

    def edge_readers(self, name: str) -> tuple[tuple[FoldGroup, tuple[str, ...]], ...]:
        """The groups that read an edge property, each with the spaces from which it does; where several groups update
        it those as well, as they are to write it anew."""
        writers = [g for g in self.groups if any(name in stage.writes for stage in g.stages)]
        found = []
        for group in self.groups:
            spaces = {space: None for space, read in self.edges(group) if read == name}
            if group in writers and len(writers) > 1:
                spaces["edge"] = None
            found.append((group, tuple(spaces)))
        return tuple((group, spaces) for group, spaces in found if spaces)


def _bounded(value: Expression, name: str) -> bool:
    """Whether an expression is what a vertex's property is, within bounds that it is not part of, or else something
    that has nothing to do with it: f(f(x)) is then f(x), exactly."""
    if value.op == "read":
        return bool(value.attribute == ("v", name))
    if value.op not in ("min", "max", "where"):
        return False
    inner = [part for part in value.args if ("v", name) in reads(part)]
    condition = value.op == "where" and any(part is value.args[0] for part in inner)
    return len(inner) == 1 and not condition and _bounded(inner[0], name)


def composed_writes(program: Program, group: FoldGroup, live: frozenset[str]) -> list[tuple[str, Expression]]:
    """What the vertex steps of a group write in the end, each in terms of what the group reads; only what is live."""
    return [(name, value) for name, value in compose(group.vertex_steps) if name in live]


def live_after(program: Program, stages_inside: Sequence[Stage]) -> frozenset[str]:
    """Of the properties that some stages write, those that must reach memory: read by other stages, by these stages in
    the next superstep before they are written, or part of the answer."""
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

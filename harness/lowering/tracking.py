"""Change tracking: which vertices a change makes stale, and which sources have to propagate.

Groups of stages (a kernel each) are the readers. When a kernel writes a property of vertex v, every group that reads
it *at v* has v **dirty** if the value changed at all; every group that reads it *from the source of an edge* has v
**active** if the value is farther than the tolerance from what that group last saw of it (**sent**). Without change
tracking, a kernel only counts how many vertices moved by more than the tolerance. These are the rules; how a kernel
notes what they ask for is each device's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.language.analysis import FoldGroup, Watched, compose, mutable
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

    @staticmethod
    def name(group: FoldGroup) -> str:
        """A group goes by the name of its first stage."""
        return group.stages[0].name

    def sources(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing properties that a group reads from the sources of edges."""
        return self._read(group, ("src",))

    def own(self, group: FoldGroup) -> tuple[str, ...]:
        """The changing properties that a group reads at the vertex it works for, and does not make itself before."""
        return self._read(group, ("v", "dst"))

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
        earlier = self.groups[: self.groups.index(group)]
        return bool({name for g in earlier for s in g.stages for name in s.writes} & set(self.sources(group)))

    def stale_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """The groups that a change of a vertex's own property makes stale: those that read it, and where several groups
        write it those as well, as they are to write it anew."""
        writers = [g for g in self.groups if any(name in stage.writes for stage in g.stages)]
        again = writers if len(writers) > 1 else []
        return tuple(g for g in self.groups if g.kind != "graph" and (name in self.own(g) or g in again))

    def listening_groups(self, name: str) -> tuple[FoldGroup, ...]:
        """The groups to which a property is propagated along edges."""
        return tuple(g for g in self.groups if g.edge_stages and name in self.sources(g))


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

"""Change tracking: which vertices a change makes stale, and which sources have to propagate.

Groups of stages (a kernel each) are the readers. When a kernel writes a property of vertex v, every group that reads
it *at v* has v **dirty** if the value changed at all; every group that reads it *from the source of an edge* has v
**active** if the value is farther than the tolerance from what that group last saw of it (**sent**). Without change
tracking, a kernel only counts how many vertices moved by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.language.analysis import FoldGroup, Watched, compose, mutable
from harness.language.expressions import Expression
from harness.language.program import Program, Stage, reads
from harness.lowering.cpu.code import Value
from harness.lowering.cpu.kernels import KernelBuilder, live_after


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


def write_back(
    builder: KernelBuilder,
    tracking: Tracking,
    writes: Sequence[tuple[str, Expression]],
    block: str,
    *,
    prefix_of: Mapping[str, str] | None = None,
    sent_is_current: FoldGroup | None = None,
) -> None:
    """Store new values of vertex ``v`` in ``block`` and note what they change.

    ``prefix_of``: properties that are written to another array, ``prefix + name``, as others still read the old one.
    ``sent_is_current``: a group that has propagated all present values, so that they are what it has sent; the
    template then counts its active sources in ``moved`` and their arcs in ``arcs``. Without change tracking ``moved``
    counts the vertices that moved.
    """
    at = builder.blocks[block]
    builder.bind("old", block, "v")
    new = {name: builder.mapping.detached(value) for name, value in writes}
    moved = []
    for name, _ in writes:
        if tracking.change_driven:
            _note_changes(builder, tracking, name, new[name], block, sent_is_current)
        elif ("vertex", name) in tracking.watches:
            old = builder.lower(builder.reading("old", name))
            moved.append(builder.differs(old, new[name], block, tolerance=builder.tolerance()))
    if moved:
        at.line(f"moved += 1 if {' or '.join(moved)} else 0")
    for name, value in writes:
        builder.store((prefix_of or {}).get(name, "vertex_") + name, "v", value, new[name], block)


def _note_changes(
    builder: KernelBuilder, tracking: Tracking, name: str, new: Value, block: str, current: FoldGroup | None
) -> None:
    at = builder.blocks[block]
    old = builder.reading("old", name)
    stale = tracking.stale_groups(name)
    if stale:
        changed = builder.mapping.fresh("changed")
        at.line(f"{changed} = {builder.differs(builder.lower(old), new, block)}")
        for group in stale:
            _set_flag(builder, f"dirty_{tracking.name(group)}", changed, block, alone=group is current)
    for group in tracking.listening_groups(name):
        space = f"sent_{tracking.name(group)}"
        builder.bind(space, block, "v", f"{space}_")
        before = builder.lower(old if group is current else builder.reading(space, name))
        far = builder.mapping.fresh("far")
        at.line(f"{far} = {builder.differs(before, new, block, tolerance=builder.tolerance())}")
        _set_flag(builder, f"active_{tracking.name(group)}", far, block, alone=group is current)
        if group is current:
            offsets = builder.argument("out_offsets", "offsets")
            at.line(f"moved += int64({far})")
            at.line(f"arcs += int64({far}) * (at({offsets}, v + 1) - at({offsets}, v))")


def _set_flag(builder: KernelBuilder, flag: str, condition: str, block: str, *, alone: bool) -> None:
    """Set a flag of ``v`` where the condition holds; ``alone``: no other kernel has set it since it was cleared, so
    that it can be written without a branch."""
    array = builder.argument(flag, "flag")
    at = builder.blocks[block]
    if alone:
        written = any(line.startswith(f"{array}[v] = ") for line in at.lines)
        at.line(f"{array}[v] = {f'{array}[v] or ' if written else ''}{condition}")
    else:
        at.line(f"if {condition}:").line(f"    {array}[v] = True")


def composed_writes(program: Program, group: FoldGroup, live: frozenset[str]) -> list[tuple[str, Expression]]:
    """What the vertex steps of a group write in the end, each in terms of what the group reads; only what is live."""
    return [(name, value) for name, value in compose(group.vertex_steps) if name in live]

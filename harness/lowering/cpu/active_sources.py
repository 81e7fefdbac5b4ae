"""Track active sources and the values that they last propagated: flags, counts and copies for each group of stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.facts import GraphFacts
from harness.lowering.cpu.calls import Calls
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.partition import Partition
from harness.lowering.cpu.tables import SourceParts
from harness.lowering.graph_store import GraphStore


@dataclass(frozen=True)
class Frontier:
    """The sources that a group of stages propagates from.

    ``group``: the name of the group. ``reduces``: the group reduces along edges; otherwise it updates edges. ``sent``:
    the properties whose propagated values are kept. ``moved_before``: earlier groups of a superstep may move what the
    group reads from sources.
    """

    group: str
    reduces: bool
    sent: tuple[str, ...]
    moved_before: bool


class ActiveSources:
    """Active sources of a run; :mod:`harness.lowering.cpu.frontier` has the kernels.

    ``edges``: for each group, by name, the number of edges that leave its active sources, counted at the end of the
    previous superstep.
    ``counted``: active sources and their edges that another kernel has already counted.
    """

    def __init__(
        self,
        frontiers: Sequence[Frontier],
        graph: GraphFacts,
        store: GraphStore,
        memory: Memory,
        call: Calls,
        partition: Partition,
    ) -> None:
        self.frontiers = {frontier.group: frontier for frontier in frontiers}
        self.num_vertices, self.memory, self.call = graph.num_vertices, memory, call
        self.bounds = store.table(SourceParts(partition))
        self.edges: dict[str, int] = {}
        self.counted: dict[str, tuple[int, int]] = {}

    def reset(self, *, alternates: bool) -> None:
        """Discard all counts; a run begins with every current value propagated that another group moves first.

        ``alternates``: a superstep updates one side. The side that moves before it first propagates compares its values
        with the initial ones, and not with those of the previous run.
        """
        self.edges, self.counted = {}, {}
        for frontier in self.frontiers.values():
            if frontier.moved_before:
                self.all_propagated(frontier.group)
            elif alternates:
                self.keep_values(frontier.group)

    def count(self, group: str, *, flag: str = "active", bounds: NDArray[np.int64] | None = None) -> tuple[int, int]:
        """Count the sources with a flag, by default the active ones, of a group, and the edges that leave them.

        ``bounds``: count only in these parts.
        """
        bounds = self.bounds if bounds is None else bounds
        parts, pairs = len(bounds) - 1, self.memory.arrays["pairs"]
        stem = "count" if flag == "active" else f"count_{flag}"
        self.call(f"{stem}_{group}", parts, bounds=bounds, counts=pairs)
        return int(pairs[: 2 * parts : 2].sum()), int(pairs[1 : 2 * parts : 2].sum())

    def count_moved(self, groups: Sequence[str]) -> int:
        """Count, at the end of a superstep, the sources that are active for the groups; return their number.

        The edges that leave them are counted for the next superstep.
        """
        moved = 0
        for group in groups:
            counted = self.counted.pop(group, None)
            active, self.edges[group] = counted if counted is not None else self.count(group)
            moved += active
        return moved

    def most_edges(self) -> int:
        """Return the largest number of edges that leave the active sources of a group that reduces."""
        found = (self.edges.get(name, 0) for name, frontier in self.frontiers.items() if frontier.reduces)
        return max(found, default=0)

    def mark(self, group: str) -> None:
        """Flag the vertices that active sources reach, and record the current values of these sources as propagated."""
        self.call(f"mark_{group}", len(self.bounds) - 1, bounds=self.bounds)

    def all_propagated(self, group: str, *, first: int = 0, last: int | None = None, but: Sequence[str] = ()) -> None:
        """Record that the sources ``first..last`` have propagated their current values, except those of ``but``."""
        self.memory.arrays[f"active_{group}"][first:last] = False
        self.keep_values(group, first=first, last=last, but=but)

    def keep_values(self, group: str, *, first: int = 0, last: int | None = None, but: Sequence[str] = ()) -> None:
        """Record the current values of the sources ``first..last`` as propagated; their flags stay as they are."""
        arrays, count = self.memory.arrays, self.num_vertices
        for source in self.frontiers[group].sent:
            if source not in but:
                current = arrays[f"vertex_{source}"]
                stride = len(current) // max(1, count)
                part = slice(first * stride, (count if last is None else last) * stride)
                arrays[f"sent_{group}_{source}"][part] = current[part]

    def begin_with(self, senders: NDArray[np.bool_]) -> None:
        """Make only ``senders`` active for the groups that reduce; all others have propagated their current values."""
        for frontier in self.frontiers.values():
            if frontier.reduces:
                self.all_propagated(frontier.group)
                self.memory.set_flags(f"active_{frontier.group}", senders)
                self.edges[frontier.group] = self.count(frontier.group)[1]

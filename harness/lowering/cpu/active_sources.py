"""Track active sources and the values that they last propagated: flags, counts and copies for each group of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.frontier import count_kernel, propagated_kernel
from harness.lowering.cpu.partition import balanced_bounds
from harness.lowering.cpu.step_engine import StepEngine


class ActiveSources:
    """Active sources of an engine; :mod:`harness.lowering.cpu.frontier` has the kernels.

    ``arcs``: for each group, by name, the number of edges that leave its active sources, counted at the end of the
    previous superstep.
    ``counted``: active sources and their edges that another kernel has already counted.
    """

    def __init__(self, engine: StepEngine) -> None:
        self.engine = engine
        self.bounds = balanced_bounds(engine.graph.csr.offsets, 0, engine.graph.num_vertices, engine.threads)
        self.sent: dict[str, tuple[str, ...]] = {}  # properties whose propagated values are kept
        self.updates: list[FoldGroup] = []  # edge updates that track sources of their own
        self.reset()

    def reset(self) -> None:
        """Discard all counts."""
        self.arcs: dict[str, int] = {}
        self.counted: dict[str, tuple[int, int]] = {}

    def plan(
        self, group: FoldGroup, *, marks: Mapping[str, Sequence[str]] | None = None, visits: str = "", arcs: bool = True
    ) -> None:
        """Add the arrays and kernels that track the sources of a group."""
        engine, memory = self.engine, self.engine.memory
        name = engine.tracking.name(group)
        memory.add_flags(f"active_{name}", False)
        self.sent[name] = engine.tracking.sent(group)
        for source in self.sent[name]:
            memory.like(f"sent_{name}_{source}", source)
        engine.add_kernel(count_kernel(engine.tracking, group, engine.layout, visits=visits, arcs=arcs))
        engine.add_kernel(
            propagated_kernel(
                engine.tracking, group, engine.layout,
                ids=engine.ids, marks=marks or {}, feature_aware=engine.feature_aware,
            )
        )  # fmt: skip
        memory.add("pairs", np.zeros(2 * len(self.bounds), np.int64))

    def count(
        self, group: FoldGroup, *, flag: str = "active", bounds: NDArray[np.int64] | None = None
    ) -> tuple[int, int]:
        """Count the sources with a flag, by default the active ones, of a group, and the edges that leave them.

        ``bounds``: count only in these parts.
        """
        bounds = self.bounds if bounds is None else bounds
        parts, pairs = len(bounds) - 1, self.engine.memory.arrays["pairs"]
        stem = "count" if flag == "active" else f"count_{flag}"
        self.engine.call(f"{stem}_{self.engine.tracking.name(group)}", parts, bounds=bounds, counts=pairs)
        return int(pairs[: 2 * parts : 2].sum()), int(pairs[1 : 2 * parts : 2].sum())

    def count_moved(self, groups: Sequence[FoldGroup]) -> None:
        """Count, at the end of a superstep, the sources that are active for the groups, and their edges.

        The counts are for the next superstep. Edge updates are counted too, unless any change activates their sources.
        """
        for group in (*groups, *(update for update in self.updates if self.engine.tracking.sent(update))):
            counted = self.counted.pop(self.engine.tracking.name(group), None)
            active, arcs = counted if counted is not None else self.count(group)
            self.engine.moved += active
            self.arcs[self.engine.tracking.name(group)] = arcs

    def mark(self, group: FoldGroup) -> None:
        """Flag the vertices that active sources reach, and record the current values of these sources as propagated."""
        self.engine.call(f"mark_{self.engine.tracking.name(group)}", len(self.bounds) - 1, bounds=self.bounds)

    def all_propagated(
        self, group: FoldGroup, *, first: int = 0, last: int | None = None, but: Sequence[str] = ()
    ) -> None:
        """Record that the sources ``first..last`` have propagated their current values, except those of ``but``."""
        name = self.engine.tracking.name(group)
        arrays, count = self.engine.memory.arrays, self.engine.graph.num_vertices
        arrays[f"active_{name}"][first:last] = False
        for source in self.sent[name]:
            if source not in but:
                current = arrays[f"vertex_{source}"]
                stride = len(current) // max(1, count)
                part = slice(first * stride, (count if last is None else last) * stride)
                arrays[f"sent_{name}_{source}"][part] = current[part]

    def begin_with(self, group: FoldGroup, senders: NDArray[np.bool_]) -> None:
        """Make only ``senders`` active for a group; all other sources have propagated their current values."""
        self.all_propagated(group)
        name = self.engine.tracking.name(group)
        self.engine.memory.set_flags(f"active_{name}", senders)
        self.arcs[name] = self.count(group)[1]

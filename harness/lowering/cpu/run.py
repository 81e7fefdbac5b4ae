"""The state of a run on the CPU that the steps of its supersteps share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.contract import Direction
from harness.facts import GraphFacts
from harness.language import Inputs
from harness.language.program import IDENTITY, Reducer
from harness.lowering.buffers import Holds
from harness.lowering.cpu.active_sources import ActiveSources, Frontier
from harness.lowering.cpu.calls import Calls
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.partition import Partition
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cpu.tables import SideParts
from harness.lowering.graph_store import GraphStore
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.supersteps import Noted

Step = Callable[[], None]
T = TypeVar("T")


@dataclass(frozen=True)
class RunRules:
    """The part of a plan that decides how supersteps follow each other.

    ``sides``: the parts of the vertices that a superstep updates. ``accumulators``: those that change-driven pushes
    keep. ``reductions``: the accumulators of edge stages with their reducers. ``frontiers``: of all groups that track
    sources, in the order of the program.
    """

    graph: GraphFacts
    threads: int
    partition: Partition
    sides: SideParts
    direction: Direction
    change_driven: bool
    settles: bool
    accumulators: KeptAccumulators
    reductions: tuple[tuple[str, Reducer], ...]
    frontiers: tuple[Frontier, ...]
    policy: CpuPolicy


class Run:
    """A run in progress.

    ``call``: runs a kernel, by name, over parts. ``edges``: edges visited in this
    superstep. ``moved``: sources found moved in it. ``taken``: its direction. ``choice``: the reason, if it was chosen.
    ``counts_movement``: the next superstep counts all vertices that move by more than the tolerance, so that movement
    in the norm *max* need not be measured as well.
    """

    def __init__(self, rules: RunRules, store: GraphStore, memory: Memory, call: Calls) -> None:
        self.rules, self.store, self.memory, self.call = rules, store, memory, call
        self.sides = store.table(rules.sides)
        self.threads = rules.threads
        self.dearest = 2 + rules.graph.out_degrees.largest
        self.active_sources = ActiveSources(rules.frontiers, rules.graph, store, memory, call, rules.partition)
        self.rebuild_every = 0  # supersteps between rebuilds of kept accumulators; 0: they are never rebuilt
        self.superstep_index = self.active = self.edges = self.moved = 0
        self.taken: Direction = rules.direction
        self.settled = self.confirming = self.rebuilt = self.narrowed = self.counts_movement = False
        self.choice: Noted | None = None
        self._own: dict[type, Any] = {}

    @property
    def workers(self) -> int:
        """The threads of the next calls, at most."""
        return self.call.workers

    @workers.setter
    def workers(self, threads: int) -> None:
        self.call.workers = threads

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Return the parts of the vertices that this superstep updates."""
        return self.sides[self.superstep_index % len(self.sides)]

    def own(self, kind: type[T]) -> T:
        """Return the state of this kind that the steps of an engine share, made when a run first needs it."""
        found: T = self._own.setdefault(kind, kind())
        return found

    # beginning and ending -----------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set the whole state to the start of a run."""
        self.memory.reset(inputs, state)
        self.rebuild_every = self.rules.accumulators.rebuild_every(state)
        self.superstep_index = 0
        self.active, self.settled = self.rules.graph.num_vertices, False
        self.confirming = self.rebuilt = self.narrowed = self.counts_movement = False
        self._own.clear()
        self.active_sources.reset(alternates=len(self.sides) > 1)

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run with only ``stale`` vertices stale and only ``senders`` active, and with nothing reduced yet."""
        self.narrowed, self.active = True, int(np.count_nonzero(stale | senders))
        memory = self.memory
        for buffer in memory.holding(Holds.DIRTY):
            memory.set_flags(buffer.name, stale)
        for buffer in memory.holding(Holds.KEPT):
            memory.arrays[buffer.name][:] = False
        self.active_sources.begin_with(senders)
        for into, reducer in self.rules.reductions:
            memory.arrays[f"vertex_{into}"][:] = IDENTITY[reducer]

    def begin_superstep(self) -> None:
        """Set the counts of a superstep to zero; few active sources are processed by one thread."""
        self.edges, self.moved, self.taken, self.choice = 0, 0, self.rules.direction, None
        few = self.rules.change_driven and self.active * self.dearest < self.rules.policy.few
        self.workers = 1 if few else self.threads

    def end_superstep(self) -> None:
        """Count what has moved, and go to the next superstep."""
        moved_in_parts = self.memory.arrays["watched"]
        self.active = self.moved + int(moved_in_parts.sum())
        moved_in_parts[:] = 0
        self.superstep_index += 1

    def has_settled(self) -> bool:
        """Return whether the run may end when no source is active: every side was updated, and accumulators agree."""
        every_side = self.superstep_index >= len(self.sides)
        return self.rules.settles and every_side and self._confirmed()

    def _confirmed(self) -> bool:
        """Return whether a run in which no source is active has settled.

        It has settled once a superstep that rebuilds accumulators moves nothing. What such a superstep moves is
        propagated as changes: recomputed float32 sums may move within their rounding error indefinitely (PageRank on
        email-Enron, 8 features, tolerance 1e-6: 124 supersteps; a run that rebuilds in all later supersteps has not
        settled after 200).
        """
        if not self.rules.change_driven or self.rebuild_every == 0 or self.rebuilt:
            return True
        self.confirming = True
        return False

    # kept accumulators --------------------------------------------------------------------------------------------
    def rebuilding(self) -> bool:
        """Return whether this superstep rebuilds kept accumulators from all messages.

        It does so in the first superstep (of each side) unless the run was narrowed, and then every ``rebuild_every``
        supersteps. It also does so to confirm that the run has settled, and while active sources have at least
        ``rebuild_share`` of the edges.
        """
        turn = self.superstep_index // len(self.sides)
        first = turn == 0 and not self.narrowed
        due = self.rebuild_every > 0 and (turn % self.rebuild_every == 0 or self._nearly_all_active())
        self.rebuilt = first or self.confirming or due
        return self.rebuilt

    def _nearly_all_active(self) -> bool:
        most = self.active_sources.most_edges()
        return most >= self.rules.policy.rebuild_share * self.rules.graph.num_edges / len(self.sides)


class Pass(Protocol):
    """A part of every superstep, as planned: plain data that a run is bound to."""

    def bound(self, run: Run) -> Step:
        """Return the step that executes the pass in a run."""

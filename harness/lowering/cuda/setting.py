"""The parts of a plan that all its kernels share: the lowered program, its layout and its mapping to lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from harness.contract import Direction
from harness.facts import GraphFacts
from harness.language.analysis import FoldGroup, Watched, factors, watched
from harness.language.criterion import Criterion, propagated_share
from harness.language.program import Program
from harness.lowering.accumulators import separated
from harness.lowering.cuda.layout import DeviceLayout, TeamShape
from harness.lowering.cuda.ranges import Bounds
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.log_products import products_as_sums
from harness.lowering.tracking import Tracking


@dataclass(frozen=True)
class LoweredProgram:
    """A program as kernels compute it, and what its original form determines.

    ``watches``: the properties whose movement decides whether a run has settled. ``factors``: edge properties that are
    factors of products. ``propagated_share``: of the tolerance, beyond which a change is propagated.
    """

    program: Program
    watches: tuple[Watched, ...]
    factors: frozenset[str]
    criterion: Criterion | None
    propagated_share: float

    @classmethod
    def of(cls, program: Program) -> Self:
        """Lower a program: products become sums, and reductions go into accumulators of their own."""
        lowered = separated(products_as_sums(program, masked=True))
        return cls(lowered, watched(program), factors(program), Criterion.of(program), propagated_share(program))

    def tracking(self, groups: Sequence[FoldGroup], *, change_driven: bool, pauses: bool = False) -> Tracking:
        """Return the readers of each property, given the stages of each kernel."""
        return Tracking(
            self.program, tuple(groups), change_driven, self.watches, self.factors,
            propagated_share=self.propagated_share, pauses=pauses,
        )  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all kernels of a plan share.

    ``direction``: of the reductions. ``feature_aware``: lanes of a team hold features; else a thread walks them.
    ``block``: threads of a block on which the mapping is based. ``flipped``: arrays whose two buffers the device swaps,
    by the name of the count of swaps.
    """

    lowered: LoweredProgram
    facts: GraphFacts
    layout: DeviceLayout
    team: TeamShape
    tracking: Tracking
    direction: Direction
    feature_aware: bool
    block: int
    flipped: Mapping[str, str] = field(default_factory=dict)
    accumulators: KeptAccumulators = field(default_factory=KeptAccumulators)

    @property
    def program(self) -> Program:
        """The lowered program."""
        return self.lowered.program

    @property
    def sides(self) -> tuple[Bounds, ...]:
        """The vertices of every side that supersteps update by turns."""
        count = self.facts.num_vertices
        if not self.program.control.alternate or self.facts.bipartite is None:
            return ((0, count),)
        left = self.facts.bipartite[0]
        return (0, left), (left, count)

    @property
    def many_edges(self) -> bool:
        """Whether positions among the edges take 64 bits."""
        return self.facts.num_edges >= 1 << 31

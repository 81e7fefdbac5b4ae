"""The lowered program of a plan, and what all parts of planning share on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from harness.contract import Direction
from harness.facts import GraphFacts
from harness.language.analysis import FoldGroup, Watched, factors, watched
from harness.language.criterion import Criterion, propagated_share
from harness.language.program import Program
from harness.lowering.accumulators import separated
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.layout import Layout
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
    def of(cls, program: Program, *, masked: bool = False) -> Self:
        """Lower a program: products become sums, and reductions go into accumulators of their own.

        ``masked``: keep masked logarithms (:func:`products_as_sums`).
        """
        lowered = separated(products_as_sums(program, masked=masked))
        return cls(lowered, watched(program), factors(program), Criterion.of(program), propagated_share(program))

    def tracking(self, groups: Sequence[FoldGroup], *, change_driven: bool, keeps_sent: bool = True) -> Tracking:
        """Return the readers of each property, given the stages of each kernel."""
        return Tracking(
            self.program, tuple(groups), change_driven, self.watches, self.factors,
            keeps_sent=keeps_sent, propagated_share=self.propagated_share,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """The setting that all kernels of a plan share.

    ``layout``: of values in memory. ``direction``: of the reductions. ``feature_aware``: lanes hold features; else a
    thread loops over them. ``accumulators``: those that a push of changes keeps.
    """

    lowered: LoweredProgram
    facts: GraphFacts
    layout: Layout
    tracking: Tracking
    direction: Direction
    feature_aware: bool
    accumulators: KeptAccumulators = field(default_factory=KeptAccumulators)

    @property
    def program(self) -> Program:
        """The lowered program."""
        return self.lowered.program

    @property
    def change_driven(self) -> bool:
        """True if only changes are propagated."""
        return self.tracking.change_driven

    @property
    def alternates(self) -> bool:
        """True if supersteps update the two sides of the graph in turn."""
        return self.program.control.alternate and self.facts.bipartite is not None

    @property
    def measured(self) -> Criterion | None:
        """The criterion whose movement kernels measure; None if movement is counted, or decides nothing."""
        criterion = self.lowered.criterion
        return criterion if criterion and (self.change_driven or not criterion.countable(self.program)) else None

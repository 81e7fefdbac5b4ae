"""The value of a subgraph, and the way in which it is read (Zheng et al. 2020).

UD are the bytes of the rows of active vertices: the useful data. A subgraph of high value is read whole; of a subgraph
of low value only the active rows are.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    """The rule of the paper.

    A value is high if the useful share exceeds ``alpha``, or if the useful bytes have grown since the subgraph was last
    considered and their share exceeds ``beta``. ``fixed``: *high* or *low* instead of the rule; empty: the rule.
    """

    alpha: float = 0.5
    beta: float = 0.3
    fixed: str = ""

    def high(self, useful: int, whole: int, before: int) -> bool:
        """Return whether a subgraph of ``whole`` bytes is of high value; ``before``: its useful bytes before."""
        if self.fixed:
            return self.fixed == "high"
        return useful > self.alpha * whole or (useful > before and useful > self.beta * whole)


@dataclass(frozen=True)
class Rates:
    """Bytes a second at which whole subgraphs are ``copied``, and at which active rows are read by the ``other`` means;
    both 0 if the graph has no edges."""

    copied: float
    other: float


@dataclass(frozen=True)
class LeastTime:
    """A value is high if reading the whole subgraph takes no more time than reading its active rows."""

    rates: Rates

    def high(self, useful: int, whole: int, before: int) -> bool:
        """Return whether a subgraph of ``whole`` bytes is of high value; ``useful``: the bytes that are read if not."""
        return whole * self.rates.other <= useful * self.rates.copied


@dataclass
class Values:
    """The useful bytes of every subgraph when it was last considered. ``rule``: classifies."""

    rule: Rule | LeastTime
    before: dict[Hashable, int] = field(default_factory=dict)

    def high(self, subgraph: Hashable, useful: int, whole: int) -> bool:
        """Return whether a subgraph is of high value now, and keep its useful bytes for the next time.

        A subgraph that is considered for the first time has not grown.
        """
        found = self.rule.high(useful, whole, self.before.get(subgraph, useful))
        self.before[subgraph] = useful
        return found

    def reset(self) -> None:
        """Forget all subgraphs: a run begins."""
        self.before.clear()

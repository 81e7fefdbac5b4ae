"""The value of a subgraph, which decides how it is read (Zheng et al. 2020).

The useful data, UD, are the bytes of the rows of active vertices. A subgraph of high value is read whole. From a
subgraph of low value only the active rows are read.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    """The rule of the paper.

    A value is high in two cases: the useful share exceeds ``alpha``, or it exceeds ``beta`` and the useful bytes have
    grown since the subgraph was last considered. ``fixed``: *high* or *low* replaces the rule; empty: the rule holds.
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
    """Rates in bytes per second; 0 if the graph has no edges.

    ``copied``: of copies of whole subgraphs. ``other``: of reads of active rows by the other means. ``queued``: the
    seconds in which the host queues the copy and the kernel of a subgraph, beyond those of the other means.
    """

    copied: float
    other: float
    queued: float = 0.0


@dataclass(frozen=True)
class LeastTime:
    """The rule by time: a value is high if a whole copy is estimated to take no longer than reading the active rows.

    Subgraphs are queued while those before are copied, so that a copy takes the longer of both times.
    """

    rates: Rates

    def high(self, useful: int, whole: int, before: int) -> bool:
        """Return whether a subgraph of ``whole`` bytes is of high value; ``useful``: the bytes that are read if not."""
        rates = self.rates
        return not rates.copied or max(whole / rates.copied, rates.queued) * rates.other <= useful


@dataclass
class Values:
    """Classify subgraphs by a ``rule``.

    ``before``: the useful bytes of each subgraph when it was last considered.
    """

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
        """Forget all subgraphs at the beginning of a run."""
        self.before.clear()

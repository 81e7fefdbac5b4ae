"""How subgraphs are read, and the bytes of that (Zheng et al. 2020)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.outofmemory.scaph.traffic import Traffic
from engines.outofmemory.scaph.values import LeastTime, Rates, Rule, Values

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule

MEANS = {"extract": "extracted", "stream": "copied", "zero_copy": "zero_copy"}  # by the option ``low``


@dataclass(frozen=True)
class Choice:
    """How a subgraph is read. ``high``: its value is. ``means``: *copied* whole, *extracted*, or *zero_copy*."""

    high: bool
    means: str


class Readings:
    """Choose how subgraphs are read. ``traffic``: what has been read; others may replace it. ``rates``: by which
    subgraphs are classified; None: by their useful share."""

    def __init__(self, schedule: ScaphSchedule) -> None:
        fixed = "" if schedule.values == "measured" else schedule.values
        self.low = MEANS[schedule.low]
        self.rates: Rates | None = None
        self._values = Values(Rule(schedule.alpha, schedule.beta, fixed))
        self.traffic = Traffic()

    def reset(self) -> None:
        """Forget values: a run begins."""
        self._values.reset()

    def chosen_by(self, rates: Rates) -> None:
        """Classify subgraphs by the time that reading them takes from now on."""
        self.rates = rates
        self._values = Values(LeastTime(rates))

    def choose(self, subgraph: Hashable, useful: int, whole: int, read: int | None = None) -> Choice:
        """Return how a subgraph of ``whole`` bytes is read, of which some are ``useful``.

        ``read``: the bytes that are read if its value is low; None: the useful ones. The subgraph is counted, and so
        are its bytes if it is read whole.
        """
        high = self._values.high(subgraph, useful if self.rates is None or read is None else read, whole)
        means = "copied" if high else self.low
        self.traffic.subgraphs["high" if high else "low"] += 1
        if means == "copied":
            self.traffic.moved["copied"] += whole
        return Choice(high, means)

"""How subgraphs are read, and the bytes of that (Zheng et al. 2020)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.outofmemory.scaph.traffic import Traffic
from engines.outofmemory.scaph.values import Rule, Values

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule

MEANS = {"extract": "extracted", "stream": "copied", "zero_copy": "zero_copy"}  # by the option ``low``


@dataclass(frozen=True)
class Choice:
    """How a subgraph is read. ``high``: its value is. ``means``: *copied* whole, *extracted*, or *zero_copy*."""

    high: bool
    means: str


class Readings:
    """Choose how subgraphs are read. ``traffic``: what has been read; others may replace it."""

    def __init__(self, schedule: ScaphSchedule) -> None:
        fixed = "" if schedule.values == "measured" else schedule.values
        self._low = MEANS[schedule.low]
        self._values = Values(Rule(schedule.alpha, schedule.beta, fixed))
        self.traffic = Traffic()

    def reset(self) -> None:
        """Forget values: a run begins."""
        self._values.reset()

    def choose(self, subgraph: Hashable, useful: int, whole: int) -> Choice:
        """Return how a subgraph of ``whole`` bytes is read, of which some are ``useful``.

        It is counted, and so are the bytes of a whole subgraph.
        """
        high = self._values.high(subgraph, useful, whole)
        means = "copied" if high else self._low
        self.traffic.subgraphs["high" if high else "low"] += 1
        if means == "copied":
            self.traffic.moved["copied"] += whole
        return Choice(high, means)

"""Choose how subgraphs are read, and count the bytes (Zheng et al. 2020)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engines.outofmemory.scaph.order import Order, SlotTable
from engines.outofmemory.scaph.part_times import PartTimes
from engines.outofmemory.scaph.traffic import Traffic
from engines.outofmemory.scaph.values import LeastTime, Rates, Rule, Values

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule

MEANS = {"extract": "extracted", "stream": "copied", "zero_copy": "zero_copy"}  # by the option ``low``


@dataclass(frozen=True)
class Choice:
    """How a subgraph is read.

    ``high``: the subgraph has a high value. ``means``: *copied* (whole), *extracted* (packed active rows), *zero_copy*
    (active rows in place), or *resident* (in a slot already; nothing is read).
    """

    high: bool
    means: str

    @property
    def whole(self) -> bool:
        """Return whether all rows of the subgraph are in its slot."""
        return self.means in ("copied", "resident")


class Readings:
    """Choose how subgraphs are read, and count the bytes.

    ``traffic``: the bytes that were read since :meth:`begin`. ``rates``: classify subgraphs by time; None: by their
    useful share. ``times``: the seconds of parts of the run. ``order``: the order of subgraphs. ``slots``: the
    subgraphs in memory.
    """

    def __init__(self, schedule: ScaphSchedule) -> None:
        fixed = "" if schedule.values == "measured" else schedule.values
        assert schedule.slots is not None, "options are filled in"
        self.low = MEANS[schedule.low]
        self.rates: Rates | None = None
        self._values = Values(Rule(schedule.alpha, schedule.beta, fixed))
        self.order = Order(schedule.order)
        self.slots = SlotTable(schedule.slots, keeps=schedule.order == "zigzag")
        self.times = PartTimes()
        self.begin()

    def begin(self) -> None:
        """Set all counts to zero."""
        self.traffic = Traffic()
        self.times.seconds.clear()
        if self.slots.keeps:
            self.traffic.subgraphs["resident"] = 0

    def reset(self) -> None:
        """Forget values and the contents of slots at the beginning of a run."""
        self._values.reset()
        self.order.reset()
        self.slots.forget()

    def counted(self) -> dict[str, Any]:
        """Return the counts since :meth:`begin`, by the fields of ``Transfers``."""
        traffic = self.traffic
        return {
            "visited": traffic.visited, "moved": dict(traffic.moved), "subgraphs": dict(traffic.subgraphs),
            "seconds": dict(self.times.seconds),
        }  # fmt: skip

    def chosen_by(self, rates: Rates) -> None:
        """Classify subgraphs by the estimated time of reading them from now on."""
        self.rates = rates
        self._values = Values(LeastTime(rates))

    def choose(
        self, subgraph: Hashable, useful: int, whole: int, read: int | None = None, *, resident: bool = False,
        stored: int | None = None,
    ) -> Choice:  # fmt: skip
        """Return how a subgraph is read (:meth:`value`, :meth:`read`)."""
        return self.read(self.value(subgraph, useful, whole, read), whole, resident=resident, stored=stored)

    def value(self, subgraph: Hashable, useful: int, whole: int, read: int | None = None) -> bool:
        """Return whether the value of a subgraph is high now.

        ``whole``: its bytes. ``useful``: the bytes of its active rows. ``read``: the bytes that are read if its value
        is low; None: ``useful``.
        """
        return self._values.high(subgraph, useful if self.rates is None or read is None else read, whole)

    def read(self, high: bool, whole: int, *, resident: bool = False, stored: int | None = None) -> Choice:
        """Return how a subgraph of a value is read, and count it; if it is read whole, count its bytes.

        ``whole``: its bytes. ``resident``: it is in a slot. ``stored``: the bytes of a whole copy with packed ids;
        None: ``whole``.
        """
        if resident:
            self.traffic.subgraphs["resident"] += 1
            return Choice(high, "resident")
        means = "copied" if high else self.low
        self.traffic.subgraphs["high" if high else "low"] += 1
        if means == "copied":
            self.traffic.moved["copied"] += whole if stored is None else stored
        return Choice(high, means)

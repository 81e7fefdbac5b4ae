"""The order in which subgraphs are processed, and the subgraphs in the slots of the device."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

ORDERS = ("index", "value", "zigzag")


@dataclass
class Order:
    """The order of subgraphs in a pass over them, by the option ``order``.

    *index*: ascending numbers. *value*: most useful bytes first. *zigzag*: subgraphs in memory first, then the others
    with ascending and descending numbers in turn. ``passes``: the passes so far.
    """

    kind: str = "index"
    passes: int = 0

    def arranged(self, useful: Mapping[int, int], resident: Collection[int] = ()) -> list[int]:
        """Begin a pass; return the numbers of its subgraphs in order. ``useful``: the useful bytes by number."""
        descending = self.kind == "zigzag" and self.passes % 2 == 1
        self.passes += 1
        found = sorted(useful, reverse=descending)
        if self.kind == "value":
            return sorted(found, key=lambda number: -useful[number])
        return sorted(found, key=lambda number: number not in resident)

    def reset(self) -> None:
        """Begin with the first pass again."""
        self.passes = 0


@dataclass
class SlotTable:
    """The contents of ``count`` slots. ``keeps``: whole subgraphs are found again in later passes."""

    count: int
    keeps: bool = False
    _used: list[int] = field(default_factory=list)  # slots, the one that was used longest ago first
    _holds: dict[int, Hashable] = field(default_factory=dict)  # the whole subgraph in a slot

    def __post_init__(self) -> None:
        self.forget()

    def of(self, subgraph: Hashable) -> int | None:
        """Return the slot of a whole subgraph; None if it is in no slot."""
        return next((slot for slot, held in self._holds.items() if held == subgraph), None)

    def choose(self, among: Collection[int] | None = None) -> int:
        """Return a slot to overwrite: one without a whole subgraph, or else the one that was used longest ago.

        The slot that was used last is chosen only if there is no other, because work may still read it. ``among``: the
        slots to choose from; None: all.
        """
        allowed = [slot for slot in self._used[:-1] if among is None or slot in among] or self._used[-1:]
        return next((slot for slot in allowed if slot not in self._holds), allowed[0])

    def put(self, slot: int, subgraph: Hashable | None) -> None:
        """Note that a slot is used for a whole subgraph, or (None) for a part of one."""
        self._used.remove(slot)
        self._used.append(slot)
        self._holds.pop(slot, None)
        if self.keeps and subgraph is not None:
            self._holds[slot] = subgraph

    def forget(self) -> None:
        """Forget the contents of the slots at the beginning of a run."""
        self._used, self._holds = list(range(self.count)), {}

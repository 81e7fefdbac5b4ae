"""Caveats of a measured time whose answer was correct."""

from __future__ import annotations

from enum import StrEnum


class Mark(StrEnum):
    """A reason why a time may differ from that of an idle machine, or cannot be right."""

    BUSY = "busy"
    THROTTLED = "throttled"
    SHARED = "shared"
    NOISY = "noisy"
    DRIFTING = "drifting"
    BELOW_FLOOR = "below_floor"
    EDITED = "edited"

    @property
    def meaning(self) -> str:
        """Description of the mark for notes below tables."""
        return _MEANINGS[self]


# Marks of other work, which may have changed between two cells.
DISTURBING = (Mark.BUSY, Mark.THROTTLED, Mark.SHARED)

_MEANINGS = {
    Mark.BUSY: "other work used a part of the machine during the measurement",
    Mark.THROTTLED: "the device was throttled by its temperature, its power limit or a quota",
    Mark.SHARED: "another process was using the same GPU",
    Mark.NOISY: "the time budget ended before the interval was as narrow as requested",
    Mark.DRIFTING: "the times increased or decreased steadily from run to run",
    Mark.BELOW_FLOOR: "a run took less than the lower bound of its time, so that one of the two is wrong",
    Mark.EDITED: "the record has been changed since the harness wrote it: its digest does not fit",
}

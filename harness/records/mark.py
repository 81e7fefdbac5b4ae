"""What makes a measured time less than trustworthy, although its answer was right."""

from __future__ import annotations

from enum import StrEnum


class Mark(StrEnum):
    """One reason why a time may not be what a quiet machine would show."""

    BUSY = "busy"
    THROTTLED = "throttled"
    SHARED = "shared"
    NOISY = "noisy"
    DRIFTING = "drifting"

    @property
    def meaning(self) -> str:
        """The mark in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Mark.BUSY: "something else kept a part of the machine busy meanwhile",
    Mark.THROTTLED: "the device was slowed down, by its temperature, its power limit or a quota",
    Mark.SHARED: "another process was using the same GPU",
    Mark.NOISY: "the time budget ended before the interval was as narrow as asked for",
    Mark.DRIFTING: "the times grew or shrank steadily from run to run",
}

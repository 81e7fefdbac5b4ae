"""Failures of a sweep: each reason once, with the failed cells and the most relevant lines of output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.records.outcome import Outcome

# Outcomes whose reason is sufficient; for the others the last lines of the output help.
_SELF_EXPLAINING = (
    Outcome.UNSUPPORTED,
    Outcome.INVALID_INPUT,
    Outcome.TIMEOUT,
    Outcome.WRONG,
    Outcome.IMPLAUSIBLE,
    Outcome.INTERRUPTED,
)
_MOST_OF_A_LINE = 400  # characters; the record has up to 20,000 of the output


@dataclass(frozen=True)
class Failure:
    """An outcome other than ok with its reason, the records that share both, and the output of the first."""

    outcome: Outcome
    reason: str
    records: tuple[Record, ...]
    output: tuple[str, ...]

    def telling(self, count: int) -> tuple[str, ...]:
        """Return at most ``count`` relevant lines of output, each with at most 400 characters.

        They are the last lines, or those from a fatal interpreter error on.
        """
        if self.outcome in _SELF_EXPLAINING:
            return ()
        fatal = [number for number, line in enumerate(self.output) if line.startswith("Fatal Python error")]
        lines = self.output[fatal[-1] :][:count] if fatal else self.output[-count:]
        return tuple(line[:_MOST_OF_A_LINE] for line in lines)


def failures(records: Sequence[Record]) -> list[Failure]:
    """Return every failure among ``records``, in order of first occurrence."""
    reasons: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["outcome"] != Outcome.OK:
            reasons.setdefault((record["outcome"], record["reason"]), []).append(record)
    return [
        Failure(Outcome(outcome), reason, tuple(stopped), tuple(stopped[0]["output"].splitlines()))
        for (outcome, reason), stopped in reasons.items()
    ]

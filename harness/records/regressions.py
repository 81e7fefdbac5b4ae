"""Find benchmarks that became significantly slower between two states of the code, by more than a threshold.

Each source (a file of pytest-benchmark, a folder of records) is one turn of one state. The measurements of the two
states must be interleaved: the i-th turn of one is paired with the i-th turn of the other, so that drift over minutes
cancels in the ratio of a pair. The samples are the pairs. Repetitions within a turn share its load and its memory
layout, so they are not independent (Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM 2013).
"""

from __future__ import annotations

import datetime as dt
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.records.benchmarks import read_benchmarks
from harness.records.schema import RecordError
from harness.records.statistics import CONFIDENCE, FEWEST_SAMPLES, Interval, median_interval
from harness.records.timing_caveat import Mark

Verdict = Literal["slower", "faster", "no difference", "within the threshold", "cannot tell"]
THRESHOLD = 0.05
_DISTURBED = frozenset({Mark.BUSY, Mark.THROTTLED, Mark.SHARED})


@dataclass(frozen=True)
class Turn:
    """The samples (seconds) of one benchmark in one turn, the turn's end, and its marks.

    ``contents``: content hash of the benchmark's graph, or None if unknown.
    """

    samples: tuple[float, ...]
    ended: dt.datetime
    marks: frozenset[str] = frozenset()
    contents: str | None = None

    @property
    def disturbed(self) -> bool:
        """True if other work or a lower clock affected the times."""
        return not _DISTURBED.isdisjoint(self.marks)


Turns = dict[str, list[Turn]]


@dataclass(frozen=True)
class Change:
    """A benchmark before and after: the median ratio of its pairs (above 1: slower) with its interval.

    ``ratio`` is None without pairs. ``doubt``: why there is no verdict, or empty.
    """

    name: str
    ratio: Interval | None
    threshold: float
    doubt: str = ""

    @property
    def verdict(self) -> Verdict:
        """*No difference* if the interval includes 1; otherwise the threshold decides."""
        if self.doubt or self.ratio is None:
            return "cannot tell"
        if self.ratio.low <= 1.0 <= self.ratio.high:
            return "no difference"
        if self.ratio.median > 1.0 + self.threshold:
            return "slower"
        return "faster" if self.ratio.median < 1.0 / (1.0 + self.threshold) else "within the threshold"


def changes(before: Turns, after: Turns, threshold: float = THRESHOLD) -> list[Change]:
    """Return a change for every benchmark that both sides have, slowest first, those without a pair last."""
    found = [_change(name, before[name], after[name], threshold) for name in before if name in after]
    return sorted(found, key=lambda change: -change.ratio.median if change.ratio else 0.0)


def _change(name: str, before: Sequence[Turn], after: Sequence[Turn], threshold: float) -> Change:
    if len({turn.contents for turn in (*before, *after)} - {None}) > 1:
        return Change(name, None, threshold, "the content of its graph changed")
    pairs = list(
        zip(sorted(before, key=lambda turn: turn.ended), sorted(after, key=lambda turn: turn.ended), strict=False)
    )
    quiet = [pair for pair in pairs if not any(turn.disturbed for turn in pair)]
    if not quiet:
        return Change(name, None, threshold, f"all {len(pairs)} pairs of turns are marked as disturbed")
    ratio = median_interval([_ratio(b, a) for b, a in quiet], CONFIDENCE)
    if not _in_turns(pairs):
        return Change(name, ratio, threshold, "the measurements of the two sides were not interleaved")
    if not ratio.sufficient:
        lost = f", {len(pairs) - len(quiet)} more were disturbed" if len(quiet) < len(pairs) else ""
        return Change(name, ratio, threshold, f"{len(quiet)} of {FEWEST_SAMPLES} pairs of turns{lost}")
    return Change(name, ratio, threshold)


def _ratio(before: Turn, after: Turn) -> float:
    return statistics.median(after.samples) / statistics.median(before.samples)


def _in_turns(pairs: Sequence[tuple[Turn, Turn]]) -> bool:
    """Return whether both turns of every pair ended before those of the next pair, so that the sides alternate."""
    return all(
        max(turn.ended for turn in first) < min(turn.ended for turn in second)
        for first, second in itertools.pairwise(pairs)
    )


def read_turns(sources: Sequence[Path]) -> tuple[Turns, str]:
    """Return the turns of every benchmark, one per source that contains it, and the machine that ran them.

    Raises RecordError if the sources are from several machines.
    """
    runs = [read_benchmarks(source) for source in sources]
    machines = {_machine(run["machine_info"]) for run in runs}
    if len(machines) > 1:
        raise RecordError(f"times of several machines cannot be combined: {' | '.join(sorted(machines))}")
    turns: Turns = {}
    for run in runs:
        ended = _utc(run["datetime"])
        for one in run["benchmarks"]:
            extra = one["extra_info"]
            turn = Turn(tuple(one["stats"]["data"]), ended, frozenset(extra.get("marks", ())), extra.get("contents"))
            turns.setdefault(one["fullname"], []).append(turn)
    return turns, machines.pop()


def _utc(text: str) -> dt.datetime:
    """Parse a time of a benchmark file; without a zone it is UTC."""
    time = dt.datetime.fromisoformat(text)
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time


def _machine(info: Mapping[str, Any]) -> str:
    """Return host, processor and Python version; packages may differ, as they may be the change under test."""
    cpu = info.get("cpu") or {}
    return ", ".join(str(part) for part in (info.get("node"), cpu.get("brand_raw"), info.get("python_version")))

"""What became slower between two states of the code: by more than a threshold, and by more than chance explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.records.benchmarks import read_benchmarks
from harness.records.schema import RecordError
from harness.records.statistics import Interval, rounds_interval

Verdict = Literal["slower", "faster", "no difference", "within the threshold"]
Rounds = dict[str, list[list[float]]]
THRESHOLD = 0.05


@dataclass(frozen=True)
class Change:
    """A benchmark before and after; ``ratio`` above 1 is slower, between ``low`` and ``high``."""

    name: str
    before: Interval
    after: Interval
    threshold: float

    @property
    def ratio(self) -> float:
        """Median after over median before."""
        return self.after.median / self.before.median

    @property
    def low(self) -> float:
        """The least ratio that both intervals allow."""
        return self.after.low / self.before.high

    @property
    def high(self) -> float:
        """The greatest ratio that both intervals allow."""
        return self.after.high / self.before.low

    @property
    def verdict(self) -> Verdict:
        """*No difference* where the intervals overlap, whatever the medians; then the threshold decides."""
        if self.before.overlaps(self.after):
            return "no difference"
        if self.ratio > 1.0 + self.threshold:
            return "slower"
        return "faster" if self.ratio < 1.0 / (1.0 + self.threshold) else "within the threshold"


def changes(before: Rounds, after: Rounds, threshold: float = THRESHOLD) -> list[Change]:
    """Every benchmark that both have, worst first; each with the samples of one or more runs."""
    both = [name for name in before if name in after]
    found = [Change(name, rounds_interval(before[name]), rounds_interval(after[name]), threshold) for name in both]
    return sorted(found, key=lambda change: -change.ratio)


def read_runs(sources: Sequence[Path]) -> tuple[Rounds, str]:
    """The samples of every benchmark, a round for each source that has it, and the machine that they are of.

    Raises RecordError when they are not of one machine.
    """
    runs = [read_benchmarks(source) for source in sources]
    machines = {_machine(run["machine_info"]) for run in runs}
    if len(machines) > 1:
        raise RecordError(f"times of several machines cannot be taken together: {' | '.join(sorted(machines))}")
    rounds: Rounds = {}
    for run in runs:
        for one in run["benchmarks"]:
            by_round = one["extra_info"].get("rounds") or [one["stats"]["data"]]
            rounds.setdefault(one["fullname"], []).extend(by_round)
    return rounds, machines.pop()


def _machine(info: Mapping[str, Any]) -> str:
    """Host, processor and Python; packages may be what changed."""
    cpu = info.get("cpu") or {}
    return ", ".join(str(part) for part in (info.get("node"), cpu.get("brand_raw"), info.get("python_version")))

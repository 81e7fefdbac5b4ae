"""The report of a cell whose program has several phases: what each phase reports of its runs, combined at the end.

A time of such a cell is the sum of one timed run of each phase. What lies between the phases is not timed: the outputs
of a phase are read, and the engine for the next one is prepared and reset, as before any run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.campaign.child_report import ChildReport
from harness.campaign.least_work import WORK
from harness.campaign.solve_window import FIELD as SOLVE_WINDOW
from harness.contract import Transfers
from harness.records.outcome import Outcome
from harness.records.statistics import median_interval

Fields = dict[str, Any]
_TIMES = ("solve", WORK, SOLVE_WINDOW)


class PhaseReport(ChildReport):
    """Keeps the fields of :data:`COMBINED` for each of ``number`` phases, and passes the others to ``report``."""

    def __init__(self, report: ChildReport, number: int) -> None:
        self._report, self._number = report, number
        self._kept: list[Fields] = [{}]

    def next_phase(self) -> None:
        """Begin the next phase."""
        self._kept.append({})

    def tell(self, **fields: Any) -> None:
        """Write fields of the record, or keep them until the last phase ends."""
        self._kept[-1].update({name: value for name, value in fields.items() if name in COMBINED})
        passed = {name: value for name, value in fields.items() if name not in COMBINED}
        if len(self._kept) > 1:
            passed.pop("identity", None)  # that of the whole problem has been reported
        if passed:
            self._report.tell(**passed)

    def stage(self, name: str) -> None:
        """Record the current stage with the number of the phase."""
        self._report.stage(f"phase {len(self._kept)}: {name}")

    def waits(self, behind: str) -> None:
        """See :meth:`ChildReport.waits`."""
        self._report.waits(behind)

    def waited(self, seconds: float) -> None:
        """See :meth:`ChildReport.waited`."""
        self._report.waited(seconds)

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Record the combined fields and the outcome: after the last phase, or after one that is not ok.

        A phase that is not ok leaves no time, and its own validation.
        """
        if outcome is Outcome.OK and len(self._kept) < self._number:
            return
        fields = combined(self._kept)
        if outcome is not Outcome.OK:
            fields = {name: value for name, value in fields.items() if name not in _TIMES}
            fields["validation"] = self._kept[-1].get("validation")
        self._report.tell(**fields)
        self._report.end(outcome, f"phase {len(self._kept)}: {reason}" if reason else "")


def combined(phases: Sequence[Fields]) -> Fields:
    """Return the fields of a record from those of its phases, each of which is ok."""
    found = {}
    for name, combine in COMBINED.items():
        values = [fields[name] for fields in phases if fields.get(name) is not None]
        if values:
            found[name] = combine(values)
    return found


def _solve(solves: Sequence[Fields]) -> Fields:
    """Return the times of runs that each consist of one run of every phase."""
    samples = [sum(parts) for parts in zip(*(solve["samples"] for solve in solves), strict=False)]
    found = median_interval(samples)
    reasons = {solve["stopped"] for solve in solves}
    return {
        "samples": samples, "median": found.median, "low": found.low, "high": found.high, "minimum": min(samples),
        "confidence": found.confidence, "stopped": reasons.pop() if len(reasons) == 1 else "budget", "rounds": None,
    }  # fmt: skip


def _validation(validations: Sequence[Fields]) -> Fields:
    """Return the worst comparison, with the methods of all phases."""
    worst = max(validations, key=lambda one: one["error"] / one["bound"] if one["bound"] else one["error"])
    methods = [f"phase {number}: {one['against']}" for number, one in enumerate(validations, 1)]
    return {**worst, "against": "; ".join(methods)}


def _work(works: Sequence[Fields]) -> Fields:
    return {
        "bytes": [moved for work in works for moved in work["bytes"]], "adds": sum(work["adds"] for work in works),
        "wide": any(work["wide"] for work in works), "launches": sum(work["launches"] for work in works),
    }  # fmt: skip


def _schedule(schedules: Sequence[Fields]) -> Fields:
    """Return every option, with a list of its values where the phases differ."""
    names = dict.fromkeys(name for schedule in schedules for name in schedule)
    values = {name: [schedule[name] for schedule in schedules if name in schedule] for name in names}
    return {name: each[0] if all(one == each[0] for one in each) else each for name, each in values.items()}


def _transfers(transfers: Sequence[Fields]) -> Fields:
    def read(one: Fields) -> Transfers:
        requests = {int(size): count for size, count in one["requests"].items()}
        counts = one["visited_bytes"], one["moved_bytes"], requests, one["subgraphs"]
        return Transfers(*counts, one["seconds"], one["data"])

    return Transfers.total(map(read, transfers)).plain()


def _link(links: Sequence[Fields]) -> Fields:
    """Return the last rates, with the bytes of all phases if each counted them."""
    counted = [link["run_bytes"] for link in links]
    return {**links[-1], "run_bytes": None if None in counted else sum(counted)}


def _last(values: Sequence[Any]) -> Any:
    return values[-1]


def _joined(values: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for value in values for one in value]


def _counted(values: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the supersteps of all phases; none if a phase has not counted its own, since their number is not known."""
    return _joined(values) if all(values) else []


# The fields that every phase reports of its runs, and how they are combined; those that are None are left out.
COMBINED: dict[str, Callable[[Sequence[Any]], Any]] = {
    "solve": _solve,
    "supersteps": _counted,
    "choices": _joined,
    "settled": all,
    "marks": lambda marks: list(dict.fromkeys(_joined(marks))),
    "validation": _validation,
    "schedule": _schedule,
    "resolution": _last,
    "bytes_needed": max,
    "host_bytes": max,
    "transfers": _transfers,
    "link": _link,
    "lost_updates": max,
    "metrics_by_superstep": _last,
    "others": max,
    "gpu": _last,
    WORK: _work,
    SOLVE_WINDOW: sum,
}

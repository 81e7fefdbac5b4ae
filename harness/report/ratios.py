"""Measured ratios beside the bounds of claims, and whether the claims hold (:mod:`harness.report.claims`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.claims import OF_LINK, OF_STEPS, Claim
from harness.report.comparison import obstacle, ratio
from harness.report.console import literal
from harness.report.layout import Layout, Row, rows_of
from harness.report.link_measures import measure
from harness.report.step_measures import measure_steps

YES, NO, CANNOT_TELL, NOT_MEASURED = "yes", "no", "cannot tell", "not measured"
_HEADINGS = ("claim", "bound", "measured", "cells", "holds")
_LISTED = 3  # cells with a common reason that are named one by one
_STYLES = {YES: "green", NO: "red"}


@dataclass(frozen=True)
class Found:
    """The ratio of a cell, between ``low`` and ``high``; ``conclusive``: they allow a verdict."""

    cell: str
    value: float
    low: float
    high: float
    conclusive: bool = True

    def verdict(self, claim: Claim) -> str:
        """Return whether the ratio is within the bound of a claim."""
        if not self.conclusive:
            return CANNOT_TELL
        within, beyond = (self.low, self.high) if claim.least else (-self.high, -self.low)
        bound = claim.bound if claim.least else -claim.bound
        return YES if within >= bound else NO if beyond < bound else CANNOT_TELL


@dataclass(frozen=True)
class Lacking:
    """A cell without a ratio, and the reason."""

    cell: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """The ratios of a claim in the records, and why cells have none.

    ``failed``: cells in which a run failed, so that the claim may not hold there. ``left_out``: cells that have not
    been run, whose engine refuses the problem, or whose inputs are invalid for every engine.
    """

    claim: Claim
    found: tuple[Found, ...]
    failed: tuple[Lacking, ...]
    left_out: tuple[Lacking, ...]

    @property
    def mean(self) -> Found:
        """The geometric mean of the ratios; its interval holds if those of all ratios do."""
        value, low, high = (
            math.exp(sum(math.log(number) for number in numbers) / len(numbers))
            for numbers in zip(*((one.value, one.low, one.high) for one in self.found), strict=True)
        )
        return Found("mean", value, low, high, all(one.conclusive for one in self.found))

    @property
    def verdict(self) -> str:
        """The verdict on the claim: yes, no, or the reason why there is none."""
        if not self.found:
            return NOT_MEASURED
        if self.claim.mean:
            return CANNOT_TELL if self.failed else self.mean.verdict(self.claim)
        verdicts = [one.verdict(self.claim) for one in self.found] + [CANNOT_TELL] * len(self.failed)
        wanted = math.ceil(self.claim.share * len(verdicts) - 1e-9)
        if verdicts.count(YES) >= wanted:
            return YES
        return NO if len(verdicts) - verdicts.count(NO) < wanted else CANNOT_TELL

    @property
    def text(self) -> str:
        """The mean, or the ratio that is worst for the claim; the reason if there is none."""
        if self.claim.missing:
            return self.claim.missing
        if not self.found:
            return "; ".join(reasons([*self.failed, *self.left_out])) or "no cell of these columns"
        if self.claim.mean:
            return _interval(self.claim, self.mean)
        worst = (min if self.claim.least else max)(self.found, key=lambda one: one.value)
        return f"{_interval(self.claim, worst)} ({worst.cell})"

    @property
    def cells(self) -> str:
        """The number of cells within the bound, and of those with a ratio; or of the latter, for a mean."""
        if not self.found:
            return ""
        number = len(self.found) + len(self.failed)
        if self.claim.mean:
            return f"{len(self.found)} of {number}"
        return f"{[one.verdict(self.claim) for one in self.found].count(YES)} of {number}"


def measured(layout: Layout, records: Sequence[Record]) -> list[Measured]:
    """Return what the records show of every claim of a layout."""
    rows = rows_of(layout, records)
    return [_measured(claim, rows) for claim in layout.ratios]


def ratios_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of claims: bound, measured ratio, cells, and whether the claim holds."""
    table = Table(pad_edge=False)
    for name in _HEADINGS:
        table.add_column(name, overflow="fold", justify="right" if name == "cells" else "left")
    for one in measured(layout, records):
        texts = [one.claim.text, one.claim.bound_text, one.text, one.cells]
        table.add_row(*map(literal, texts), Text(one.verdict, _STYLES.get(one.verdict, "")))
    return table


def ratios_legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the table, and why cells are missing from it."""
    every = measured(layout, records)
    notes = [
        "measured: the ratio that is worst for the claim, or the geometric mean; cells: those within the "
        "bound, or those in a mean, of all that ran",
        "yes and no: the interval of the ratio is on one side of the bound; ratios of counts have no interval",
    ]
    notes += [f"failed: {text}" for text in reasons([cell for one in every if one.found for cell in one.failed])]
    notes += [f"left out: {text}" for text in reasons([cell for one in every if one.found for cell in one.left_out])]
    return notes


def reasons(lacking: Sequence[Lacking]) -> list[str]:
    """Return each reason with its cells; of many cells, their number and the first."""
    cells: dict[str, list[str]] = {}
    for one in dict.fromkeys(lacking):
        cells.setdefault(one.reason, []).append(one.cell)
    return [
        f"{reason} (in {len(found)} cells; the first: {found[0]})" if len(found) > _LISTED else f"{cell}: {reason}"
        for reason, found in cells.items()
        for cell in (found[:1] if len(found) > _LISTED else found)
    ]


def _measured(claim: Claim, rows: Sequence[Row]) -> Measured:
    found: list[Found] = []
    failed: list[Lacking] = []
    left_out: list[Lacking] = []
    for row in (row for row in rows if not claim.missing and _concerns(claim, row)):
        obstacles = dict(_obstacles(claim, row))
        if claim.device and _device(row) != claim.device:
            left_out.append(Lacking(_cell(row), f"it needs device={claim.device}"))
            continue
        if obstacles:
            (failed if True in obstacles else left_out).append(Lacking(_cell(row), obstacles[True in obstacles]))
            continue
        one = _found(claim, row)
        if isinstance(one, Found):
            found.append(one)
        else:
            failed.append(one)
    return Measured(claim, tuple(found), tuple(failed), tuple(left_out))


def _concerns(claim: Claim, row: Row) -> bool:
    """Return whether a claim is about a row: its algorithm, graph and features, and one of its columns."""
    record = next(iter(row.cells.values()))
    config = record["config"]
    return (
        any(name in row.cells for name in (claim.of, *claim.over))
        and (not claim.algorithms or config["algorithm"] in claim.algorithms)
        and (not claim.graphs or config["graph"] in claim.graphs)
        and (not claim.features or row.features in map(str, claim.features))
    )


def _obstacles(claim: Claim, row: Row) -> Iterator[tuple[bool, str]]:
    """Yield why a row has no ratio, and whether a run failed. Of several columns, one must have run.

    If the graph does not suit the algorithm, so that the inputs are invalid for every engine, no run failed.
    """
    usable = [name for name in claim.over if _outcome(row, name) == Outcome.OK]
    impossible = {_outcome(row, name) for name in (claim.of, *claim.over)} <= {None, Outcome.INVALID_INPUT}
    for name in (claim.of, *claim.over):
        outcome = _outcome(row, name)
        refused = impossible or outcome in (None, Outcome.UNSUPPORTED)
        if outcome == Outcome.OK or (refused and name != claim.of and usable):
            continue
        yield not refused, f"{name}: {outcome or 'not run'}"


def _device(row: Row) -> str:
    return str(next(iter(row.cells.values()))["config"]["device"]["kind"])


def _outcome(row: Row, name: str) -> str | None:
    record = row.cells.get(name)
    return None if record is None else record["outcome"]


def _cell(row: Row) -> str:
    return (
        f"{row.algorithm}, {row.graph}, k = {row.features}" if row.features != "1" else f"{row.algorithm}, {row.graph}"
    )


def _found(claim: Claim, row: Row) -> Found | Lacking:
    """Return the ratio of a row whose runs are all ok, or why there is none."""
    own, cell = row.cells[claim.of], _cell(row)
    others = [record for name in claim.over if _outcome(row, name) == Outcome.OK for record in [row.cells[name]]]
    if claim.what == "speed":
        best = min(others, key=lambda record: record["solve"]["median"] if record["solve"] else math.inf)
        compared = ratio(own, best, to_accuracy=False)
        if compared is None:
            return Lacking(cell, obstacle(own, best) or "no time")
        return Found(cell, compared.value, compared.low, compared.high, compared.conclusive)
    if claim.what in (*OF_LINK, *OF_STEPS):
        computed = (measure if claim.what in OF_LINK else measure_steps)(claim, own, others)
        return Lacking(cell, computed) if isinstance(computed, str) else Found(cell, *computed)
    numbers = [_number(claim.what, record) for record in (own, *others)]
    if any(not number for number in numbers):
        return Lacking(cell, f"{claim.what} not counted")
    first, *rest = (float(number or 0) for number in numbers)
    value = first / min(rest) if rest else first
    return Found(cell, value, value, value)


def _number(what: str, record: Record) -> float | None:
    """Return the bytes moved, the requests or the amplification of a run; None if they were not counted."""
    transfers = record["transfers"]
    if transfers is None:
        return None
    if what == "amplification":
        return transfers["amplification"]
    return float(sum((transfers["moved_bytes"] if what == "moved" else transfers["requests"]).values()))


def _interval(claim: Claim, found: Found) -> str:
    value = claim.number(found.value)
    if found.low == found.high:
        return value
    if not found.conclusive:
        return f"{value}, no verdict"
    low, high = (
        f"{number:.3g}" if claim.what != "edges" else claim.number(number) for number in (found.low, found.high)
    )
    return f"{value} [{low}, {high}]"

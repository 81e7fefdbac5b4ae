"""The values of the page's template: formatted numbers, and CSS classes for colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from harness.records import Mark, Record, merge_rounds, superseded
from harness.records.floor import share_of_floor
from harness.records.outcome import Outcome
from harness.report import transfers
from harness.report.comparison import accuracy_note, changed_graph_notes, confidence_note, disturbance_notes
from harness.report.curves import curve_panels
from harness.report.failures import Failure, failures
from harness.report.layout import Layout, named
from harness.report.page.cells import COLUMNS, cell_row
from harness.report.page.charts import over_features, over_samples, over_supersteps
from harness.report.page.drawing import Drawing, drawing
from harness.report.page.environment import environment, machine
from harness.report.page.heat import block_title, heat_map
from harness.report.page.laid_out import laid_out_table
from harness.report.page.links import NO_LINKS, Links
from harness.report.page.metric_charts import metric_charts
from harness.report.page.phases import BarChart, over_phases, phase_style, phase_title
from harness.report.page.strokes import plain_strokes
from harness.report.series import (
    Comparison,
    Standing,
    comparisons,
    engine_label,
    engines_of,
    feature_panels,
    phase_names,
    standings,
)
from harness.report.table import FLOOR_NOTE, UNSETTLED_NOTE, unsettled
from harness.report.units import times
from harness.report.warm import HEADINGS, NOTE, NUMBERS, warm_rows

_DRAWN_KB = 800  # of the charts of comparisons, so that a page of 1,000 cells stays below 2 MB
_COMPARISON_KB, _CELL_KB = 2, 3  # measured: axes and titles, and the lines and phases of a cell
_OUTPUT_LINES = 40
_ALWAYS = 6  # the first columns of the table of cells: the cell, its outcome and its time
_FAILED = "failed"
_OLDER = "Omitted, because newer records of the same cells are of other code or another graph: {}."


@dataclass(frozen=True)
class Close:
    """The charts of one comparison."""

    title: str
    verdict: str
    activity: Drawing | None
    phases: BarChart | None
    samples: Drawing | None


def page_model(
    records: Sequence[Record], baseline: str | None, cells: int, *, across: bool = False, layout: Layout | None = None,
    links: Links = NO_LINKS,
) -> dict[str, Any]:  # fmt: skip
    """Return all values that the template uses, for the records of one or several sweeps of ``cells`` cells.

    ``across``: also compare records of different sweeps and machines. ``layout``: its table comes first, and its names
    are used everywhere. ``links``: the files that the page links.
    """
    missing = cells - len(records)
    older = len(superseded(records))
    records = merge_rounds(records)
    laid_out = laid_out_table(layout, records)
    records = named(layout, records)
    groups = comparisons(records, baseline, forced=across)
    engines = engines_of(records)
    styles = {name: place for place, name in enumerate(engines)}
    outcomes = [Outcome(record["outcome"]) for record in records]
    drawn = _drawn(groups)
    moved = transfers.transfer_rows(records)
    several = len({record["sweep"] for record in records}) > 1 and not across
    return {
        "sweeps": list(dict.fromkeys(record["sweep"] for record in records)),
        "started": min((record["started"] for record in records), default=""),
        "baseline": _baseline_label(groups, baseline),
        "lede": _lede(groups),
        "laid_out": laid_out,
        "picture": links.picture,
        "machine": machine(records),
        "cells": len(records),
        "across": across,
        "missing": missing,
        "ok": outcomes.count(Outcome.OK),
        "unsupported": outcomes.count(Outcome.UNSUPPORTED),
        _FAILED: sum(not outcome.acceptable for outcome in outcomes),
        "marks": [*changed_graph_notes(records), *_marks(records), *([_OLDER.format(older)] if older else [])],
        "confidence": confidence_note(records),
        "accuracy": accuracy_note(records),
        "engines": engines,
        "strokes": plain_strokes(),
        "standings": [_standing(one) for one in sorted(standings(groups), key=lambda one: -(one.mean or 0))],
        "heat": heat_map(groups, engines, several),
        "panels": [
            (block_title(panel.block, several), drawing(over_features(panel, styles)))
            for panel in feature_panels(groups)
        ],
        "metrics": [metric_charts(panel) for panel in curve_panels(records)],
        **_cells(groups, links),
        "stopped": UNSETTLED_NOTE if any(unsettled(record) for record in records) else "",
        "floor": FLOOR_NOTE if any(share_of_floor(record) is not None for record in records) else "",
        "choices": _choices(records),
        "warm": {"headings": [(name, name in NUMBERS) for name in HEADINGS], "rows": warm_rows(records), "note": NOTE},
        "transfers": {
            "headings": [(name, name in transfers.NUMBERS) for name in transfers.headings(moved)],
            "rows": moved,
            "note": transfers.NOTE,
        },
        "close": [_close(group, styles, several) for group in drawn],
        "not_close": len(groups) - len(drawn),
        "phase_styles": {phase_title(name): phase_style(name) for name in phase_names(records)},
        "failures": [_failure(one) for one in failures(records)],
        "environment": environment(records),
    }


def _cells(groups: Sequence[Comparison], links: Links) -> dict[str, Any]:
    """Return the columns of the table of cells that have a value in some row, and its rows."""
    rows = [cell_row(group, record, links) for group in groups for record in group.records]
    used = [place for place in range(len(COLUMNS)) if any(row["entries"][place].style != "absent" for row in rows)]
    shown = [place for place in range(len(COLUMNS)) if place < _ALWAYS or place in used]
    return {
        "columns": [COLUMNS[place] for place in shown],
        "rows": [{**row, "entries": [row["entries"][place] for place in shown]} for row in rows],
    }


def _baseline_label(groups: Sequence[Comparison], baseline: str | None) -> str | None:
    """Return the label of the baseline in the table if all comparisons have the same, else its name in the command."""
    labels = {engine_label(group.baseline) for group in groups if group.baseline is not None}
    return labels.pop() if len(labels) == 1 else baseline


def _marks(records: Sequence[Record]) -> list[str]:
    """Return a sentence for each mark, with the number of times that have it."""
    timed = [record for record in records if record["outcome"] == Outcome.OK]
    counted = [(mark, sum(mark in record["marks"] for record in timed)) for mark in Mark]
    marked = [f"{number} of {len(timed)} times are {mark.value}: {mark.meaning}." for mark, number in counted if number]
    return [*marked, *(f"{note}." for note in disturbance_notes(records))]


def _lede(groups: Sequence[Comparison]) -> str:
    """Return a sentence that summarizes the sweep."""
    best = Counter(engine_label(found) for group in groups if (found := group.fastest()) is not None)
    number = f"{len(groups)} comparison{'s' if len(groups) != 1 else ''}"
    if not best:
        return f"{number}; in none is one engine faster than all others beyond doubt."
    (first, most), *others = best.most_common()
    return f"Of {number}, {first} is fastest in {most}" + "".join(f", {name} in {wins}" for name, wins in others) + "."


def _standing(standing: Standing) -> dict[str, Any]:
    compared = standing.mean is not None
    return {
        "engine": standing.engine,
        "ok": f"{standing.ok} of {standing.cells}",
        "fastest": standing.fastest,
        "mean": times(standing.mean) if standing.mean is not None else "–",
        "range": f"{times(standing.lowest or 0)} to {times(standing.highest or 0)}" if compared else "–",
        "compared": str(standing.compared) + (f" ({standing.undecided} undecided)" if standing.undecided else ""),
    }


def _choices(records: Sequence[Record]) -> list[tuple[str, list[str]]]:
    """Return the values by which the table can be filtered."""
    found: dict[str, list[str]] = {
        "graph": [record["labels"]["graph"] for record in records],
        "algorithm": [record["labels"]["algorithm"] for record in records],
        "engine": [engine_label(record) for record in records],
        "outcome": [record["outcome"] for record in records],
    }
    return [(name, list(dict.fromkeys(values))) for name, values in found.items()]


def _drawn(groups: Sequence[Comparison]) -> list[Comparison]:
    """Return the first comparisons, at least one, whose charts together need at most ``_DRAWN_KB``."""
    totals = accumulate(_COMPARISON_KB + _CELL_KB * len(group.records) for group in groups)
    return [group for group, total in zip(groups, totals, strict=True) if total <= _DRAWN_KB] or list(groups[:1])


def _close(group: Comparison, styles: Mapping[str, int], several: bool) -> Close:
    best = group.fastest()
    if best is None:
        verdict = "no single fastest engine"
    else:
        found = group.ratio(best)
        over = f", {times(found.value)} over the baseline" if found is not None and found.decided else ""
        verdict = f"fastest: {engine_label(best)}{over}"
    title = f"{block_title(group.block, several)} · k = {group.features}"
    activity, samples = over_supersteps(group.records, styles), over_samples(group.records, styles)
    return Close(
        title, verdict, drawing(activity) if activity else None, over_phases(group.records),
        drawing(samples) if samples else None,
    )  # fmt: skip


def _failure(failure: Failure) -> dict[str, Any]:
    stopped = [
        " · ".join((*_graph_and_algorithm(one), f"k = {one['features'] or 'auto'}", engine_label(one)))
        for one in failure.records
    ]
    style = "unsupported" if failure.outcome is Outcome.UNSUPPORTED else _FAILED
    outcome = failure.outcome.value.replace("_", " ")
    output = "\n".join(failure.telling(_OUTPUT_LINES))
    return {"outcome": outcome, "style": style, "reason": failure.reason, "cells": stopped, "output": output}


def _graph_and_algorithm(record: Record) -> tuple[str, str]:
    return record["labels"]["graph"], record["labels"]["algorithm"]

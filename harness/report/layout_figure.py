"""Draw a layout with Matplotlib (the extra ``figures``): lines over features, dots over graphs, bars of counts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.comparison import sufficient
from harness.report.edge_use import EdgeUse, edge_uses
from harness.report.figures import logarithmic, over_features, save, settings, style
from harness.report.layout import Layout, Row, cell_text, legend, outcome_sign, rows_of
from harness.report.memory import Pair, count, pairs_of
from harness.report.memory_figure import draw_memory
from harness.report.rates_figure import draw_rates
from harness.report.requests import Counted, counted
from harness.report.requests_figure import draw_requests

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL, _TWO_AXES = (2.9, 2.3), (3.8, 2.8)  # inches
_ACROSS = 3  # panels side by side
_BAR, _LEGEND_ROW = 0.16, 0.17  # inches: the least width of a bar with its label, the height of a row of the legend
_LETTERS = 11  # of a title in an inch


def write_layout_figure(stem: Path, layout: Layout, records: Sequence[Record]) -> list[Path]:
    """Draw a layout as ``stem``.svg and .png; return the paths. Tables, also of ratios and machines, and empty layouts
    have none.

    Raises ImportError, naming the extra, if Matplotlib is not installed.
    """
    rows = rows_of(layout, records)
    if layout.kind in ("table", "ratios", "machines") or not rows:
        return []
    with settings():
        if layout.kind == "memory":
            figure = _memory(layout, list(pairs_of(layout, records)))
        elif layout.kind == "use":
            figure = _uses(layout, [run for run in edge_uses(layout, records) if run.data])
        elif layout.kind == "requests":
            figure = _requests(layout, list(counted(layout, records)))
        elif layout.kind == "rates":
            figure = _rates(layout, rows)
        else:
            figure = _lines(layout, rows) if layout.kind == "lines" else _dots(layout, rows)
        paths = [stem.with_suffix(f".{suffix}") for suffix in ("svg", "png")]
        for path in paths:
            save(figure, path)
    return paths


def _lines(layout: Layout, rows: Sequence[Row]) -> Figure:
    """Draw one panel per algorithm and graph: ms over features, both logarithmic; X marks a missing time.

    The right axis shows atomic transactions, dashed, if the records have them.
    """
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.features.isdecimal():
            panels.setdefault((row.algorithm, row.graph), []).append(row)
    counted = any(_atomic_transactions(record) for row in rows for record in row.cells.values())
    figure, places = _panels(layout, len(panels), _TWO_AXES if counted else _PANEL)
    for axes, ((algorithm, graph), own) in zip(places, panels.items(), strict=True):
        own.sort(key=lambda row: int(row.features))
        for number, name in enumerate(layout.columns):
            colour, marker = style(number)
            timed = [row for row in own if _milliseconds(row.cells.get(name)) is not None]
            spread = _spread([row.cells[name] for row in timed])
            features, times = (
                [int(row.features) for row in timed],
                [_milliseconds(row.cells[name]) or 0.0 for row in timed],
            )
            axes.errorbar(features, times, yerr=spread, color=colour, marker=marker, ms=4, capsize=2, label=name)
            lost = [int(row.features) for row in own if name in row.cells and _milliseconds(row.cells[name]) is None]
            for k in lost:
                axes.annotate("X", (k, 0.97 - 0.08 * number), xycoords=("data", "axes fraction"), color=colour)
        ticks = [int(row.features) for row in own]
        axes.set(title=f"{algorithm}, {graph}", xlabel="features k", ylabel="ms")
        _logarithmic(axes, own)
        _transactions(layout, own, axes)
        over_features(axes, ticks)
    return _with_legend(figure, places)


def _transactions(layout: Layout, rows: Sequence[Row], axes: Axes) -> None:
    """Draw atomic transactions over features on a right axis, if any record has them."""
    found = {
        name: [
            (int(row.features), met) for row in rows if (met := _atomic_transactions(row.cells.get(name))) is not None
        ]
        for name in layout.columns
    }
    if not any(met for points in found.values() for _, met in points):
        return
    right: Any = axes.twinx()
    for number, points in enumerate(found.values()):
        colour, marker = style(number)
        if points:
            right.plot(*zip(*points, strict=True), color=colour, marker=marker, ms=4, mfc="none", lw=1, ls="--")
    right.spines["right"].set_visible(True)
    right.set_ylabel("atomic transactions (dashed)")
    logarithmic(right)
    right.yaxis.set_major_formatter(lambda value, _: count(value))


def _atomic_transactions(record: Record | None) -> float | None:
    """Return the atomic transactions of a superstep in which every vertex is active, by counters or else the model."""
    memory: Any = None if record is None else record.get("memory")
    counted = None if memory is None else memory["counters"] or memory["model"]
    return None if counted is None else float(counted["atomics"]["transactions"])


def _dots(layout: Layout, rows: Sequence[Row]) -> Figure:
    """Draw one panel per algorithm: ms, logarithmic, as dots with intervals, one group per graph.

    Bars would be misleading, because a logarithmic axis has no zero. Above each dot is the text of the table: the
    speed-up over the first column, or a sign. A missing time is replaced by the outcome.
    """
    panels = _by_algorithm(rows)
    figure, places = _panels(layout, len(panels))
    width = 0.6 / len(layout.columns)
    for axes, (algorithm, own) in zip(places, panels.items(), strict=True):
        for number, name in enumerate(layout.columns):
            offset = width * (number - (len(layout.columns) - 1) / 2)
            _column_of_dots(axes, layout, own, name, offset)
        axes.set(title=algorithm, ylabel="ms")
        _logarithmic(axes, own)
        axes.margins(y=0.25)
        axes.set_xlim(-0.5, len(own) - 0.5)
        axes.grid(axis="x", which="minor", alpha=0.3)
        axes.set_xticks(range(len(own)), [row.graph for row in own], rotation=30, ha="right")
        axes.set_xticks([place + 0.5 for place in range(len(own) - 1)], minor=True)
        axes.tick_params(axis="x", which="minor", length=0)
    return _with_legend(figure, places, notes=legend(layout, [one for row in rows for one in row.cells.values()]))


def _column_of_dots(axes: Axes, layout: Layout, rows: Sequence[Row], name: str, offset: float) -> None:
    """Draw the times of one column, shifted by ``offset`` from the rows' positions, with intervals and signs."""
    colour, marker = style(list(layout.columns).index(name))
    axes.plot([], [], color=colour, marker=marker, ls="", label=name)
    for place, row in enumerate(rows):
        record, x = row.cells.get(name), place + offset
        time = _milliseconds(record)
        if record is None:
            continue
        if time is None:
            at: Any = {"xycoords": ("data", "axes fraction"), "rotation": 90, "ha": "center", "color": colour}
            axes.annotate(outcome_sign(record), (x, 0.02), **at)
            continue
        spread = _spread([record])
        axes.errorbar([x], [time], yerr=spread, color=colour, marker=marker, ms=4, capsize=2, ls="")
        if layout.first is not None and name != layout.first:
            sign, top = cell_text(layout, row, name), time + spread[1][0]
            axes.annotate(sign, (x, top), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=7)


def _memory(layout: Layout, pairs: Sequence[Pair]) -> Figure:
    """Draw one panel per algorithm and number of features."""
    panels: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        panels.setdefault((pair.row.algorithm, pair.row.features), []).append(pair)
    bars = max((2 * len(own) for own in panels.values()), default=0)
    width = max(_PANEL[0], _BAR * bars)
    figure, places = _panels(layout, len(panels), (width, _PANEL[1]))
    for axes, ((algorithm, k), own) in zip(places, panels.items(), strict=True):
        draw_memory(axes, own, layout.first or "", [name for name in layout.columns if name != layout.first])
        axes.set(title=textwrap.fill(f"{algorithm}, k = {k}", round(width * _LETTERS)))
    return _with_legend(figure, places, across=2)


def _uses(layout: Layout, runs: Sequence[EdgeUse]) -> Figure:
    """Draw one panel per run."""
    figure, places = _panels(layout, len(runs))
    for axes, run in zip(places, runs, strict=True):
        _stacked(axes, run)
    return _with_legend(figure, places)


def _stacked(axes: Axes, run: EdgeUse) -> None:
    """Draw a bar for every superstep of a run, in which the kinds of use are stacked."""
    supersteps = range(run.supersteps)
    shares = [run.shares(superstep) for superstep in supersteps]
    below = [0.0] * run.supersteps
    for number, kind in enumerate(run.data):
        heights = [100 * one[number] for one in shares]
        axes.bar([one + 1 for one in supersteps], heights, 0.8, below, color=style(number)[0], label=kind)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set(title=f"{run.algorithm}, {run.graph}", xlabel="superstep", ylabel="% of edges", ylim=(0, 100))


def _requests(layout: Layout, found: Sequence[Counted]) -> Figure:
    """Draw one panel per algorithm."""
    panels: dict[str, list[Counted]] = {}
    for one in found:
        panels.setdefault(one.row.algorithm, []).append(one)
    widest = max(map(len, panels.values()), default=0)
    figure, places = _panels(layout, len(panels), (max(_PANEL[0], 2 * _BAR * widest), _PANEL[1]))
    for axes, (algorithm, own) in zip(places, panels.items(), strict=True):
        draw_requests(axes, own)
        axes.set(title=algorithm)
    return _with_legend(figure, places)


def _rates(layout: Layout, rows: Sequence[Row]) -> Figure:
    """Draw one panel per algorithm."""
    panels = _by_algorithm(rows)
    widest = max(len(own) for own in panels.values()) * len(layout.columns)
    figure, places = _panels(layout, len(panels), (max(_PANEL[0], 2 * _BAR * widest), _PANEL[1]))
    for axes, (algorithm, own) in zip(places, panels.items(), strict=True):
        draw_rates(axes, layout, own)
        axes.set(title=algorithm)
    return _with_legend(figure, places)


def _by_algorithm(rows: Sequence[Row]) -> dict[str, list[Row]]:
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(row.algorithm, []).append(row)
    return panels


def _logarithmic(axes: Axes, rows: Sequence[Row]) -> None:
    """Make the axis of times logarithmic if there is at least one time."""
    if any(_milliseconds(record) for row in rows for record in row.cells.values()):
        logarithmic(axes)


def _spread(records: Sequence[Record]) -> list[list[float]]:
    """Return the distances in ms from the medians down to ``low`` and up to ``high``; 0 for a withheld interval."""
    ends: list[list[float]] = [[], []]
    for record in records:
        solve = record["solve"]
        shown = solve is not None and sufficient(solve)
        ends[0].append(1e3 * (solve["median"] - solve["low"]) if solve and shown else 0.0)
        ends[1].append(1e3 * (solve["high"] - solve["median"]) if solve and shown else 0.0)
    return ends


def _milliseconds(record: Record | None) -> float | None:
    if record is None or record["outcome"] != Outcome.OK or record["solve"] is None:
        return None
    return 1e3 * record["solve"]["median"]


def _panels(layout: Layout, count: int, panel: tuple[float, float] = _PANEL) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    across = min(_ACROSS, max(count, 1))
    down = -(-max(count, 1) // across)
    figure = Figure(figsize=(across * panel[0], down * panel[1] + 0.6), layout="constrained")
    figure.suptitle(layout.title, fontsize=10)
    places: list[Any] = [figure.add_subplot(down, across, number + 1) for number in range(count)]
    return figure, places


def _with_legend(
    figure: Figure, places: Sequence[Axes], *, across: int | None = None, notes: Sequence[str] = ()
) -> Figure:
    """Add the legend of all panels in ``across`` columns; None: on one line."""
    if places:
        entries: dict[str, Any] = {}
        for axes in places:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        columns = across or max(len(entries), 1)
        figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * -(-len(entries) // columns))
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns, frameon=False, fontsize=8,
            title="; ".join(notes) or None, title_fontsize=7,
        )  # fmt: skip
    return figure

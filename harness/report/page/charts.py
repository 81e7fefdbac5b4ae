"""Geometry of the page's charts: positions of lines, bars, ticks and labels in a drawing of fixed size.

All results are numbers and text; the template renders them as SVG and escapes the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.report.series import Panel, active_vertices, engine_label, phase_seconds
from harness.report.units import count, seconds

# In units of the drawing: one pixel on the narrowest phone; wider screens scale it up.
WIDTH, HEIGHT = 320, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 308, 12, 186
_LETTER = 7  # width of a character of a tick's label
_POINTS = 80  # maximum of a line over supersteps
_BAR_STEP = 50
_LONGEST_LABEL = 42  # characters that fit into a line
_PHASE_STYLES = {
    "open": "given0", "trace": "given1", "inputs": "given2", "transform": "prepare0", "lower": "prepare1",
    "compile": "prepare2", "upload": "prepare3", "wait": "given0", "warm_up": "warm", "solve": "solve",
    "accuracy": "warm", "download": "after0", "validate": "after1",
}  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A measured point with its interval and its tooltip."""

    x: float
    y: float
    low: float
    high: float
    title: str


@dataclass(frozen=True)
class Stroke:
    """One engine's line: ``style`` is the engine's index, ``points`` the attribute of a polyline."""

    style: int
    title: str
    points: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class LineChart:
    """A chart of lines with a description for screen readers."""

    description: str
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    strokes: tuple[Stroke, ...]
    remark: str = ""
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


@dataclass(frozen=True)
class Segment:
    """A phase of a bar; ``style`` is its CSS class."""

    style: str
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class Bar:
    """All phases of one cell, side by side; ``y`` is the position of its label."""

    label: str
    total: str
    y: float
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class BarChart:
    """Stacked phases, one bar per engine."""

    description: str
    bars: tuple[Bar, ...]
    height: float
    width: float = WIDTH


def over_features(panel: Panel, styles: Mapping[str, int]) -> LineChart:
    """Return the chart of time over the number of features, both logarithmic, with intervals as whiskers."""
    features = sorted({point[0] for line in panel.lines for point in line.points})
    times = [time for line in panel.lines for point in line.points for time in point[1:]]
    x = _logarithmic(features[0], features[-1], _LEFT + 12, _RIGHT - 12)
    low, high = min(times) / 1.15, max(times) * 1.15
    y = _logarithmic(low, high, _BOTTOM, _TOP)
    strokes = []
    for line in panel.lines:
        marks = tuple(
            Mark(x(k), y(median), y(least), y(most), f"{line.engine}, k = {k}: {seconds(median)}")
            for k, median, least, most in line.points
        )
        path = _path((mark.x, mark.y) for mark in marks)
        strokes.append(Stroke(styles[line.engine], line.engine, path, marks))
    return LineChart(
        f"Median time of {panel.block[2]} on {panel.block[1]} over features",
        "features k",
        "solve",
        _spaced([Tick(x(k), str(k)) for k in features]),
        tuple(Tick(y(value), seconds(value)) for value in _round_values(low, high)),
        tuple(strokes),
    )


def over_supersteps(records: Sequence[Record], styles: Mapping[str, int]) -> LineChart | None:
    """Return the chart of active vertices, logarithmic, over supersteps; None if no record has supersteps.

    Engines with equal activity share a line, and the remark names them.
    """
    lines = [(engine_label(record), active_vertices(record, _POINTS)) for record in records if record["supersteps"]]
    if not lines:
        return None
    last = max(steps[-1][0] for _, steps in lines)
    most = max(max(active for _, active in steps) for _, steps in lines)
    x = _linear(1, max(last, 2), _LEFT, _RIGHT)
    y = _logarithmic(1, max(most, 10), _BOTTOM - 8, _TOP)

    def height(active: int) -> float:
        return y(active) if active > 0 else _BOTTOM  # 0 is drawn on the axis, below 1

    alike: dict[str, list[str]] = {}
    for label, steps in lines:
        alike.setdefault(_path((x(n), height(a)) for n, a in steps), []).append(label)
    strokes = tuple(Stroke(styles[labels[0]], ", ".join(labels), path) for path, labels in alike.items())
    shared = [f"{', '.join(labels[:-1])} and {labels[-1]}" for labels in alike.values() if len(labels) > 1]
    return LineChart(
        "Active vertices before every superstep",
        "superstep",
        "active",
        _spaced([Tick(x(n), str(n)) for n in _whole_values(1, last)]),
        tuple(Tick(y(value), count(round(value))) for value in _decades(1, max(most, 10))),
        strokes,
        f"The same line: {'; '.join(shared)}." if shared else "",
    )


def curves(
    description: str, x_title: str, y_title: str, lines: Mapping[str, Sequence[tuple[float, float]]],
    styles: Mapping[str, int], x_label: Callable[[float], str],
) -> LineChart:  # fmt: skip
    """Return the chart of one line of (x, y) per engine, both axes linear; every line has a point."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    x = _linear(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, _LEFT, _RIGHT)
    room = 0.05 * (max(ys) - min(ys)) or 0.05 * abs(max(ys)) or 1.0
    low, high = min(ys) - room, max(ys) + room
    y = _linear(low, high, _BOTTOM, _TOP)
    strokes = tuple(
        Stroke(styles[label], label, _path((x(at), y(value)) for at, value in points))
        for label, points in lines.items()
    )
    x_values = [min(xs) + share * (max(xs) - min(xs)) / 4 for share in range(5)]
    y_values = [low + share * (high - low) / 4 for share in range(5)]
    return LineChart(
        description, x_title, y_title, _spaced([Tick(x(value), x_label(value)) for value in dict.fromkeys(x_values)]),
        tuple(Tick(y(value), f"{value:.3g}") for value in y_values), strokes,
    )  # fmt: skip


def over_phases(records: Sequence[Record]) -> BarChart | None:
    """Return the chart of each cell's phases in seconds; None if no record has phases."""
    told = [(record, phase_seconds(record)) for record in records if record["phases"]]
    if not told:
        return None
    totals = [sum(part for _, part in phases) for _, phases in told]
    scale = _linear(0.0, max(*totals, 1e-9), 0.0, WIDTH)
    bars = []
    for place, ((record, phases), total) in enumerate(zip(told, totals, strict=True)):
        spent, segments = 0.0, []
        for name, part in phases:
            segments.append(
                Segment(phase_style(name), _short(scale(spent)), _short(scale(part)), f"{name} {seconds(part)}")
            )
            spent += part
        solve = dict(phases).get("solve")
        told_total = seconds(total) if solve is None else f"{seconds(total)}, solve {seconds(solve)}"
        bars.append(Bar(fitting(engine_label(record)), told_total, 13 + place * _BAR_STEP, tuple(segments)))
    return BarChart("Seconds of every phase", tuple(bars), height=len(bars) * _BAR_STEP)


def fitting(label: str) -> str:
    """Return a label that fits into the width of a drawing."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def phase_style(name: str) -> str:
    """Return the CSS class of a phase: greys before the engine, blues for its preparation, a distinct one for solve."""
    return _PHASE_STYLES.get(name, "prepare4")


def _linear(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: _short(start + (value - low) / (high - low) * (end - start))


def _logarithmic(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    place = _linear(math.log(low), math.log(high), start, end)
    return lambda value: place(math.log(value))


def _short(value: float) -> float:
    return round(value, 1)


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _round_values(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two values; only powers of ten if the range is a factor of 300."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < 300 else (1,)
    values = [digit * 10.0**power for power in powers for digit in digits]
    return [value for value in values if low <= value <= high] or [math.sqrt(low * high)]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(round(math.log10(low)), math.floor(math.log10(high)) + 1)]


def _whole_values(low: int, high: int) -> list[int]:
    """Return about five integers from ``low`` to ``high``, with round ones in between."""
    step = max(1.0, (high - low) / 5)
    power = 10.0 ** math.floor(math.log10(step))
    step = max(1, round(next(size * power for size in (1, 2, 5, 10) if size * power >= step)))
    return [
        low,
        *(value for value in range(step, high, step) if value - low >= step / 2),
        *([high] if high > low else []),
    ]


def _spaced(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Drop ticks whose labels would overlap; the last is always kept."""
    kept: list[Tick] = []
    for tick in reversed(ticks):
        if not kept or kept[-1].at - tick.at >= _LETTER * (len(tick.label) + len(kept[-1].label)) / 2 + 6:
            kept.append(tick)
    return tuple(reversed(kept))

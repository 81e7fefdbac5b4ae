"""Plots of series as data: the static drawing and the interactive plot of the script show the same values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from harness.report.page.overlaps import Points, layers, likeness
from harness.report.units import count, seconds

_DIGITS = 6  # significant digits of values in the page
_MARKED = 12  # all points of a shorter series have a marker
_SOME = 6  # markers of a longer one


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``. ``unit``: how values are written: seconds, count, number, percent or name.

    ``ticks``: the values that have a tick; empty: round values. ``names``: the names of the values 0, 1, ..., for the
    unit name.
    """

    title: str
    unit: str
    low: float
    high: float
    logarithmic: bool = False
    ticks: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    def label(self, value: float) -> str:
        """Return the label of a tick."""
        if self.unit == "name":
            return self.names[round(value)]
        if self.unit == "seconds":
            return seconds(value) if value else "0 s"
        if self.unit == "count":
            return count(round(value))
        return f"{100 * value:.3g} %" if self.unit == "percent" else f"{value:.3g}"

    @property
    def whole(self) -> bool:
        """Return whether only integers are values of this axis."""
        return self.unit in ("count", "name")


@dataclass(frozen=True)
class Series:
    """A line: points (x, y, low, high) by ascending x; low = high = y without an interval.

    ``style``: the number of its look. ``layer``: how many series that are drawn later overlap it; it is wider, so that
    they do not hide it. ``marked``: the points that have a marker.
    """

    label: str
    style: int
    points: tuple[tuple[float, float, float, float], ...]
    layer: int = 0
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Lines, or steps, with a description for screen readers. ``remark``: which series are alike."""

    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    steps: bool = False
    remark: str = ""


def plot_of(description: str, x: Axis, y: Axis, series: Sequence[Series], *, steps: bool = False) -> Plot:
    """Return the plot of these series: overlapping ones get layers, and the remark names those that are alike."""
    shares = [_shares(one, x, y) for one in series]
    above = layers(shares)
    drawn = tuple(
        Series(one.label, one.style, one.points, above[place], _marked(len(one.points), place, max(above) + 1))
        for place, one in enumerate(series)
    )
    values = [tuple(point[:2] for point in one.points) for one in series]
    return Plot(description, x, y, drawn, steps, likeness([one.label for one in series], values, shares))


def plain_plot(plot: Plot) -> dict[str, Any]:
    """Return a plot as plain data for the script, which takes the labels of series from the legend.

    ``common``: the x of all series, if they are equal.
    """
    series = [_plain_series(one) for one in plot.series]
    common = [one.pop("x") for one in series][:1] if _one_x(plot) else []
    return {
        "title": plot.description, "x": _plain_axis(plot.x), "y": _plain_axis(plot.y), "steps": plot.steps,
        "series": series, "common": common,
    }  # fmt: skip


def shown(value: float, axis: Axis) -> float:
    """Return the value that is drawn: on a logarithmic axis, 0 lies on its lower end."""
    return axis.low if axis.logarithmic and value <= 0 else value


def _plain_axis(axis: Axis) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "title": axis.title, "unit": axis.unit, "low": _rounded(axis.low), "high": _rounded(axis.high),
        "log": axis.logarithmic,
    }  # fmt: skip
    if axis.ticks:
        fields["ticks"] = [_rounded(value) for value in axis.ticks]
    return {**fields, "names": axis.names} if axis.names else fields


def _one_x(plot: Plot) -> bool:
    return len({tuple(point[0] for point in one.points) for one in plot.series}) == 1


def _plain_series(series: Series) -> dict[str, Any]:
    x, y, low, high = ([_rounded(value) for value in values] for values in zip(*series.points, strict=True))
    intervals = {} if low == y == high else {"low": low, "high": high}
    return {"style": series.style, "layer": series.layer, "marked": series.marked, "x": x, "y": y, **intervals}


def _rounded(value: float) -> float:
    found = float(f"{value:.{_DIGITS}g}")
    return int(found) if found.is_integer() and abs(found) < 1e15 else found


def _shares(series: Series, x: Axis, y: Axis) -> Points:
    return [(_share(point[0], x), _share(point[1], y)) for point in series.points]


def _share(value: float, axis: Axis) -> float:
    """Return the position on an axis: 0 at its lower end, 1 at its upper end."""
    value = shown(value, axis)
    if axis.logarithmic:
        return log(value / axis.low) / log(axis.high / axis.low)
    return (value - axis.low) / (axis.high - axis.low)


def _marked(points: int, place: int, overlapping: int) -> tuple[int, ...]:
    """Return the points of a series that have a marker.

    Of long series, and in a plot with ``overlapping`` series, those of successive series differ.
    """
    step = overlapping if points <= _MARKED else max(points // _SOME, overlapping)
    return tuple(range(place * max(1, step // 4) % min(step, points), points, step))

"""Static drawings of plots: positions in a drawing of fixed size, which the template renders as SVG.

Pages show them without their script, in print, and until the script has made the interactive plot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.report.page.plot import Axis, Plot, Series, plain_plot, shown
from harness.report.page.strokes import Look, look
from harness.report.page.ticks import round_values

# In units of the drawing: one pixel on the narrowest phone; wider screens scale it up.
AREA = {"width": 320, "height": 220, "left": 52, "right": 308, "top": 12, "bottom": 186}
_LETTER = 7  # width of a character of a tick's label
_LINE = 16  # least distance of two labels of the y axis


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Stroke:
    """A series: the points of its polyline, and the paths of its markers and intervals."""

    title: str
    look: Look
    layer: int
    points: str
    markers: str
    whiskers: str


@dataclass(frozen=True)
class Drawing:
    """The drawing of a plot; ``plain``: the plot as plain data for the script."""

    plot: Plot
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    strokes: tuple[Stroke, ...]

    @property
    def plain(self) -> dict[str, Any]:
        return plain_plot(self.plot)


def drawing(plot: Plot) -> Drawing:
    """Return the drawing of a plot."""
    x, y = _scale(plot.x, AREA["left"], AREA["right"]), _scale(plot.y, AREA["bottom"], AREA["top"])
    across = [Tick(x(value), plot.x.label(value)) for value in _ticks(plot.x)]
    upwards = [Tick(y(value), plot.y.label(value)) for value in _ticks(plot.y)]
    return Drawing(
        plot, _beside(across), _above(upwards), tuple(_stroke(one, x, y, steps=plot.steps) for one in plot.series)
    )


def _ticks(axis: Axis) -> Sequence[float]:
    return axis.ticks or round_values(axis.low, axis.high, logarithmic=axis.logarithmic, whole=axis.whole)


def _scale(axis: Axis, start: float, end: float) -> Callable[[float], float]:
    """Return the function from values to positions."""
    place = math.log if axis.logarithmic else float
    low, high = place(axis.low), place(axis.high)
    return lambda value: round(start + (place(shown(value, axis)) - low) / (high - low) * (end - start), 1)


def _stroke(series: Series, x: Callable[[float], float], y: Callable[[float], float], *, steps: bool) -> Stroke:
    places = [(x(point[0]), y(point[1])) for point in series.points]
    own = look(series.style)
    corners = _corners(places) if steps else places
    return Stroke(
        series.label,
        own,
        series.layer,
        " ".join(f"{across:g},{up:g}" for across, up in corners),
        "".join(f"M{places[n][0]:g},{places[n][1]:g}{own.marker}" for n in series.marked),
        "".join(f"M{x(at):g},{y(low):g}V{y(high):g}" for at, _, low, high in series.points if low < high),
    )


def _corners(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a line that keeps its height up to the next point."""
    if not places:
        return []
    corners = [places[0]]
    for (_, before), (across, up) in pairwise(places):
        corners += [(across, before), (across, up)]
    return corners


def _beside(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Drop ticks of the x axis whose labels would overlap; the last is always kept."""
    kept: list[Tick] = []
    for tick in reversed(ticks):
        if not kept or kept[-1].at - tick.at >= _LETTER * (len(tick.label) + len(kept[-1].label)) / 2 + 6:
            kept.append(tick)
    return tuple(reversed(kept))


def _above(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Drop ticks of the y axis whose labels would overlap; the lowest is always kept."""
    kept: list[Tick] = []
    for tick in ticks:
        if not kept or kept[-1].at - tick.at >= _LINE:
            kept.append(tick)
    return tuple(kept)

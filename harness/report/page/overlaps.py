"""Series that overlap in a plot: how they are layered, and which are alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Points = Sequence[tuple[float, float]]  # positions of points as shares of the axes

_NEAR = 0.012  # share of the axis: about the width of a line in a drawing of 200 pixels
_OVERLAP = 0.2  # share of a series' points that are near another series
_MOST_LAYERS = 3


def layers(series: Sequence[Points]) -> list[int]:
    """Return for each series the number of later ones that overlap it, at most 3."""
    return [
        min(_MOST_LAYERS, sum(_overlap(one, other) for other in series[place + 1 :]))
        for place, one in enumerate(series)
    ]


def likeness(labels: Sequence[str], values: Sequence[Points], series: Sequence[Points]) -> str:
    """Return a sentence for each group of series with equal values, or with values within 1.2 % of the axis."""
    found = []
    left = list(range(len(labels)))
    while left:
        first, *others = left
        equal = [place for place in others if values[place] == values[first]]
        near = [place for place in others if place not in equal and _alike(series[first], series[place])]
        for places, told in ((equal, "the same values as"), (near, "nearly the same values as")):
            if places:
                verb = "has" if len(places) == 1 else "have"
                found.append(f"{_listed(labels, places)} {verb} {told} “{labels[first]}”.")
        left = [place for place in others if place not in equal and place not in near]
    return " ".join(found)


def _listed(labels: Sequence[str], places: Sequence[int]) -> str:
    *others, last = (f"“{labels[place]}”" for place in places)
    return f"{', '.join(others)} and {last}" if others else last


def _overlap(one: Points, other: Points) -> bool:
    return max(_near(one, other), _near(other, one)) >= _OVERLAP


def _alike(one: Points, other: Points) -> bool:
    return _near(one, other) == _near(other, one) == 1.0


def _near(one: Points, other: Points) -> float:
    """Return the share of the points of a series that are near the line through another's points."""
    x, y = np.array(one, dtype=float).T
    other_x, other_y = np.array(other, dtype=float).T
    inside = (x >= other_x[0] - _NEAR) & (x <= other_x[-1] + _NEAR)
    return float(np.mean(inside & (np.abs(np.interp(x, other_x, other_y) - y) <= _NEAR)))

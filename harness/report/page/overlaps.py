"""Series that overlap in a plot: how they are layered, and which are alike."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

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
        for places, relation in ((equal, "the same values as"), (near, "nearly the same values as")):
            if places:
                verb = "has" if len(places) == 1 else "have"
                found.append(f"{_listed(labels, places)} {verb} {relation} “{labels[first]}”.")
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
    xs = [x for x, _ in other]
    return sum(_meets(point, other, xs) for point in one) / len(one)


def _meets(point: tuple[float, float], line: Points, xs: Sequence[float]) -> bool:
    """Return whether a line, with its ascending ``xs``, is near a point."""
    x, y = point
    if not xs[0] - _NEAR <= x <= xs[-1] + _NEAR:
        return False
    after = bisect_left(xs, x)
    if after == 0 or after == len(xs):
        return abs(line[min(after, len(xs) - 1)][1] - y) <= _NEAR
    (left, before), (right, behind) = line[after - 1 : after + 1]
    return abs(before + (x - left) / (right - left) * (behind - before) - y) <= _NEAR

"""Styles of lines: colour, dashes and markers, so that no two of 28 series differ in colour only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COLOURS = 8  # of the style sheet, which has one set for light and one for dark pages
DASHES = ((), (8, 4), (2, 3), (10, 3, 2, 3))
# Outlines relative to the marked point, in pixels; 4 and 7 have no common divisor, so pairs repeat after 28 series.
MARKERS = (
    "m-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z",  # circle
    "m-3.2,-3.2h6.4v6.4h-6.4z",  # square
    "m0,-4.4l4.4,7.6h-8.8z",  # triangle
    "m0,-4.8l4.8,4.8l-4.8,4.8l-4.8,-4.8z",  # diamond
    "m0,4.4l4.4,-7.6h-8.8z",  # triangle, pointing down
    "m-1.5,-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # plus
    "m-4.2,-2.2l2,-2l2.2,2.2l2.2,-2.2l2,2l-2.2,2.2l2.2,2.2l-2,2l-2.2,-2.2l-2.2,2.2l-2,-2l2.2,-2.2z",  # cross
)


@dataclass(frozen=True)
class Look:
    """The look of a series: the CSS class of its colour, its SVG dashes and the outline of its marker."""

    colour: str
    dashes: str
    marker: str


def look(style: int) -> Look:
    """Return the look of the series with this number."""
    dashes = " ".join(map(str, DASHES[style % len(DASHES)]))
    return Look(f"s{style % COLOURS}", dashes, MARKERS[style % len(MARKERS)])


def plain_strokes() -> dict[str, Any]:
    """Return all looks as plain data for the script."""
    return {"colours": COLOURS, "dashes": DASHES, "markers": MARKERS}

"""The geometry of a page in a browser: what is cut off, overflows or overlaps, and where its landmarks are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
RECORD_LABELS = f"{_SCRIPT} recordLabels();"  # for a page before it is opened
FAULTS, LANDMARKS, SETTLE = (f"() => {{ {_SCRIPT} return {name}(); }}" for name in ("faults", "landmarks", "settle"))

_FLUID = 0.02  # share of the window by which the edges of a box that fills its column may differ
_FITTED = 0.35  # the same for boxes whose width is that of their text, which depends on the font
_BY_TEXT = ("table", "bar", "h3")
_HIGHER, _LOWER = 1.6, 0.3  # factors of a height
_LINES, _BIT = 64, 12  # pixels that a box may always be higher, for two more lines of text, and lower


def differences(expected: list[dict[str, Any]], found: list[dict[str, Any]], width: int) -> list[str]:
    """Return a sentence for each landmark that is missing, new, moved sideways, or much higher or lower."""
    names, met = [one["name"] for one in expected], [one["name"] for one in found]
    if names != met:
        place = next((n for n, pair in enumerate(zip(names, met, strict=False)) if pair[0] != pair[1]), len(names))
        return [f"landmark {place} of {len(names)} is not {names[place : place + 1]} but {met[place : place + 1]}"]
    problems = []
    for one, other in zip(expected, found, strict=True):
        tolerance = width * (_FITTED if one["name"].startswith(_BY_TEXT) else _FLUID)
        for side in ("left", "right"):
            if abs(one[side] - other[side]) > tolerance:
                problems.append(f"{one['name']}: its {side} edge is at {other[side]}, not {one[side]}")
        before, now = one["height"], other["height"]
        if (
            now > max(_HIGHER * before, before + _LINES)
            or now < min(before / _HIGHER, before - _LINES)
            or (now < min(_LOWER * before, before - _BIT))
        ):
            problems.append(f"{one['name']}: it is {now} high, not {before}")
    return problems

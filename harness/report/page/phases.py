"""The chart of the phases of a run: one bar per engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.report.series import engine_label, phase_seconds
from harness.report.units import seconds

LENGTH = 1000  # of the longest bar
_STYLES = {
    "open": "given0", "trace": "given1", "inputs": "given2", "transform": "prepare0", "lower": "prepare1",
    "compile": "prepare2", "upload": "prepare3", "wait": "given0", "warm_up": "warm", "solve": "solve",
    "accuracy": "warm", "download": "after0", "validate": "after1",
}  # fmt: skip


@dataclass(frozen=True)
class Segment:
    """A phase of a bar; ``style`` is its CSS class."""

    style: str
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class Bar:
    """All phases of one cell, side by side. ``parts``: names and seconds, for the script."""

    label: str
    total: str
    segments: tuple[Segment, ...]
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class BarChart:
    """Stacked phases, one bar per engine."""

    description: str
    bars: tuple[Bar, ...]


def over_phases(records: Sequence[Record]) -> BarChart | None:
    """Return the chart of each cell's phases in seconds; None if no record has phases."""
    rows = [(record, phase_seconds(record)) for record in records if record["phases"]]
    if not rows:
        return None
    longest = max(1e-9, *(sum(part for _, part in phases) for _, phases in rows))
    return BarChart("Seconds of every phase", tuple(_bar(record, phases, longest) for record, phases in rows))


def phase_style(name: str) -> str:
    """Return the CSS class of a phase: greys before the engine, blues for its preparation, a distinct one for solve."""
    return _STYLES.get(name, "prepare4")


def phase_title(name: str) -> str:
    """Return the name of a phase as people read it."""
    return name.replace("_", " ")


def _bar(record: Record, phases: Sequence[tuple[str, float]], longest: float) -> Bar:
    elapsed, segments = 0.0, []
    for name, part in phases:
        x, width = round(LENGTH * elapsed / longest), LENGTH * part / longest
        if width >= 1:
            segments.append(Segment(phase_style(name), x, round(width), f"{phase_title(name)}: {seconds(part)}"))
        elapsed += part
    solve = dict(phases).get("solve")
    total = seconds(elapsed) if solve is None else f"{seconds(elapsed)}, solve {seconds(solve)}"
    parts = tuple((phase_title(name), float(f"{part:.4g}")) for name, part in phases if part)
    return Bar(engine_label(record), total, tuple(segments), parts)

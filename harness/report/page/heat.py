"""The heat map of speed-ups on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.comparison import Ratio
from harness.report.series import Comparison, engine_label
from harness.report.units import seconds, times

_SHADES = 6  # per direction; the last one is for a factor of 4 and more
_SHADES_PER_DOUBLING = 3


@dataclass(frozen=True)
class Heat:
    """A speed-up in the heat map: its text, its CSS class and its tooltip."""

    text: str
    style: str
    title: str


def block_title(block: tuple[str, str, str, str], several: bool) -> str:
    """Return the title of a block of comparisons; with the sweep if there are several."""
    sweep, graph, algorithm, limit = block
    parts = [graph, f"{algorithm}, at most {limit} supersteps" if limit else algorithm, *([sweep] if several else [])]
    return " · ".join(parts)


def heat_map(groups: Sequence[Comparison], engines: Sequence[str], several: bool) -> list[dict[str, Any]]:
    """Return the rows, one per number of features, in blocks of one graph and algorithm."""
    blocks: dict[tuple[str, str, str, str], list[tuple[str, list[list[Heat]]]]] = {}
    for group in groups:
        cells = [_heat(group, name) for name in engines]
        blocks.setdefault(group.block, []).append((f"k = {group.features}", cells))
    return [{"title": block_title(block, several), "comparisons": rows} for block, rows in blocks.items()]


def _heat(group: Comparison, engine: str) -> list[Heat]:
    """Return one entry per record of this engine in the comparison: usually one, none if it was not run."""
    return [_heat_of(group, record) for record in group.records if engine_label(record) == engine]


def _heat_of(group: Comparison, record: Record) -> Heat:
    if record["outcome"] != Outcome.OK or record["solve"] is None:
        style = "none unsupported" if record["outcome"] == Outcome.UNSUPPORTED else "none"
        return Heat(record["outcome"].replace("_", " "), style, record["reason"])
    time = seconds(record["solve"]["median"])
    if record is group.baseline:
        return Heat(time, "base", "the baseline")
    found = group.ratio(record)
    if found is None:
        return Heat(time, "plain", group.obstacle(record) or "nothing to compare it with")
    if not found.conclusive:
        return Heat("?", "same", f"{found.doubt}; {time}")
    if not found.decided:
        return Heat(f"≈ {times(found.value)}", "same", f"{found.doubt}; {time}, {_interval(found)}")
    return Heat(times(found.value), _shade(found.value), f"{time}, {_interval(found)}")


def _shade(value: float) -> str:
    steps = min(_SHADES, max(1, round(abs(math.log2(value)) * _SHADES_PER_DOUBLING)))
    return f"{'faster' if value > 1 else 'slower'}{steps}"


def _interval(found: Ratio) -> str:
    return f"{found.low:.3g} to {found.high:.3g}"

"""The chart of all samples of the solve times of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.page.charts import WIDTH, fitting
from harness.report.series import engine_label
from harness.report.units import seconds

_STEP = 42  # height of a row
_MOST = 200  # samples that are drawn of an engine: evenly chosen ones of the sorted samples


@dataclass(frozen=True)
class Strip:
    """The samples of one engine: a label, the range in words, the height of the label, and the path of their marks."""

    label: str
    told: str
    y: int
    path: str


@dataclass(frozen=True)
class StripChart:
    """One strip per engine; all have the same logarithmic axis, from the least sample to the greatest."""

    description: str
    strips: tuple[Strip, ...]
    height: int
    width: int = WIDTH


def over_samples(records: Sequence[Record]) -> StripChart | None:
    """Return the chart of the right answers' samples; None if all samples are equal or there are none."""
    timed = [
        (engine_label(one), sorted(one["solve"]["samples"]))
        for one in records
        if one["outcome"] == Outcome.OK and one["solve"] is not None and min(one["solve"]["samples"], default=0) > 0
    ]
    low = min((samples[0] for _, samples in timed), default=0.0)
    high = max((samples[-1] for _, samples in timed), default=0.0)
    if low == high:
        return None
    scale = (WIDTH - 2) / math.log(high / low)
    strips = []
    for place, (label, samples) in enumerate(timed):
        y = 13 + place * _STEP
        drawn = samples[:: -(-len(samples) // _MOST)]
        marks = dict.fromkeys(round(1 + scale * math.log(sample / low), 1) for sample in drawn)
        told = f"{len(samples)} samples, {seconds(samples[0])} to {seconds(samples[-1])}"
        strips.append(Strip(fitting(label), told, y, "".join(f"M{x:g},{y + 17}v9" for x in marks)))
    return StripChart("Samples of the solve time", tuple(strips), height=len(strips) * _STEP)

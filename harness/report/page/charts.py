"""The plots of a page: time over features, active vertices over supersteps, samples, and curves of other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.page.plot import Axis, Plot, Series, plot_of
from harness.report.series import Panel, active_vertices, engine_label

_POINTS = 50  # maximum of a line over supersteps, and of a distribution
_ZERO = 0.5  # the lower end of an axis of counts, where 0 is drawn

Point = tuple[float, float, float, float]  # x, y and the interval of y


def over_features(panel: Panel, styles: Mapping[str, int]) -> Plot:
    """Return the plot of time over the number of features, both logarithmic, with intervals."""
    features = sorted({float(point[0]) for line in panel.lines for point in line.points})
    times = [time for line in panel.lines for point in line.points for time in point[1:]]
    margin = (features[-1] / features[0]) ** 0.05
    return plot_of(
        f"Median time of {panel.block[2]} on {panel.block[1]} over features",
        Axis("features k", "count", features[0] / margin, features[-1] * margin, True, tuple(features)),
        Axis("solve", "seconds", min(times) / 1.15, max(times) * 1.15, True),
        [Series(line.engine, styles[line.engine], line.points) for line in panel.lines],
    )


def over_supersteps(records: Sequence[Record], styles: Mapping[str, int]) -> Plot | None:
    """Return the plot of active vertices, logarithmic, over supersteps; None if no record has supersteps."""
    lines = [(engine_label(record), active_vertices(record, _POINTS)) for record in records if record["supersteps"]]
    if not lines:
        return None
    last = max(steps[-1][0] for _, steps in lines)
    most = max(max(active for _, active in steps) for _, steps in lines)
    return plot_of(
        "Active vertices before every superstep",
        Axis("superstep", "count", 1, max(last, 2)),
        Axis("active vertices", "count", _ZERO, max(most, 10) * 1.3, True),
        [Series(label, styles[label], tuple(_exact(n, active) for n, active in steps)) for label, steps in lines],
    )


def over_samples(records: Sequence[Record], styles: Mapping[str, int]) -> Plot | None:
    """Return the distributions of the right answers' samples: the share of runs that took at most a time, over times.

    None if all samples are equal or there are none. Of many samples, evenly spaced ones are drawn.
    """
    timed = [
        (engine_label(one), sorted(one["solve"]["samples"]))
        for one in records
        if one["outcome"] == Outcome.OK and one["solve"] is not None and min(one["solve"]["samples"], default=0) > 0
    ]
    low = min((samples[0] for _, samples in timed), default=0.0)
    high = max((samples[-1] for _, samples in timed), default=0.0)
    if low == high:
        return None
    margin = (high / low) ** 0.03
    return plot_of(
        "Distribution of the samples of the solve time",
        Axis("solve", "seconds", low / margin, high * margin, True),
        Axis("runs that took at most this time", "percent", 0.0, 1.05, False, (0.0, 0.25, 0.5, 0.75, 1.0)),
        [Series(label, styles[label], _shares(samples)) for label, samples in timed],
        steps=True,
    )


def curves(
    description: str, x: tuple[str, str], y: tuple[str, str], lines: Mapping[str, Sequence[Point]],
    styles: Mapping[str, int], names: Sequence[str] = (),
) -> Plot:  # fmt: skip
    """Return the plot of one line per label, both axes linear; ``x`` and ``y`` are their titles and units.

    Every line has a point. ``names``: those of an x axis with the unit name.
    """
    xs = [point[0] for points in lines.values() for point in points]
    ys = [value for points in lines.values() for point in points for value in point[1:]]
    margin = 0.05 * (max(ys) - min(ys)) or 0.05 * abs(max(ys)) or 1.0
    return plot_of(
        description,
        Axis(*x, min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, names=tuple(names)),
        Axis(*y, min(ys) - margin, max(ys) + margin),
        [Series(label, styles[label], tuple(points)) for label, points in lines.items()],
    )


def _exact(x: float, y: float) -> Point:
    return float(x), float(y), float(y), float(y)


def _shares(samples: Sequence[float]) -> tuple[Point, ...]:
    """Return the steps of the distribution of ascending samples: one per different sample, at most ``_POINTS``."""
    shares = {sample: place / len(samples) for place, sample in enumerate(samples, 1)}
    steps = list(shares.items())
    drawn = min(len(steps), _POINTS)
    places = [round(place * (len(steps) - 1) / max(1, drawn - 1)) for place in range(drawn)]
    return tuple(_exact(*steps[place]) for place in places)

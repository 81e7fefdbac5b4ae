"""Figures for papers as SVG, PDF or PNG: the charts of the page, drawn with Matplotlib (the extra ``figures``)."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.atomic_write import write_whole
from harness.records import Record, merge_rounds
from harness.records.outcome import Outcome
from harness.report.series import (
    Comparison,
    Panel,
    active_vertices,
    comparisons,
    engine_label,
    engines_of,
    feature_panels,
    phase_names,
    phase_seconds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf", "png")
# Size of a figure in inches, for one column of text; every line has its own colour and marker.
_WIDTH, _HEIGHT = 4.6, 3.0
_CHARACTER = 0.075  # inches: the mean width of a character of a label
_COLOURS = ("#0b62c4", "#bd4409", "#0b7a4b", "#9a2f8f", "#7a6500", "#bf1658", "#59616b", "#087886")
_MARKERS = "os^DvPX*"
# Matplotlib declares the names of its settings as literal types, which change between releases.
_SETTINGS: Any = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a dollar sign in a graph's name is not mathematics
    "svg.hashsalt": "onyx-harness",  # equal records give equal files
    "svg.fonttype": "none",  # keep text as text
}


def write_figures(
    folder: Path, records: Sequence[Record], baseline: str | None, formats: Sequence[str] = ("svg",)
) -> list[tuple[Path, str]]:
    """Draw all figures of the records into ``folder``; return the path and the title of each file.

    Files are numbered, because names of graphs and engines are not valid file names. Raises ImportError, naming the
    extra, if Matplotlib is not installed, and ValueError for a format that is not in FORMATS.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise ValueError(f"figure format {unknown[0]!r} is unknown; choose one of {', '.join(FORMATS)}")
    written = []
    with settings():
        folder.mkdir(parents=True, exist_ok=True)
        numbers: dict[str, int] = {}
        for kind, title, figure in figures_of(records, baseline):
            numbers[kind] = numbers.get(kind, 0) + 1
            for suffix in formats:
                path = folder / f"{kind}-{numbers[kind]:02d}.{suffix}"
                save(figure, path)
                written.append((path, title))
    return written


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's suffix, atomically. Raises OSError."""
    drawn = io.BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(drawn, format=kind, dpi=200, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, drawn.getvalue())


@contextmanager
def settings() -> Iterator[None]:
    """Apply Matplotlib's settings of all figures. Raises ImportError, naming the extra, if it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError("figures need Matplotlib: pip install 'onyx-harness[figures]'") from error
    with mpl.rc_context(_SETTINGS):
        yield


def figures_of(records: Sequence[Record], baseline: str | None) -> Iterator[tuple[str, str, Figure]]:
    """Yield the kind, the title and each figure of the records; call it within :func:`settings`."""
    records = merge_rounds(records)
    groups = comparisons(records, baseline)
    styles = {name: place for place, name in enumerate(engines_of(records))}
    if any(group.baseline is not None for group in groups):
        yield "speed-ups", f"speed-ups over {baseline}", speed_up_figure(groups, list(styles), str(baseline))
    for panel in feature_panels(groups):
        yield "features", _named(panel.block), features_figure(panel, styles)
    for group in groups:
        title = f"{_named(group.block)}, k = {group.features}"
        if any(record["supersteps"] for record in group.records):
            yield "supersteps", title, supersteps_figure(group, styles)
        if any(record["phases"] for record in group.records):
            yield "phases", title, phases_figure(group)


def features_figure(panel: Panel, styles: dict[str, int]) -> Figure:
    """Draw median time over features, both logarithmic, with intervals as error bars."""
    figure, axes = _new()
    for line in panel.lines:
        k = [point[0] for point in line.points]
        median = [point[1] for point in line.points]
        below = [point[1] - point[2] for point in line.points]
        above = [point[3] - point[1] for point in line.points]
        colour, marker = style(styles[line.engine])
        axes.errorbar(
            k, median, (below, above), color=colour, marker=marker, markersize=4, capsize=2, label=line.engine
        )
    ticks = sorted({point[0] for line in panel.lines for point in line.points})
    axes.set(xlabel="features k", ylabel="solve (s)", title=_named(panel.block))
    logarithmic(axes)
    over_features(axes, ticks)
    _legend(axes)
    return figure


def supersteps_figure(group: Comparison, styles: dict[str, int]) -> Figure:
    """Draw the active vertices before every superstep; 0 is drawn as 0.5."""
    figure, axes = _new()
    for record in group.records:
        steps = active_vertices(record)
        if steps:
            colour, _ = style(styles[engine_label(record)])
            active = [max(count, 0.5) for _, count in steps]
            axes.plot([step for step, _ in steps], active, color=colour, label=engine_label(record))
    axes.set(xlabel="superstep", ylabel="active vertices")
    logarithmic(axes)
    axes.set_title(f"{_named(group.block)}, k = {group.features}")
    _legend(axes)
    return figure


def phases_figure(group: Comparison) -> Figure:
    """Draw the seconds of every phase, including one solve, as one stacked bar per engine."""
    figure, axes = _new()
    records = [record for record in group.records if record["phases"]]
    labels = [engine_label(record) for record in records]
    phases = [dict(phase_seconds(record)) for record in records]
    offsets = [0.0] * len(records)
    names = phase_names(records)
    for place, name in enumerate(names):
        parts = [one.get(name, 0.0) for one in phases]
        shade = 0.15 + 0.75 * place / max(len(names) - 1, 1)
        axes.barh(range(len(labels)), parts, left=offsets, label=name.replace("_", " "), color=_map("viridis", shade))
        offsets = [before + part for before, part in zip(offsets, parts, strict=True)]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set(xlabel="seconds")
    axes.set_title(f"{_named(group.block)}, k = {group.features}")
    _legend(axes)
    return figure


def speed_up_figure(groups: Sequence[Comparison], engines: list[str], baseline: str) -> Figure:
    """Draw the heat map: a row per comparison, a column per engine; ``~``: no difference, ``?``: no verdict."""
    from matplotlib.figure import Figure

    rows = [f"{_named(group.block)}, k = {group.features}" for group in groups]
    width = 0.5 + _CHARACTER * max(map(len, rows)) + 0.85 * len(engines)
    height = 0.7 + 0.5 * _CHARACTER * max(map(len, engines)) + 0.26 * len(groups)  # columns rise by 30 degrees
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    for row, group in enumerate(groups):
        for record in group.records:
            column = engines.index(engine_label(record))
            text, shade = _speed_up(group, record)
            if shade is not None:
                axes.add_patch(_square(column, row, _map("RdBu", shade)))
            axes.text(column, row, text, ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.5, len(engines) - 0.5), ylim=(len(groups) - 0.5, -0.5), title=f"Speed-up over {baseline}")
    axes.set_xticks(range(len(engines)), engines, rotation=30, ha="right")
    axes.set_yticks(range(len(groups)), rows)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def _speed_up(group: Comparison, record: Record) -> tuple[str, float | None]:
    """Return the text of a square and its shade: 0.5 for a ratio of 1, 0.14 and 0.86 for a factor of 4 and more."""
    if record["outcome"] != Outcome.OK:
        return record["outcome"].replace("_", "\n"), None
    if record is group.baseline:
        return "1", 0.5
    found = group.ratio(record)
    if found is None:
        return "n/c" if group.obstacle(record) else "", None
    if not found.decided:
        return "~" if found.conclusive else "?", 0.5
    # 0.36 of the colour map on either side: black text is hard to read on its darkest ends.
    return f"{found.value:.3g}", 0.5 + 0.36 * max(-1.0, min(1.0, math.log2(found.value) / 2))


def _new() -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    return figure, figure.add_subplot()


def _square(column: int, row: int, colour: tuple[float, float, float, float]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, facecolor=colour)


def _map(name: str, place: float) -> tuple[float, float, float, float]:
    import matplotlib as mpl

    red, green, blue, alpha = mpl.colormaps[name](place)
    return float(red), float(green), float(blue), float(alpha)


def logarithmic(axes: Axes) -> None:
    """Make the y axis logarithmic with plain-text numbers; Matplotlib's default formatter needs math text."""
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter())


def over_features(axes: Axes, ticks: Sequence[int]) -> None:
    """Make the x axis logarithmic with ticks only at these numbers of features."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xticks([], minor=True)


def style(place: int) -> tuple[str, str]:
    """Return the colour and the marker of the line or bar at this position."""
    return _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]


def _legend(axes: Axes) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)


def _named(block: tuple[str, str, str, str]) -> str:
    _, graph, algorithm, limit = block
    return f"{graph} · {algorithm}" + (f", at most {limit} supersteps" if limit else "")

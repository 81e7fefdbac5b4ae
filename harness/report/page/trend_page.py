"""The page of times over commits: steps, and one chart for each problem on each machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.atomic_write import write_whole
from harness.records import Record
from harness.report.page import environment_of_templates
from harness.report.page.charts import curves
from harness.report.page.drawing import Drawing, drawing
from harness.report.page.inlined import policy_hash, script, style_sheet
from harness.report.page.strokes import plain_strokes
from harness.report.results import NothingFound
from harness.report.trends import Trend, steps, trends

TRENDS_FILE = "trends.html"


def write_trends(path: Path, records: Sequence[Record]) -> Path:
    """Write the page and return ``path``.

    Raises NothingFound if no cell has times at two commits, and OSError if the file cannot be written.
    """
    found = trends(records)
    if not found:
        raise NothingFound("no cell has times at two commits; run the same sweep at another commit, or merge results")
    engines = list(dict.fromkeys(trend.engine for trend in found))
    style, code = style_sheet(plots=True), script()
    text = environment_of_templates().get_template(TRENDS_FILE).render(
        cells=len(found), steps=steps(found), engines=engines, strokes=plain_strokes(), panels=_panels(found, engines),
        style=style, script=code, style_hash=policy_hash(style), script_hash=policy_hash(code),
    )  # fmt: skip
    write_whole(path, text)
    return path


def _panels(found: Sequence[Trend], engines: Sequence[str]) -> list[tuple[str, Drawing]]:
    """Return the title and the chart of every problem on every machine."""
    styles = {name: place for place, name in enumerate(engines)}
    groups: dict[tuple[str, str], list[Trend]] = {}
    for trend in found:
        groups.setdefault((trend.machine, trend.problem), []).append(trend)
    commits = {machine: _commits([one for one in found if one.machine == machine]) for machine, _ in groups}
    return [
        (f"{problem} · {machine}", _chart(problem, own, commits[machine], styles))
        for (machine, problem), own in groups.items()
    ]


def _commits(found: Sequence[Trend]) -> list[str]:
    """Return the commits of some trends in the order in which they were first measured."""
    started: dict[str, str] = {}
    for point in (point for trend in found for point in trend.points):
        started[point.commit] = min(point.started, started.get(point.commit, point.started))
    return sorted(started, key=lambda commit: started[commit])


def _chart(problem: str, found: Sequence[Trend], commits: Sequence[str], styles: dict[str, int]) -> Drawing:
    place = {commit: float(number) for number, commit in enumerate(commits)}
    lines = {
        trend.engine: sorted((place[one.commit], one.median, one.low, one.high) for one in trend.points)
        for trend in found
    }
    names = [commit[:7] for commit in commits]
    title = f"Median time of {problem} over commits"
    return drawing(curves(title, ("commit", "name"), ("solve", "seconds"), lines, styles, names))


__all__ = ["TRENDS_FILE", "write_trends"]

"""Draw bytes a second as bars, one group per graph, as in Min et al. 2020, figures 4 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report.figures import style
from harness.report.layout import Layout, Row
from harness.report.rates import GB, rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_rates(axes: Axes, layout: Layout, rows: Sequence[Row]) -> None:
    """Draw a bar for every column of every row, with its rate above it; nothing where there is none."""
    width = 0.8 / len(layout.columns)
    for number, name in enumerate(layout.columns):
        offset = width * (number - (len(layout.columns) - 1) / 2)
        rates = [(rate(row.cells.get(name)) or 0.0) / GB for row in rows]
        bars = axes.bar(
            [place + offset for place in range(len(rows))], rates, width, color=style(number)[0], label=name
        )
        axes.bar_label(bars, [f"{one:.3g}" if one else "" for one in rates], fontsize=6)
    axes.set(ylabel="GB/s")
    axes.set_xticks(range(len(rows)), [row.graph for row in rows], rotation=30, ha="right")

"""Draw normalised load efficiency and atomic transactions, as in the thesis, figures 7.1 and 7.2."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report.figures import style
from harness.report.memory import Pair, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICK_LETTERS = 28  # of a graph's name on a line
HATCH = {"model": "", "counters": "///"}


def draw_memory(axes: Axes, pairs: Sequence[Pair], first: str, columns: Sequence[str]) -> None:
    """Draw two bars per graph, column and source: load efficiency and atomic transactions, over the first column's.

    ``columns``: those of the figure; each has its own colours. Above the bars are the load efficiency of the first one
    and the atomic transactions of the bar's column.
    """
    graphs = list(dict.fromkeys(pair.row.graph for pair in pairs))
    kinds = list(dict.fromkeys((pair.column, pair.source) for pair in pairs))
    width = 0.8 / (2 * len(kinds))
    for number, (column, source) in enumerate(kinds):
        own = [pair for pair in pairs if (pair.column, pair.source) == (column, source)]
        bars = (
            ("load efficiency", [(p, p.efficiency, f"{100 * (p.first['load_efficiency'] or 0):.0f} %") for p in own]),
            ("atomic transactions", [(p, p.atomics, count(p.own["atomics"]["transactions"])) for p in own]),
        )
        for place, (what, values) in enumerate(bars):
            colour, _ = style(2 * columns.index(column) + place)
            offset = width * (2 * number + place - len(kinds) + 0.5)
            known = [(graphs.index(pair.row.graph) + offset, ratio, note) for pair, ratio, note in values if ratio]
            heights = [ratio for _, ratio, _ in known]
            label = f"{what}, {column} ({source})"
            axes.bar([x for x, _, _ in known], heights, width, color=colour, hatch=HATCH[source], label=label)
            for x, ratio, note in known:
                axes.annotate(note, (x, ratio), rotation=90, ha="center", va="bottom", fontsize=6)
    axes.axhline(1.0, color="0.4", linewidth=0.8)
    axes.margins(y=0.35)
    axes.set(ylabel=f"over {first}")
    names = [textwrap.fill(graph, _TICK_LETTERS) for graph in graphs]
    turned, end = (30, "right") if len(graphs) > 1 else (0, "center")
    axes.set_xticks(range(len(graphs)), names, rotation=turned, ha=end)

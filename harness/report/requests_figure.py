"""Draw the shares of requests by their bytes as stacked bars, as in Min et al. 2020, figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.report.figures import style
from harness.report.requests import Counted
from harness.report.transfers import SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_requests(axes: Axes, counted: Sequence[Counted]) -> None:
    """Draw a bar for every graph and column: the shares of its requests, upwards from the smallest ones."""
    bottoms = [0.0] * len(counted)
    for number, size in enumerate(SIZES):
        shares = [100 * one.shares[number] for one in counted]
        axes.bar(range(len(counted)), shares, bottom=bottoms, color=style(number)[0], label=f"{size} B")
        bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
    axes.set(ylabel="share of the requests in %", ylim=(0, 100))
    names = [f"{one.row.graph}, {one.column}" for one in counted]
    axes.set_xticks(range(len(counted)), names, rotation=45, ha="right")

"""``onyx-harness degrees graph=rmat,grid``: the share of the edges by the degrees of their vertices.

How far short rows fill requests over a host link depends on it (Min et al. 2020, figure 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import hydra
import numpy as np
from numpy.typing import NDArray

from harness.campaign.cell import resolve_cell
from harness.campaign.config_cache import plain
from harness.campaign.errors import CampaignError
from harness.graph.named import open_graph
from harness.plugins import load_plugins

DEGREES = tuple(range(8, 97, 8))  # the figure ends at 96
_CHUNK = 1 << 22  # vertices of which degrees are in memory at once
_HEADINGS = ("graph", "vertices", "edges", "mean", *(f"<= {degree}" for degree in DEGREES))


def degrees_text(overrides: Sequence[str]) -> str:
    """Return a table with a row for each graph: the cumulative shares of its edges by the out-degree of their vertices.

    ``overrides``: of a cell, where ``graph`` may have several values. Raises CampaignError without a graph, and what
    opening a graph raises.
    """
    graphs = [word.partition("=")[2].split(",") for word in overrides if word.startswith("graph=")]
    others = [word for word in overrides if not word.startswith("graph=")]
    if not graphs:
        raise CampaignError("degrees needs a graph, such as graph=rmat, or several: graph=rmat,grid")
    rows = [_HEADINGS, *(_row([*others, f"graph={name}"]) for name in graphs[-1])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join(["edges of vertices with at most that number of edges, in % of all edges", *lines])


def _row(overrides: Sequence[str]) -> tuple[str, ...]:
    with hydra.initialize(config_path=None, version_base="1.3"):
        settings = plain(hydra.compose("config", overrides=list(overrides)))
    registry = load_plugins(settings["plugins"]["block"])
    cell = resolve_cell(settings, registry)
    graph = open_graph(registry.graph(cell.graph), cell.graph_parameters)
    shares = shares_of_edges(graph.csr.offsets, DEGREES)
    mean = graph.num_edges / max(1, graph.num_vertices)
    counts = (f"{graph.num_vertices:,}", f"{graph.num_edges:,}", f"{mean:.1f}")
    return (cell.labels["graph"], *counts, *(f"{100 * share:.1f}" for share in shares))


def shares_of_edges(offsets: NDArray[np.int64], degrees: Sequence[int]) -> list[float]:
    """Return the shares of the edges whose vertex has at most each of some ascending degrees; 0 without edges.

    ``offsets``: int64[V + 1].
    """
    most = degrees[-1]
    edges = np.zeros(most + 2, np.int64)  # by degree; the last ones are of more
    for first in range(0, len(offsets) - 1, _CHUNK):
        found = np.diff(offsets[first : first + _CHUNK + 1])
        edges += np.bincount(np.minimum(found, most + 1), found, most + 2).astype(np.int64)
    total = max(1, int(edges.sum()))
    below = np.cumsum(edges)
    return [int(below[degree]) / total for degree in degrees]

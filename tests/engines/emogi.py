"""Shared parts of the tests of the EMOGI style: its schedules, and requests counted one lane after another."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from harness.graph import Graph

ACCESS = ("naive", "merged", "aligned", "chunk", "tiled")
OPTIONS = [
    *({"access": access} for access in ACCESS),
    *({"access": access, "frontier": "list"} for access in ACCESS if access != "tiled"),
]
LINE, SECTOR = 32, 8  # ids


def rows_of(*degrees, seed=1):
    """Return a graph whose vertices have these out-degrees."""
    rng, count = np.random.default_rng(seed), len(degrees)
    sources = np.repeat(np.arange(count), degrees)
    weights = rng.uniform(0.5, 2.0, len(sources)).astype(np.float32)
    targets = rng.integers(0, count, len(sources))
    return Graph.from_edges(
        sources, targets, num_vertices=count, weights=weights, name="rows", duplicates="keep"
    )  # fmt: skip


def requests_of(offsets, active, access, block, *, shared=True):
    """Return the requests for the rows of ``active`` vertices by their bytes, as a Counter.

    Every load of a warp is a set of edges, and every run of adjacent sectors within a line is a request. The sector in
    which a row begins is not requested again if the row before it, or the load before it, has read it; ``shared``
    false: it is. ``block``: threads of a block.
    """
    found, before = Counter(), -1
    for edges in _loads(offsets, active, access, block):
        sectors = sorted({edge // SECTOR for edge in edges})
        if shared and access != "tiled" and sectors[0] == before:
            del sectors[0]
        before = max([before, *sectors])
        for _, run in itertools.groupby(enumerate(sectors), lambda pair: (pair[1] // 4, pair[1] - pair[0])):
            found[32 * len(list(run))] += 1
    return found


def _loads(offsets, active, access, block):
    rows = {int(v): range(int(offsets[v]), int(offsets[v + 1])) for v in np.flatnonzero(active)}
    if access == "tiled":
        for first in range(0, len(active), block):
            edges = {e for v, row in rows.items() if first <= v < first + block for e in row}
            for line in sorted({e // LINE for e in edges}):
                yield [e for e in edges if e // LINE == line]
        return
    for row in (row for row in rows.values() if row):
        if access == "naive":
            for sector in sorted({e // SECTOR for e in row}):
                yield [sector * SECTOR]
        elif access == "merged":
            yield from (row[at : at + LINE] for at in range(0, len(row), LINE))
        else:
            for line in sorted({e // LINE for e in row}):
                yield [e for e in row if e // LINE == line]

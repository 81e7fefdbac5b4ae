"""More work than an emulated device has threads, so that every loop over vertices or edges repeats."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.lowering.cuda import launches
from tests.emulation.device import THREADS
from tests.engines.problems import ALGORITHMS, program
from tests.engines.test_cuda import check_every_superstep

ROWS = [
    *((schedule, "pagerank", 1) for schedule in ("pull", "push-edges", "changes-push", "gunrock", "tigr", "simdx")),
    ("tigr", "bfs", 3), ("simdx", "sssp", 3), ("changes-pull-edges", "sssp", 3), ("emogi-list", "bfs", 1),
]  # fmt: skip


def scattered(vertices):
    """Return a graph of random edges whose last vertices have no out-edges."""
    rng = np.random.default_rng(5)
    sources = rng.integers(0, vertices - 100, 4 * vertices)
    destinations = rng.integers(0, vertices, 4 * vertices)
    weights = rng.uniform(0.5, 1.0, 4 * vertices).astype(np.float32)
    return Graph.from_edges(
        sources, destinations, num_vertices=vertices, weights=weights, name="scattered", duplicates="keep"
    )


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("schedule", "name", "features"), ROWS)
def test_all_work_is_done(schedule, name, features, emulated):
    """Values of vertices, sums over the graph of chosen vertices, and the measure of movement."""
    graph = ALGORITHMS[name].prepare_graph(scattered(1300))
    threads = launches.MOST_BLOCKS * THREADS
    assert graph.num_vertices > 6 * threads
    inputs = ALGORITHMS[name].inputs(graph, features)
    check_every_superstep(schedule, program(name), graph, inputs, features, emulated, 2, repeatable=True)

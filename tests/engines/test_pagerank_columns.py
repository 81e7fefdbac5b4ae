"""PageRank by every library, column by column: teleports that converge soon and late, and vertices without edges."""

from __future__ import annotations

import numpy as np
import pytest

from engines.libraries.library_engine import MARGIN
from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.language import Inputs, trace
from tests.engines.problems import prepared
from tests.engines.test_solvers import ways

ALPHA, TOLERANCE, COUNT, CHAIN = 0.9, 1e-4, 60, 40
# NetworKit takes no teleport vector.
SOLVERS = [
    *((name, {"way": way}) for name, algorithm, way in ways() if algorithm == "pagerank" and name != "networkit"),
    ("scipy", {}),
]
COLUMNS = {  # the vertices that are teleported to
    "late then soon": ([0], [CHAIN - 1]),
    "soon then late": ([CHAIN - 1], [0]),
    "all, late, soon": (range(COUNT), [0], [CHAIN - 1]),
    "unequal": ([3, 4, 4], [50], [CHAIN]),
}


def uneven_speeds() -> Graph:
    """Return a cycle that is entered late from a chain, a sink, and vertices with parallel edges and self-loops."""
    rng = np.random.default_rng(2)
    edges = [(i, i + 1) for i in range(CHAIN - 1)]  # its last vertex is a sink
    edges += [(CHAIN + i, CHAIN + (i + 1) % 8) for i in range(8)] + [(CHAIN - 3, CHAIN), (5, 5), (5, 5), (7, CHAIN + 2)]
    edges += [tuple(pair) for pair in rng.integers(CHAIN + 8, COUNT - 3, (20, 2))]  # the last three have no edges
    source, target = np.array(edges).T
    return Graph.from_edges(source, target, num_vertices=COUNT, name="uneven speeds", duplicates="keep")


def ranks(graph, teleport):
    """Return the ranks in float64 by a dense solution; sinks distribute their rank like the teleport."""
    count, rank = graph.num_vertices, np.empty_like(teleport, np.float64)
    spread = np.zeros((count, count))
    np.add.at(spread, (graph.csr.neighbours, graph.csr.row_of_edge), 1.0)
    degrees = graph.out_degrees
    spread[:, degrees > 0] /= degrees[degrees > 0]
    for column, given in enumerate(teleport.T.astype(np.float64)):
        lost = np.outer(given, degrees == 0)
        rank[:, column] = np.linalg.solve(np.eye(count) - ALPHA * (spread + lost), (1 - ALPHA) * given)
    return rank


@pytest.mark.short_run(rows=18)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("engine", "options"), SOLVERS, ids=str)
def test_every_column_converges(engine, options, name):
    """In the L1 norm; an iteration that moved by the tolerance is off by at most alpha / (1 - alpha) times that."""
    graph, chosen = uneven_speeds(), COLUMNS[name]
    teleport = np.zeros((COUNT, len(chosen)), np.float32)
    for column, vertices in enumerate(chosen):
        np.add.at(teleport[:, column], list(vertices), np.float32(1.0 / len(vertices)))
    algorithm = PageRank(alpha=ALPHA, tolerance=TOLERANCE, supersteps=1000)
    made = prepared(engine, options, trace(algorithm), graph, len(chosen))
    for order in (slice(None), slice(None, None, -1)):
        made.reset(Inputs({"teleport": teleport[:, order]}, {}))
        assert made.run(1000).settled
        off = np.abs(made.values("rank") - ranks(graph, teleport[:, order])).sum(axis=0)
        moved = TOLERANCE * (1 if engine == "scipy" else MARGIN)
        assert (off <= moved * ALPHA / (1 - ALPHA) + 2e-6).all(), off
    made.close()

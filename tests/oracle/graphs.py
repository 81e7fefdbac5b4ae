"""Real graphs, and the algorithms that run on each of them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph, load_graph
from harness.graph.catalogue import digits, photo

Task = tuple[object, int]  # an algorithm with its parameters, and a number of features


@dataclass(frozen=True)
class Case:
    """A graph file below HARNESS_DATA, its loading options, and its tasks."""

    file: str
    tasks: tuple[Task, ...]
    options: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        path = Path(self.file)
        return path.parent.name if path.stem == "ratings" else path.name.split(".")[0]

    def graph(self) -> Graph:
        return _loaded(self.file, tuple(self.options.items()))


@functools.cache
def _loaded(file: str, options: tuple[tuple[str, object], ...]) -> Graph:
    return load_graph(Path(os.environ["HARNESS_DATA"]) / file, **dict(options))


TRAVERSALS: tuple[Task, ...] = ((BFS(), 4), (SSSP(), 4), (Components(), 1))
DRAWN = {"vertices": "drawn", "supersteps": 40}
SUM = (BeliefPropagation(**DRAWN), 4)
MAX = (BeliefPropagation(rule="max", damping=0.5, **DRAWN), 4)
TABLES = (
    (BeliefPropagation(potentials="edge", damping=0.5, supersteps=60), 2),
    (BeliefPropagation(potentials="edge", rule="max", damping=0.5, supersteps=60), 2),
)
MANIFOLD = (ManifoldRanking(), 6)
MULTIMODAL = (Multimodal(), 4)
LABELS = (LabelPropagation(), 4)
RANKS = (PageRank(), 4)
UNIFORM = (PageRank(), 1)
RATINGS = (ALS(supersteps=16), 4)
ALL_SIDES = (ALS(sides="all", supersteps=12), 4)

CASES = (
    # A social network, directed.
    Case("wiki-Vote.txt", (*TRAVERSALS, (KCore(), 1), RANKS, UNIFORM, LABELS, MANIFOLD, MULTIMODAL)),
    # Citations, directed, with self-loops.
    Case("cit-HepTh.npz", (*TRAVERSALS, (KCore(), 1), RANKS, UNIFORM, LABELS)),
    # Trust with negative weights, which paths and labels refuse; used as ratings.
    Case("bitcoin-otc.npz", ((BFS(), 4), (Components(), 1), (KCore(), 1), RANKS, ALL_SIDES)),
    # Roads with parallel edges and integer lengths.
    Case("rome99.gr", (*TRAVERSALS, (KCore(core=3), 1), RANKS, LABELS, MANIFOLD, SUM, MAX), {"duplicates": "keep"}),
    # Roads with paths of a thousand edges.
    Case("luxembourg_osm.npz", (*TRAVERSALS, (KCore(core=3), 1), RANKS, LABELS)),
    # Routers: few large hubs.
    Case("as-caida20071105.npz", (*TRAVERSALS, (KCore(), 1), RANKS, UNIFORM, LABELS, MULTIMODAL)),
    # Mail: hubs, several components.
    Case("email-Enron.npz", (*TRAVERSALS, (KCore(), 1), RANKS, LABELS, MANIFOLD)),
    # A mesh.
    Case("delaunay_n16.npz", (*TRAVERSALS, (KCore(core=3), 1), RANKS, LABELS)),
    # Images, directed, weighted, with true labels and views.
    Case("digits-knn10.npz", (*TRAVERSALS, RANKS, (LabelPropagation(), 10), MANIFOLD, MULTIMODAL, SUM, MAX)),
    # Ratings, bipartite.
    Case("ml-latest-small/ratings.csv", (RATINGS, ALL_SIDES, (Components(), 1), (KCore(), 1))),
    Case("movietweetings-100k/ratings.dat", ((ALS(weighted=False, lam=2.0, supersteps=16), 4), (KCore(core=3), 1))),
    # Citations with labels.
    Case(
        "cora.npz",
        (
            *TRAVERSALS,
            (KCore(core=3), 1),
            RANKS,
            LABELS,
            MULTIMODAL,
            MANIFOLD,
            SUM,
            MAX,
            (ALS(sides="all", ratings="drawn", supersteps=12), 4),
        ),
    ),
    # Co-authors: each edge twice, and self-loops.
    Case(
        "ca-GrQc.txt",
        (*TRAVERSALS, (KCore(core=3), 1), RANKS, LABELS, MULTIMODAL, SUM),
        {"duplicates": "keep", "symmetrize": True},
    ),
    # A web crawl.
    Case("cnr-2000.npz", ((BFS(), 4), (Components(), 1), (KCore(), 1), UNIFORM)),
    # Co-authors, large.
    Case("dblp-2010.npz", ((BFS(), 4), (Components(), 1), (KCore(), 1))),
    # Highways with lengths.
    Case("world-highways.npz", ((SSSP(), 1),)),
    # Markov networks.
    Case("uai/Segmentation_11.uai", TABLES),
    Case("uai/DBN_11.uai", TABLES),
)


def hub_and_ring() -> Graph:
    """Return a weighted graph with a hub, a ring, a separate pair, an isolated vertex, loops and parallel edges."""
    ring = np.arange(40)
    source = np.concatenate([np.zeros(300), ring, ring[::3], [345, 346], [5, 7], [1, 1]])
    destination = np.concatenate(
        [np.arange(40, 340), (ring + 1) % 40, (ring[::3] * 7 + 3) % 40, [346, 345], [5, 7], [2, 2]]
    )
    weights = 0.1 + np.random.default_rng(3).random(len(source))
    return Graph.from_edges(
        source.astype(int), destination.astype(int), num_vertices=350, weights=weights, name="hub and ring",
        duplicates="keep",
    )  # fmt: skip


def two_sides() -> Graph:
    """Return ratings of 60 users and 25 items."""
    generator = np.random.default_rng(5)
    pair = np.sort(generator.choice(60 * 25, 400, replace=False))
    ratings = generator.integers(1, 6, len(pair)).astype(np.float32)
    return Graph.from_edges(
        pair // 25, 60 + pair % 25, num_vertices=85, weights=ratings, name="two sides", bipartite=(60, 25)
    )


# Graphs without files, in every test run. The number of features differs from that of the tasks above.
SMALL = (
    (hub_and_ring, PageRank(), 3), (hub_and_ring, LabelPropagation(), 3), (hub_and_ring, SSSP(), 3),
    (two_sides, ALS(supersteps=6), 3), (hub_and_ring, BeliefPropagation(vertices="drawn", supersteps=15), 3),
)  # fmt: skip
PACKAGED = {"digits": digits, "photo": lambda: photo("coins")}

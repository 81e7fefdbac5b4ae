"""Small graphs that cover the properties of graphs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.conformance.programs import Kind
from harness.graph import Graph


def _graph(name: str, pairs: Sequence[Sequence[int]] | NDArray[Any], vertices: int, **options: Any) -> Graph:
    edges = np.asarray(pairs, np.int64).reshape(-1, 2)
    weights = np.random.default_rng(5).uniform(0.25, 1.0, len(edges)).astype(np.float32)
    return Graph.from_edges(
        edges[:, 0], edges[:, 1], num_vertices=vertices, weights=weights, name=name, duplicates="keep", **options
    )


def _both_ways(pairs: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([pairs, pairs[:, ::-1]])


@functools.cache
def edges_and_loops() -> Graph:
    """Return 24 vertices with random edges, parallel edges, self-loops, and two isolated vertices."""
    pairs = np.random.default_rng(3).integers(0, 22, (90, 2))
    return _graph("edges and loops", np.concatenate([pairs, pairs[:10], np.stack([np.arange(4)] * 2, 1)]), 24)


@functools.cache
def two_sides() -> Graph:
    """Return a bipartite graph of 9 and 14 vertices, every edge in both directions."""
    rng = np.random.default_rng(4)
    pairs = np.unique(np.stack([rng.integers(0, 9, 50), 9 + rng.integers(0, 14, 50)], 1), axis=0)
    return _graph("two sides", pairs, 23, symmetrize=True, bipartite=(9, 14))


@functools.cache
def star(leaves: int = 300) -> Graph:
    """Return a star: one vertex with an edge to and from every other."""
    pairs = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)], 1)
    return _graph("star", _both_ways(pairs), leaves + 1)


@functools.cache
def chain() -> Graph:
    """Return a path of 41 vertices, in one direction."""
    return _graph("chain", [[i, i + 1] for i in range(40)], 41)


@functools.cache
def skewed() -> Graph:
    """Return 200 vertices whose degrees differ widely."""
    rng = np.random.default_rng(6)
    return _graph("skewed", np.stack([(200 * rng.random(1500) ** 3).astype(int), rng.integers(0, 200, 1500)], 1), 200)


@functools.cache
def no_edges() -> Graph:
    """Return five vertices without edges."""
    return _graph("no edges", [], 5)


@functools.cache
def one_loop() -> Graph:
    """Return one vertex with two self-loops."""
    return _graph("one loop", [[0, 0], [0, 0]], 1)


def graphs_for(kind: Kind) -> list[Graph]:
    """Return the graphs that a program of this kind can run on."""
    if kind == "any":
        return [edges_and_loops(), two_sides(), star(), chain(), skewed(), no_edges(), one_loop()]
    return [two_sides()]

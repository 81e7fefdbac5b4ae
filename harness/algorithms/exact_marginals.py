"""Exact marginals of a pairwise Markov network by variable elimination, if the tables stay small.

Bucket elimination with a forward and a backward pass (D. Koller and N. Friedman, "Probabilistic Graphical Models",
2009, sec. 9.3 and 10.3): belief propagation approximates these marginals on networks with loops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.formats.uai import MarkovNetwork

Array = NDArray[Any]
MOST_ENTRIES = 1 << 26  # of all tables together: 512 MB
MOST_VARIABLES = 2000  # the elimination order is searched for in plain Python


def exact_marginals(network: MarkovNetwork) -> NDArray[np.float64] | None:
    """Return the marginal of every variable given the evidence, float64[V, k], zero beyond its states.

    Return None if that would take tables of more than MOST_ENTRIES entries. The marginals are all zero in a connected
    part that allows no joint state.
    """
    states = [int(c) for c in network.cardinalities]
    scopes = _scopes(network, states)
    if scopes is None:
        return None
    buckets = {scope[0]: _Bucket(scope, np.ones([states[v] for v in scope])) for scope in scopes}
    _multiply_potentials(network, states, buckets)
    for bucket in buckets.values():  # forward: the message of each bucket to the later variables in its scope
        bucket.message = _scaled(bucket.table.sum(axis=0))
        if len(bucket.scope) > 1:
            buckets[bucket.scope[1]].multiply(bucket.scope[1:], bucket.message)
    result = np.zeros(network.unary.shape)
    for v, bucket in reversed(buckets.items()):  # backward: the message of the other buckets to this one
        if len(bucket.scope) > 1:
            parent = buckets[bucket.scope[1]]
            others = tuple(axis for axis, u in enumerate(parent.scope) if u not in bucket.scope)
            marginal = parent.table.sum(axis=others)
            bucket.table *= np.divide(marginal, bucket.message, out=np.zeros_like(marginal), where=bucket.message > 0)
        bucket.table = _scaled(bucket.table)
        marginal = bucket.table.sum(axis=tuple(range(1, bucket.table.ndim)))
        result[v, : states[v]] = marginal / (marginal.sum() or 1.0)
    return result


class _Bucket:
    """A variable with the later variables that it shares factors with at its elimination, in order, and their joint
    table."""

    def __init__(self, scope: tuple[int, ...], table: Array) -> None:
        self.scope, self.table, self.message = scope, table, table

    def multiply(self, scope: tuple[int, ...], factor: Array) -> None:
        """Multiply by a factor over some of the variables, in elimination order."""
        sizes = iter(factor.shape)
        self.table *= factor.reshape([next(sizes) if v in scope else 1 for v in self.scope])


def _multiply_potentials(network: MarkovNetwork, states: list[int], buckets: dict[int, _Bucket]) -> None:
    """Multiply every potential into the bucket of its first eliminated variable."""
    observed = dict(network.evidence)
    place = {v: i for i, v in enumerate(buckets)}
    for v, bucket in buckets.items():
        unary = network.unary[v, : states[v]].astype(np.float64)
        if v in observed:
            unary = np.where(np.arange(states[v]) == observed[v], unary, 0.0)
        bucket.multiply((v,), unary)
    for u, v, table in zip(
        network.graph.csr.row_of_edge.tolist(), network.graph.csr.neighbours.tolist(), network.pairwise, strict=True
    ):
        if place[u] < place[v]:  # the reverse edge holds the same table, transposed
            buckets[u].multiply((u, v), _scaled(table[: states[u], : states[v]]))


def _scopes(network: MarkovNetwork, states: list[int]) -> list[tuple[int, ...]] | None:
    """Return the scopes of the buckets in elimination order, smallest table first; None if the tables are too large."""
    count = network.graph.num_vertices
    if count > MOST_VARIABLES:
        return None
    neighbours: dict[int, set[int]] = {v: set() for v in range(count)}
    for u, v in zip(network.graph.csr.row_of_edge.tolist(), network.graph.csr.neighbours.tolist(), strict=True):
        neighbours[u].add(v)

    def size(v: int) -> float:
        return sum(math.log(states[u]) for u in (v, *neighbours[v]))

    sizes = {v: size(v) for v in neighbours}
    met: list[tuple[int, set[int]]] = []
    entries = 0.0
    while sizes:
        v = min(sizes, key=sizes.__getitem__)
        entries += math.exp(sizes.pop(v))
        if entries > MOST_ENTRIES:
            return None
        around = neighbours.pop(v)
        met.append((v, around))
        for u in around:
            neighbours[u] = (neighbours[u] | around) - {u, v}
        sizes.update((u, size(u)) for u in around)
    place = {v: i for i, (v, _) in enumerate(met)}
    return [(v, *sorted(around, key=place.__getitem__)) for v, around in met]


def _scaled(table: Array) -> Array:
    """Scale to a largest entry of 1."""
    return np.asarray(table / (table.max(initial=0.0) or 1.0))

"""Markov networks for tests, and their marginals computed without belief propagation."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from hypothesis import strategies as st

from harness.graph import Graph
from harness.graph.generators.grid import lattice_edges


def network(unary, pairs, *, cardinalities=None, evidence=None, name="network"):
    """Return the graph of a network as a .uai file gives it; ``pairs``: ``{(u, v): table[x_u, x_v]}``, each pair
    once."""
    unary = np.asarray(unary, np.float64)
    count, k = unary.shape
    all_states, nothing = np.full(count, k), np.full(count, -1)
    both = {**pairs, **{(v, u): np.transpose(table) for (u, v), table in pairs.items()}}
    ends = np.array(list(both), np.int64).reshape(-1, 2)
    return Graph.from_edges(
        ends[:, 0], ends[:, 1], num_vertices=count, name=name, directed=False,
        vertex_data={
            "unary": unary,
            "cardinality": np.asarray(all_states if cardinalities is None else cardinalities, np.int32),
            "evidence": np.asarray(nothing if evidence is None else evidence, np.int32),
        },
        edge_data={"pairwise": np.array(list(both.values()), np.float64).reshape(-1, k, k)},
    )  # fmt: skip


def joint(graph):
    """Yield ``(states, weight)`` of every joint state that the evidence allows."""
    vertex, tables = graph.vertex_data, graph.edge_data["pairwise"]
    source, destination = graph.csr.row_of_edge, graph.csr.neighbours
    once = np.flatnonzero(source < destination)
    offered = [range(c) if e < 0 else [e] for c, e in zip(vertex["cardinality"], vertex["evidence"], strict=True)]
    for states in itertools.product(*offered):
        weight = math.prod(vertex["unary"][v, x] for v, x in enumerate(states))
        yield states, weight * math.prod(tables[e, states[source[e]], states[destination[e]]] for e in once)


def enumerated(graph, rule="sum"):
    """Return marginals or max-marginals, each scaled to sum 1, by enumerating joint states; None if all are
    impossible."""
    found = np.zeros(graph.vertex_data["unary"].shape)
    for states, weight in joint(graph):
        for v, x in enumerate(states):
            found[v, x] = found[v, x] + weight if rule == "sum" else max(found[v, x], weight)
    return found / found.sum(axis=1, keepdims=True) if found.any() else None


@st.composite
def networks(draw, trees=True, max_vertices=6):
    """Draw small networks whose variables have 1 to 3 states, with potentials of zero or near it, evidence and
    isolated vertices; forests, or with loops."""
    count = draw(st.integers(1, max_vertices))
    cardinalities = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    k = max(cardinalities)
    potential = st.sampled_from([0.0, 1e-12, 0.125, 0.5, 1.0, 3.0])

    def table(*shape):
        size = math.prod(shape)
        padded = np.zeros((k,) * len(shape))
        values = np.array(draw(st.lists(potential, min_size=size, max_size=size))).reshape(shape)
        padded[tuple(slice(n) for n in shape)] = values
        return padded

    joined = [
        (u, v) for v in range(1, count) for u in ([draw(st.integers(-1, v - 1))] if trees else range(v))
        if u >= 0 and (trees or draw(st.booleans()))
    ]  # fmt: skip
    evidence = [draw(st.integers(-1, c - 1)) if draw(st.booleans()) else -1 for c in cardinalities]
    return network(
        np.array([table(c) for c in cardinalities]).reshape(count, k),
        {(u, v): table(cardinalities[u], cardinalities[v]) for u, v in joined},
        cardinalities=cardinalities,
        evidence=evidence,
    )


def plain_propagation(graph, pairwise, unary, *, rule, damping, supersteps):
    """Compute synchronous belief propagation in a loop over edges, without kept products; ``pairwise``: a table for
    every edge. The i-th of the parallel edges u -> v is the reverse of the i-th of v -> u. The returned beliefs
    precede the last superstep's messages."""
    k = unary.shape[1]
    source, destination = graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist()
    among = {ends: [] for ends in zip(source, destination, strict=True)}
    into = {v: [] for v in range(graph.num_vertices)}
    for edge, (u, v) in enumerate(zip(source, destination, strict=True)):
        among[u, v].append(edge)
        into[v].append(edge)
    answering = {edge: back for (u, v), edges in among.items() for edge, back in zip(edges, among[v, u], strict=True)}
    message = {edge: np.full(k, 1 / k) for edge in answering}

    def product(v, besides=None):
        log = np.log(unary[v]) + sum((np.log(message[edge]) for edge in into[v] if edge != besides), np.zeros(k))
        return np.exp(log - log.max()) if np.isfinite(log.max()) else np.zeros(k)

    def normalised(x):
        return x / x.sum() if x.sum() else x

    with np.errstate(divide="ignore"):
        for _ in range(supersteps):
            belief = np.array([normalised(product(v)) for v in into])
            fresh = {}
            for edge, back in answering.items():
                weighed = product(source[edge], besides=back)[:, None] * pairwise[edge]
                said = normalised(weighed.sum(axis=0) if rule == "sum" else weighed.max(axis=0))
                fresh[edge] = (1 - damping) * said + damping * message[edge]
            message = fresh
    return belief


@functools.cache
def forest():
    """Return 60 variables of 1 to 5 states in a few trees, some observed, some isolated, with potentials of zero and
    near it."""
    rng = np.random.default_rng(4)
    cardinalities = rng.integers(1, 6, 60)
    mask = np.arange(5) < cardinalities[:, None]
    pairs = {}
    for v in range(1, 55):
        if v % 13:
            u = int(rng.integers(max(0, v - 12), v))
            table = rng.uniform(0.05, 1.0, (5, 5)) * rng.choice([0.0, 1e-20, 1.0], (5, 5), p=[0.1, 0.1, 0.8])
            table[0, 0] = 1.0
            pairs[u, v] = table * mask[u][:, None] * mask[v]
    unary = np.where(mask, rng.uniform(0.05, 1.0, (60, 5)), 0.0)
    evidence = np.where(rng.random(60) < 0.15, 0, -1)
    return network(unary, pairs, cardinalities=cardinalities, evidence=evidence)


@functools.cache
def network_hub(k=3, leaves=20_000):
    """Return a vertex of many neighbours that has one state excluded by evidence."""
    rng = np.random.default_rng(5)
    unary = rng.uniform(0.5, 1.0, (leaves + 1, k))
    unary[0] = [0.0, 0.3, 1.0]
    unary[1:] = np.concatenate([unary[1 : leaves // 2 + 1], unary[1 : leaves // 2 + 1][:, [0, 2, 1]]])
    ends = np.zeros(leaves, np.int64), np.arange(1, leaves + 1)
    return Graph.from_edges(
        *ends, num_vertices=leaves + 1, name="hub", symmetrize=True, vertex_data={"unary": unary}
    )  # fmt: skip


@functools.cache
def grid_network(k):
    u, v = lattice_edges(9, 7, diagonals=True)
    rng = np.random.default_rng(k)
    pairs = {(int(a), int(b)): rng.uniform(0.3, 1.0, (k, k)) for a, b in zip(u, v, strict=True)}
    return network(rng.uniform(0.2, 1.0, (63, k)), pairs)


@functools.cache
def picture(k):
    """Return a photograph of noise, for any number of grey levels."""
    u, v = lattice_edges(9, 7, diagonals=False)
    colour = np.random.default_rng(5).random((63, 3)).astype(np.float32)
    return Graph.from_edges(
        u, v, num_vertices=63, name="picture", symmetrize=True, vertex_data={"colour": colour},
        meta={"height": 7, "width": 9},
    )  # fmt: skip

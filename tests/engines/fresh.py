"""The matrix's graphs and inputs, drawn again in every run of the tests; ``HARNESS_SEED`` repeats the draws of one
run."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from harness.graph import Graph
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import Inputs
from tests.engines.problems import ALGORITHMS, NETWORKS, small

SEED = int(os.environ.get("HARNESS_SEED") or np.random.default_rng().integers(1 << 30))


def scattered(rng):
    """Return the counterpart of the matrix's graph with random edges, self-loops and parallel edges."""
    pairs, loops = 2 * rng.integers(0, 100, (2, 400)), np.tile(2 * np.arange(20), (2, 2))
    ends = np.concatenate([pairs, pairs[:, :60], loops], axis=1)
    return Graph.from_edges(*ends, num_vertices=200, name="scattered", duplicates="keep")


def drawn_graph(name, features, rng):
    """Return the graph of the matrix, redrawn if it is random, otherwise with other weights. Networks do not change."""
    seed = int(rng.integers(1 << 30))
    match name:
        case "grid":
            return grid(rows=12, columns=11, seed=seed)
        case "rmat":
            return rmat(scale=8, edge_factor=8, max_weight=4, seed=seed)
        case "ratings":
            return random_ratings(users=60, items=40, num_ratings=700, seed=seed)
        case _ if name in NETWORKS:
            return NETWORKS[name](features)
    graph = scattered(rng) if name == "scattered" else small(name)
    return graph.with_weights(rng.uniform(0.5, 2.0, graph.num_edges))


def drawn_problem(algorithm, graph_name, features, rng):
    """Return the graph that the program runs on, and two inputs."""
    chosen = ALGORITHMS[algorithm]
    if hasattr(chosen, "seed"):
        chosen = replace(chosen, seed=int(rng.integers(1 << 30)))
    graph = chosen.prepare_graph(drawn_graph(graph_name, features, rng))
    return graph, [drawn_inputs(chosen, graph, features, rng) for _ in range(2)]


def drawn_inputs(algorithm, graph, features, rng):
    """Return inputs of the algorithm. Potentials of vertices differ from the graph's by up to a tenth, except for a
    hub's neighbours, which balance each other and are permuted."""
    if hasattr(algorithm, "seed"):
        algorithm = replace(algorithm, seed=int(rng.integers(1 << 30)))
    inputs = algorithm.inputs(graph, features)
    if "phi" not in inputs.properties:
        return inputs
    phi = np.array(inputs.properties["phi"])
    if graph.name == "hub":
        phi[1:] = rng.permutation(phi[1:])
    else:
        phi *= rng.uniform(0.9, 1.0, phi.shape).astype(np.float32)
    return Inputs({**inputs.properties, "phi": phi}, inputs.parameters)

"""Belief propagation on every engine that says it can run it, against the float64 reference."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.contract import Device, No, Phases
from harness.graph import Graph
from harness.graph.catalogue import motorcycle
from harness.graph.generators.grid import lattice_edges
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.algorithms.networks import network
from tests.engines.problems import STRATEGIES, new_engine

SUPERSTEPS = 12


@functools.cache
def forest():
    """60 variables of 1 to 5 states in a few trees, some observed, some alone, with potentials of zero and near it."""
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
def hub(k=3, leaves=20_000):
    """A vertex of many neighbours, one of whose states evidence excludes."""
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


PROBLEMS = {
    "forest": (forest, 5, {"potentials": "edge"}),
    "forest, wider": (forest, 8, {"potentials": "edge"}),
    "grid of 1": (lambda: grid_network(1), 1, {"potentials": "edge"}),
    "grid of 2": (lambda: grid_network(2), 2, {"potentials": "edge", "damping": 0.3}),
    "grid of 33": (lambda: grid_network(33), 33, {"potentials": "edge", "damping": 0.5}),
    "hub": (hub, 3, {}),
    "pair": (lambda: motorcycle(shrink=16), 16, {"damping": 0.1}),
}


@functools.cache
def asked(problem, rule):
    """The program, graph, inputs and features of a problem with the reference's answer."""
    make, k, options = PROBLEMS[problem]
    algorithm = BeliefPropagation(rule=rule, **options)
    graph = algorithm.prepare_graph(make())
    program, inputs = trace(algorithm), algorithm.inputs(graph, k)
    reference = ReferenceRun(program, graph, k)
    reference.reset(inputs)
    steps = len(reference.run(SUPERSTEPS).supersteps)
    return program, graph, inputs, k, steps, {"belief": reference.values("belief")}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_beliefs_are_the_references(problem, rule, strategy):
    program, graph, inputs, k, steps, wanted = asked(problem, rule)
    engine, device = new_engine(*STRATEGIES[strategy]), Device(threads=2)
    answer = engine.supports(program, graph, k, device)
    if isinstance(answer, No):
        pytest.skip(f"{strategy}: {answer.reason}")
    engine.prepare(program, graph, k, device, Phases())
    try:
        engine.reset(inputs)
        engine.run(steps)
        found = compare(program, {"belief": engine.values("belief")}, wanted)
        assert found.ok, found.detail
    finally:
        engine.close()

"""Change-driven belief propagation has the messages, beliefs and number of supersteps of full propagation."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph
from harness.graph.generators.grid import lattice_edges
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.algorithms.networks import forest, grid_network, network
from tests.covering import covering
from tests.engines.changing_edges import check_every_superstep, check_that_little_is_visited, lone_evidence, posed
from tests.engines.problems import STRATEGIES as EVERY_STRATEGY
from tests.engines.problems import outputs_of, prepared
from tests.engines.test_changing_edges import STRATEGIES


@functools.cache
def great_hub(leaves=100_000, tails=600):
    """Return a hub of leaves whose potentials cancel in pairs, so that a wrong digit is visible; evidence excludes
    one of its states. Some leaves have a chain of two more vertices, whose messages arrive supersteps later."""
    rng = np.random.default_rng(5)
    half = rng.uniform(0.5, 1.0, (leaves // 2, 3))
    tail = rng.uniform(0.5, 1.0, (tails, 3))
    unary = np.concatenate([[[0.0, 0.6, 1.0]], half, half[:, [0, 2, 1]], *([tail, tail[:, [0, 2, 1]]] * 2)])
    leaf = np.arange(1, leaves + 1)
    ends = np.concatenate([leaf[:tails], leaf[:tails] + leaves // 2])
    near = leaves + 1 + np.arange(2 * tails)
    return Graph.from_edges(
        np.concatenate([np.zeros(leaves, np.int64), ends, near]), np.concatenate([leaf, near, near + 2 * tails]),
        num_vertices=len(unary), name="great hub", symmetrize=True, vertex_data={"unary": unary},
    )  # fmt: skip


@functools.cache
def near_zero():
    """Return a grid with potentials between 1e-30 and 1, of edges and of vertices."""
    u, v = lattice_edges(5, 6, diagonals=False)
    rng = np.random.default_rng(7)
    tables = 10.0 ** rng.choice([-30.0, -12.0, -3.0, 0.0], (len(u), 5, 5), p=[0.1, 0.1, 0.3, 0.5])
    unary = 10.0 ** rng.choice([-30.0, -2.0, 0.0], (30, 5))
    return network(unary, {(int(a), int(b)): table for a, b, table in zip(u, v, tables, strict=True)})


NETWORKS = {
    "forest": (forest, 5, {"potentials": "edge"}),
    "grid": (lambda: grid_network(5), 5, {"potentials": "edge", "damping": 0.5}),
    "great hub": (great_hub, 3, {"truncation": 1.0}),
    "near zero": (near_zero, 5, {"potentials": "edge", "damping": 0.25}),
}


@functools.cache
def belief_propagation(case, rule):
    """Return program, graph, inputs and features of a network."""
    make, k, options = NETWORKS[case]
    return posed(make(), k, rule=rule, **options)


# At the hub, the relative error allowed for one of 10^5 neighbours. A message is three products, their sum, and a
# division by the total: five roundings of up to 6e-8 in float32. For 10^5 messages that is sqrt(10^5) 5 6e-8 = 1e-4 in
# the logarithm. (NumPy's float32, with logarithms added up without error, has 7.8e-5 at this hub.)
ROUNDING = {"forest": 1e-5, "grid": 1e-5, "near zero": 1e-5, "great hub": 1e-4}


def by_turns():
    """Return schedules with networks under rules: each pair of two of these, and the rest for ``-m full``."""
    every = list(itertools.product(STRATEGIES, NETWORKS, ("sum", "max")))
    paired = covering(every, lambda row: itertools.combinations(row, 2), lambda row: 1 + (row[1] == "great hub"))
    for strategy, case, rule in every:
        marks = () if (strategy, case, rule) in paired else (pytest.mark.full,)
        yield pytest.param(strategy, case, rule, marks=marks)


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(("strategy", "case", "rule"), list(by_turns()))
def test_beliefs_and_messages_are_those_of_full_propagation(strategy, case, rule):
    program, graph, inputs, k = belief_propagation(case, rule)
    engine = prepared(*STRATEGIES[strategy], program, graph, k)
    check_every_superstep(engine, program, graph, inputs, k, ("belief", "msg"), ROUNDING[case], supersteps=8)


# Max-product on the grid does not settle, and runs with rounding at the hub settle at different supersteps.
SETTLING = [("forest", "sum"), ("forest", "max"), ("great hub", "sum"), ("grid", "sum")]


@pytest.mark.parametrize(
    ("strategy", "case", "rule"),
    [
        pytest.param(strategy, *pair, marks=() if (i + j) % 2 == 0 else (pytest.mark.full,))
        for i, strategy in enumerate(STRATEGIES)
        for j, pair in enumerate(SETTLING)
    ],
)
def test_settled_vertices_are_not_visited_and_the_answer_is_within_the_bound(strategy, case, rule):
    program, graph, inputs, k = belief_propagation(case, rule)
    run = ReferenceRun(program, graph, k)
    run.reset(inputs)
    full = run.run(60)
    name, options = STRATEGIES[strategy]
    engine = prepared(name, {**options, "rebuild": 64} if "rebuild" in options else options, program, graph, k)
    engine.reset(inputs)
    statistics = engine.run(60)
    found = compare(program, outputs_of(engine, program), {"belief": run.values("belief")})
    assert found.ok, found.detail
    assert full.settled
    assert statistics.settled
    assert abs(len(statistics.supersteps) - len(full.supersteps)) <= 2
    assert engine.run(5).supersteps == []
    visited = [step.edges for step in statistics.supersteps]
    assert max(visited) <= 4 * graph.num_edges
    if case == "forest":  # elsewhere everything settles at the same superstep, or waits for the hub
        assert min(visited[-3:]) < 0.75 * visited[0]
    engine.close()


@pytest.mark.parametrize("strategy", [name for name in EVERY_STRATEGY if name != "scipy"])
def test_the_belief_at_a_hub_of_a_hundred_thousand_neighbours(strategy):
    """The expected value is a sum of logarithms without error, for every engine, with and without tracking."""
    hub = great_hub(tails=0)
    algorithm = BeliefPropagation(truncation=1.0)
    graph = algorithm.prepare_graph(hub)
    inputs = algorithm.inputs(graph, 3)
    phi, psi = (inputs.properties[name].astype(np.float64) for name in ("phi", "psi"))
    with np.errstate(divide="ignore"):
        said = np.log(phi[1:] @ psi)
        log = np.log(phi[0]) + [math.fsum(column) for column in said.T]
    wanted = np.exp(log - log.max())
    wanted /= wanted.sum()
    assert wanted[0] == 0.0
    assert wanted[1:].min() > 0.05  # a wrong digit would be visible
    engine = prepared(*EVERY_STRATEGY[strategy], trace(algorithm), graph, 3)
    engine.reset(inputs)
    assert engine.run(10).settled
    assert np.abs(engine.values("belief")[0] - wanted).max() < 1e-4 * wanted.max()
    engine.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_evidence_that_activates_no_vertex_costs_nothing(strategy):
    program, graph, inputs, k = lone_evidence()
    engine = prepared(*STRATEGIES[strategy], program, graph, k)
    check_that_little_is_visited(engine, program, graph, inputs, k, supersteps=60)

"""Change tracking of edge properties: with tolerance 0 as if everything were updated, after every superstep."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.contract import Device, No
from harness.graph import Graph
from harness.graph.generators.grid import lattice_edges
from harness.language import Inputs, K, maximum, normalize, outer, total, trace, where
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.algorithms.networks import network
from tests.algorithms.test_belief_propagation_engines import forest, grid_network
from tests.engines.problems import new_engine, outputs_of, prepared
from tests.engines.programs import arcs_and_loops, inputs_for, traced, two_sides

STRATEGIES = {
    "pull": ("onyx", {}),
    "pull-unfolded": ("onyx", {"fold": False}),
    "pull-loops": ("onyx", {"feature_aware": False}),
    "push": ("onyx", {"direction": "push", "rebuild": 0}),
    "push-rebuilt": ("onyx", {"direction": "push", "rebuild": 3, "fold": False}),
    "gunrock": ("gunrock", {"rebuild": 0}),
}


def exactly(inputs):
    return Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0})


def check_every_superstep(strategy, program, graph, inputs, features, names, rounding, supersteps=10):
    """Values of ``names`` after every superstep; the edges that were visited."""
    name, options = STRATEGIES[strategy]
    engine = prepared(name, options, program, graph, features)
    run, visited = ReferenceRun(program, graph, features), []
    for _ in range(2):  # nothing of a run may be left in the next one
        engine.reset(exactly(inputs))
        run.reset(exactly(inputs))
        for superstep in range(supersteps):
            run.run(1)
            visited.append(engine.run(1).edges)
            for wanted in names:
                off = np.abs(engine.values(wanted) - run.values(wanted)).max(initial=0)
                assert off <= rounding, f"{wanted} after superstep {superstep}: {off}"
    engine.close()
    return visited


# belief propagation ---------------------------------------------------------------------------------------------------
@functools.cache
def star(k=3, leaves=3000):
    """A hub of leaves, one of whose states evidence excludes, with two more vertices beside each leaf."""
    rng = np.random.default_rng(5)
    unary = rng.uniform(0.5, 1.0, (3 * leaves + 1, k))
    unary[0] = [0.0, 0.3, 1.0]
    leaf = np.arange(1, leaves + 1)
    sources = np.concatenate([np.zeros(leaves, np.int64), leaf, leaf + leaves])
    destinations = np.concatenate([leaf, leaf + leaves, leaf + 2 * leaves])
    return Graph.from_edges(
        sources, destinations, num_vertices=len(unary), name="star", symmetrize=True, vertex_data={"unary": unary}
    )  # fmt: skip


@functools.cache
def near_zero():
    """A grid with potentials between 1e-30 and 1, of edges as of vertices."""
    u, v = lattice_edges(5, 6)
    rng = np.random.default_rng(7)
    tables = 10.0 ** rng.choice([-30.0, -12.0, -3.0, 0.0], (len(u), 4, 4), p=[0.1, 0.1, 0.3, 0.5])
    unary = 10.0 ** rng.choice([-30.0, -2.0, 0.0], (30, 4))
    return network(unary, {(int(a), int(b)): table for a, b, table in zip(u, v, tables, strict=True)})


NETWORKS = {
    "forest": (forest, 5, {"potentials": "edge"}),
    "grid": (lambda: grid_network(2), 2, {"potentials": "edge", "damping": 0.3}),
    "star": (star, 3, {}),
    "near zero": (near_zero, 4, {"potentials": "edge", "damping": 0.25}),
}


@functools.cache
def belief_propagation(case, rule):
    """Program, graph, inputs and features of a network."""
    make, k, options = NETWORKS[case]
    algorithm = BeliefPropagation(rule=rule, **options)
    graph = algorithm.prepare_graph(make())
    return trace(algorithm), graph, algorithm.inputs(graph, k), k


@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", NETWORKS)
@pytest.mark.parametrize("strategy", ["pull", "pull-unfolded", "push", "gunrock"])
def test_beliefs_and_messages_are_those_of_full_propagation(strategy, case, rule):
    program, graph, inputs, k = belief_propagation(case, rule)
    rounding = {"near zero": 2e-4, "star": 5e-5}.get(case, 1e-5)
    check_every_superstep(strategy, program, graph, inputs, k, ("belief", "msg"), rounding, supersteps=8)


@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", ["forest", "star", "grid"])
@pytest.mark.parametrize("strategy", ["pull", "push", "gunrock"])
def test_what_has_settled_is_visited_no_more_and_the_answer_is_within_the_bound(strategy, case, rule):
    program, graph, inputs, k = belief_propagation(case, rule)
    run = ReferenceRun(program, graph, k)
    run.reset(inputs)
    full = run.run(60)
    name, options = STRATEGIES[strategy]
    engine = prepared(name, {**options, "rebuild": 64}, program, graph, k)
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
    if case != "grid":  # where everything settles at the same time
        assert min(visited[-3:]) < 0.75 * visited[0]


@pytest.mark.parametrize("strategy", ["pull", "push", "gunrock"])
def test_evidence_that_wakes_nobody_costs_nothing(strategy):
    """A long chain with a potential at its head alone: messages upwards stay even, those downwards move one edge a
    superstep."""
    length, k = 400, 2
    unary = np.ones((length, k))
    unary[0] = [0.2, 0.8]
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True,
        vertex_data={"unary": unary},
    )  # fmt: skip
    algorithm = BeliefPropagation(smoothness=5.0)
    graph = algorithm.prepare_graph(chain)
    program, inputs = trace(algorithm), algorithm.inputs(graph, k)
    name, options = STRATEGIES[strategy]
    engine = prepared(name, options, program, graph, k)
    engine.reset(inputs)
    statistics = engine.run(60)
    assert [step.active for step in statistics.supersteps[3:]] == pytest.approx(
        [2] * 57, abs=1
    )  # an edge, an aggregate
    assert max(step.edges for step in statistics.supersteps[3:]) <= 30
    run = ReferenceRun(program, graph, k)
    run.reset(inputs)
    run.run(60)
    assert np.abs(engine.values("belief") - run.values("belief")).max() < 1e-4


# programs in general --------------------------------------------------------------------------------------------------
def both_ends(p, self):
    """An update that reads both ends, its own old value and its reverse's; a reduction of edges alone."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=0.25)

    @p.over_edges(updates="flow")
    def move(src, dst, edge):
        gap = 0.25 * (src.x - dst.x) + 0.25 * edge.flow - 0.125 * edge.reverse.flow
        return where(edge.weight < 0.5, 0.0, gap)

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_vertices
    def step(v):
        return {"x": where(total(v.x) > 2.5, v.x, v.x + 0.05 * v.got)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def reads_back(p, self):
    """A reduction over reverse edges and sources, then an update that reads what it made, of the destination."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return edge.weight * edge.reverse.flow * src.x + edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * normalize(v.got) + 0.25 * v.x}

    @p.over_edges(updates="flow")
    def move(dst, edge):
        return where(dst.in_degree > 4, edge.flow, normalize(dst.x + 0.5 * edge.reverse.flow))

    p.repeat(10)
    p.output("x", bound=1e-4)


def two_updates(p, self):
    """Two updates of one property around a reduction, one of them of a value of the graph; a scalar beside it."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)
    p.edge("trust", start=0.5)

    @p.over_graph(into="mean", reduce="sum")
    def mean_of(v, graph):
        return v.x / graph.num_vertices

    @p.over_edges(updates="flow")
    def first(src, edge, graph):
        return where(edge.weight < 0.6, edge.flow, edge.trust * src.x + 0.125 * graph.mean)

    @p.over_edges(updates="trust")
    def believe(src, edge):
        return 0.5 * edge.trust + 0.125 * total(normalize(edge.flow) * src.x)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return edge.trust * edge.flow * src.x

    @p.over_edges(updates="flow")
    def second(edge):
        return 0.5 * edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * normalize(v.got)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def tables(p, self):
    """Matrices on edges, updated from their source."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("table", (K, K), start=0.5)

    @p.over_edges(updates="table")
    def learn(src, edge):
        return 0.5 * edge.table + 0.25 * outer(src.x, src.x)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return src.x @ edge.table

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * normalize(v.got) + 0.25 * v.x}

    p.repeat(10)
    p.output("x", bound=1e-4)


def largest_flow(p, self):
    """A maximum over changing edges."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(updates="flow")
    def move(src, edge):
        return edge.weight * src.x

    @p.over_edges(into="best", reduce="max")
    def gather(edge):
        return edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.25 * maximum(v.best, 0.0)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def products_of_edges(p, self):
    """Products with signs and zeros over edges that come and go, and what is left without the reverse edge."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("sign", K, start=1.0)
    p.vertex("all", K, start=1.0)

    @p.over_edges(updates="sign")
    def flip(src, edge):
        rest = src.all.without(edge.reverse.sign)
        moved = 0.5 * edge.sign + 0.25 * normalize(rest) + where(edge.weight < 0.4, -0.4, 0.1) * src.x
        return where(abs(moved) < 0.05, 0.0, moved)

    @p.over_edges(into="all", reduce="prod")
    def multiply(edge):
        return edge.sign

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.25 * abs(v.all)}

    p.repeat(10)
    p.output("x", bound=1e-4)


GENERAL = {
    "both ends": (both_ends, two_sides, ("x", "flow")),
    "reads back": (reads_back, two_sides, ("x", "flow")),
    "two updates": (two_updates, arcs_and_loops, ("x", "flow", "trust")),
    "tables": (tables, arcs_and_loops, ("x", "table")),
    "largest flow": (largest_flow, arcs_and_loops, ("x", "flow")),
    "products": (products_of_edges, two_sides, ("x", "sign")),
}


@pytest.mark.parametrize("case", GENERAL)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_programs_that_update_edges(strategy, case):
    build, graph, names = GENERAL[case]
    program, k = traced(build, build.__name__), 3
    answer = new_engine(*STRATEGIES[strategy]).supports(program, graph(), k, Device(threads=2))
    if isinstance(answer, No):
        assert (case, strategy.split("-")[0]) in {("largest flow", "push"), ("largest flow", "gunrock")}
        assert "an edge's changing property 'flow'" in answer.reason
        return
    check_every_superstep(strategy, program, graph(), inputs_for(program, graph(), k, seed=2), k, names, 3e-5)


def swap(p, self):
    """Two leaves swap what they say at every superstep, so that what the hub multiplies stays the same."""
    p.vertex("leaf", dtype=bool)
    p.vertex("x0")
    p.vertex("x", start="x0")
    p.edge("said", start=3.0)

    @p.over_edges(into="all", reduce="prod")
    def multiply(edge):
        return edge.said

    @p.over_edges(updates="said")
    def say(src, edge):
        return where(src.leaf, src.x, src.all.without(edge.reverse.said))

    @p.over_vertices
    def exchange(v):
        return {"x": where(v.leaf, 6.0 - v.x, v.all)}

    p.repeat(12)
    p.output("x", bound=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_factors_that_compensate_leave_the_product_still_and_move_what_is_left_without_one(strategy):
    program = traced(swap, "swap")
    hub = Graph.from_edges([0, 0], [1, 2], num_vertices=3, name="swap", symmetrize=True)
    inputs = Inputs(
        {"leaf": np.array([False, True, True]), "x0": np.array([8.0, 2.0, 4.0], np.float32)}, {"tolerance": 0.0}
    )
    name, options = STRATEGIES[strategy]
    engine = prepared(name, options, program, hub, 1)
    engine.reset(inputs)
    run = ReferenceRun(program, hub, 1)
    run.reset(inputs)
    said = []
    for _ in range(8):
        engine.run(1)
        run.run(1)
        said.append(engine.values("said")[:2].tolist())
        np.testing.assert_allclose(engine.values("said"), run.values("said"), rtol=1e-6)
    np.testing.assert_allclose(
        said[3:], [[4, 2], [2, 4]] * 2 + [[4, 2]] if said[3][0] > 3 else [[2, 4], [4, 2]] * 2 + [[2, 4]], rtol=1e-6
    )
    np.testing.assert_allclose(engine.values("x")[0], 8.0, rtol=1e-6)

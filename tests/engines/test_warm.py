"""Warm starts of engines on a changed graph: the answer of a cold run, from few edges where changes are tracked."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.contract import Device, No, Phases, Yes
from harness.graph import Graph
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.residual import residual
from harness.language.validation import compare
from harness.language.warm import kept_properties, warm_start
from tests.algorithms.networks import grid_network
from tests.algorithms.warm import ALGORITHMS, kept, outputs, problem, program, run_reference
from tests.engines.problems import new_engine, one_number, prepared

SCHEDULES = {
    "pull": ("onyx", {"direction": "pull"}),
    "pull-sparse": ("onyx", {"direction": "pull", "dense_share": 1.0}),
    "pull-all": ("onyx", {"change_driven": False}),
    "push": ("onyx", {"direction": "push"}),
    "push-all": ("onyx", {"direction": "push", "change_driven": False}),
    "gunrock": ("gunrock", {}),
    "torch": ("torch", {}),
    "simdx": ("simdx", {"warp_degree": 3, "block_degree": 9}),
    "scipy": ("scipy", {}),
    "tigr": ("tigr", {}),
}
MORE_SCHEDULES = {"pull-unfolded": ("onyx", {"direction": "pull", "fold": False, "dense_share": 1.0})}
ALL = SCHEDULES | MORE_SCHEDULES
NO_PRODUCT = ("bfs", "sssp", "components", "belief_propagation")  # refused by scipy
KINDS = ("insert", "delete", "heavier", "lighter")
# A graph with so many edges that one changed edge is a small share.
SHARE = 1e-4


@functools.cache
def graph_of(name, features):
    if name == "als":
        return random_ratings(users=60, items=40, num_ratings=700)
    if name != "belief_propagation":
        return rmat(11, max_weight=8, seed=2)
    lattice = grid(rows=20, columns=16, removed=0.0)
    unary = np.random.default_rng(3).uniform(0.2, 1.0, (lattice.num_vertices, features))
    return Graph.from_edges(
        lattice.csr.row_of_edge, lattice.csr.neighbours, num_vertices=lattice.num_vertices, weights=lattice.weights,
        name="network", directed=False, vertex_data={"unary": unary},
    )  # fmt: skip


PROCESSOR = Device(threads=2)


def engine_on(schedule, name, posed, features, device):
    engine = new_engine(*ALL[schedule])
    assert isinstance(engine.supports(program(name), posed[0], features, device), Yes)
    engine.prepare(program(name), posed[0], features, device, Phases())
    return engine


def runs(schedule, name, kind, device=PROCESSOR):
    """Return the start with the statistics of the cold and the warm run on the changed graph; check the answer, and
    that most values were kept, unless peeling received an insertion."""
    features, most = one_number(ALL[schedule][0], name), program(name).max_supersteps
    posed = problem(name, graph_of(name, features), features, kind, SHARE, seed=1)
    old = engine_on(schedule, name, posed.old, features, device)
    old.reset(posed.old[1])
    settled = old.run(most).settled
    start = posed.start(kept(name, old), settled)
    assert start.restarted == (name == "kcore" and kind == "insert"), start.summary
    # A deleted edge may have been a bridge: vertices that received their component's label through it restart.
    least = 0.1 if (name, kind) == ("components", "delete") else 0.9
    assert start.restarted or share_kept(name, start, old) > least, start.summary
    old.close()
    new = engine_on(schedule, name, posed.new, features, device)
    new.reset(posed.new[1])
    cold = new.run(most)
    new.reset(posed.new[1], start.state)
    if start.stale is not None:
        new.narrow(start.stale, start.senders)
    warm = new.run(most)
    assert settled
    assert cold.settled
    assert warm.settled
    if ALGORITHMS[name].fixed_points() == "several":
        found = residual(program(name), posed.new[0], features, posed.new[1], kept(name, new))
    else:
        found = compare(program(name), outputs(name, new), outputs(name, run_reference(name, features, posed.new)[1]))
    assert found.ok, f"{start.summary}: {found.detail}"
    new.close()
    return start, cold, warm


def share_kept(name, start, old):
    """Return the share of values kept across supersteps that the start retained where edges did not change."""
    vertex = [prop for prop in start.state if program(name).properties[prop].place == "vertex"]
    same = [(start.state[prop] == old.values(prop)).reshape(len(start.state[prop]), -1).all(axis=1) for prop in vertex]
    return float(np.mean(same))


# Every algorithm with two kinds of change, one of the structure and one of weights, under two rotating schedules.
PAIRED = [
    (tuple(SCHEDULES)[(j + m) % len(SCHEDULES)], name, KINDS[(j + 1) % 2 + 2 * m])
    for j, name in enumerate(ALGORITHMS)
    for m in (0, 1)
]


def test_the_turns_leave_nothing_out():
    structure, weights = KINDS[:2], KINDS[2:]
    for rows in ([(name, kind) for _, name, kind in PAIRED], [(schedule, kind) for schedule, _, kind in PAIRED]):
        assert len(set(rows)) == 2 * 10
        assert {row for row, kind in rows if kind in structure} == {row for row, kind in rows if kind in weights}
    assert {schedule for schedule, _, _ in PAIRED} == set(SCHEDULES)
    assert {name for _, name, _ in PAIRED} == set(ALGORITHMS)
    assert {("kcore", "insert"), ("components", "delete")} <= {row[1:] for row in PAIRED}  # few values are kept
    assert not [case for case in PAIRED if case[0] == "scipy" and case[1] in NO_PRODUCT]
    assert {row[1:] for row in AT_LENGTH} == set(itertools.product(ALGORITHMS, KINDS))


@pytest.mark.parametrize(("schedule", "name", "kind"), PAIRED)
def test_the_answer_is_that_of_a_cold_run(schedule, name, kind):
    runs(schedule, name, kind)


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("schedule", ["push", "gunrock", "tigr"])
@pytest.mark.parametrize("name", ["sssp", "components"])
def test_a_cold_run_after_a_warm_one_begins_anew(schedule, name):
    """The values of the warm run are all below those of the cold one, so that a reduction that kept them would show."""
    posed = problem(name, rmat(7, max_weight=8, seed=2), 1, "insert", SHARE, seed=1)
    engine = engine_on(schedule, name, posed.new, 1, PROCESSOR)
    start = kept(name, engine_run(engine, posed.new[1]))
    every = np.ones(posed.new[0].num_vertices, np.bool_)
    engine.reset(posed.new[1], {prop: values - 1000.0 for prop, values in start.items()})
    engine.narrow(every, every)
    assert engine.run(1000).settled
    engine_run(engine, posed.new[1])
    found = compare(program(name), outputs(name, engine), outputs(name, run_reference(name, 1, posed.new)[1]))
    assert found.ok, found.detail
    engine.close()


def engine_run(engine, inputs):
    """Return the engine after a settled cold run."""
    engine.reset(inputs)
    assert engine.run(1000).settled
    return engine


# Every schedule with every algorithm; for each pair, two rotating kinds of change.
AT_LENGTH = [
    (schedule, name, KINDS[(i + j + m) % len(KINDS)])
    for i, schedule in enumerate(ALL)
    for j, name in enumerate(ALGORITHMS)
    for m in (0, 1)
]


@pytest.mark.full
@pytest.mark.parametrize(("schedule", "name", "kind"), AT_LENGTH)
def test_every_answer_is_that_of_a_cold_run(schedule, name, kind):
    if schedule == "scipy" and name in NO_PRODUCT:
        posed = problem(name, graph_of(name, 3), 3, kind, SHARE)
        assert isinstance(new_engine("scipy").supports(program(name), posed.old[0], 3, PROCESSOR), No)
        return
    runs(schedule, name, kind)


@pytest.mark.parametrize("schedule", ["pull", "push", pytest.param("gunrock", marks=pytest.mark.full), "torch"])
def test_changed_potentials_of_edges(schedule):
    """Belief propagation resumes from messages made with other tables and reaches the beliefs of a cold run with the
    new ones; mild potentials such as these have one fixed point."""
    algorithm, graph = BeliefPropagation(potentials="edge", damping=0.3, supersteps=1000), grid_network(5)
    traced, features = trace(algorithm), one_number("onyx", "belief_propagation_edge")
    changed, tables = np.isin(graph.csr.row_of_edge, [20, 21]), graph.edge_data["pairwise"].copy()
    changed |= changed[graph.reverse_edges]
    tables[changed] **= 1.5
    after = Graph(graph.csr, name="changed", directed=False, vertex_data=graph.vertex_data,
                  edge_data={"pairwise": tables})  # fmt: skip
    old, new = ((g, algorithm.inputs(g, features)) for g in (graph, after))
    engine = prepared(*SCHEDULES[schedule], traced, graph, features)
    engine.reset(old[1])
    assert engine.run(1000).settled
    values = {name: engine.values(name) for name in kept_properties(traced)}
    before = engine.values("belief")
    engine.close()
    start = warm_start(traced, features, old, new, values, fixed_points=algorithm.fixed_points())
    assert start.summary == "warm"
    cold = ReferenceRun(traced, after, features)
    cold.reset(new[1])
    assert cold.run(1000).settled
    engine = prepared(*SCHEDULES[schedule], traced, after, features)
    engine.reset(new[1], start.state)
    assert engine.run(1000).settled
    found = compare(traced, {"belief": engine.values("belief")}, {"belief": cold.values("belief")})
    assert found.ok, found.detail
    assert not compare(traced, {"belief": before}, {"belief": cold.values("belief")}).ok
    engine.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("schedule", "name", "kind", "share"),
    [
        ("pull", "bfs", "insert", 0.1), ("push", "sssp", "lighter", 0.1), ("gunrock", "components", "insert", 0.1),
        ("push", "bfs", "delete", 0.5), ("pull", "kcore", "delete", 0.1), ("push", "kcore", "delete", 1.0),
        ("pull", "pagerank", "insert", 0.6), ("push", "label_propagation", "heavier", 0.6),
    ],
)  # fmt: skip
def test_few_edges_are_visited(schedule, name, kind, share):
    """Relative to the edges that a cold run visits. Pushed sums are built once from all edges; exact ones in a cold
    run too."""
    start, cold, warm = runs(schedule, name, kind)
    assert not start.restarted
    assert warm.edges <= share * cold.edges, f"{start.summary}: {warm.edges} after {cold.edges}"

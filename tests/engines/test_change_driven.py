"""With tolerance 0, change-driven propagation equals full propagation after every superstep, to rounding."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from harness.contract import Device, No, Yes
from harness.graph import Graph
from harness.language import Inputs, minimum, where
from harness.language.analysis import change_driven
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.accumulators import separated
from harness.lowering.log_products import products_as_sums
from tests.covering import covering
from tests.engines import small_changes
from tests.engines.problems import (
    ALGORITHMS,
    CHANGE_DRIVEN,
    SMALL,
    exact_trace,
    exactly,
    new_engine,
    one_number,
    outputs_of,
    prepared,
    problem,
    program,
)
from tests.engines.programs import PROGRAMS, edges_and_loops, graph_for, inputs_for, program_named, traced, two_sides

GRAPHS = dict.fromkeys(ALGORITHMS, tuple(SMALL)) | {
    "als": ("ratings",),
    "als_all": ("scattered", "chain", "grid", "rmat"),
    "belief_propagation": ("picture", "network hub", "pair"),
    "belief_propagation_max": ("picture", "pair"),
    "belief_propagation_edge": ("network", "forest"),
}
STATES = {"forest": 5, "network hub": 3}  # at most the states of a variable of a network: this many features are needed
VARIANTS = ("als_all", "belief_propagation_max")  # whose edge updates are those of another algorithm
SUPERSTEPS = 12
# Relative to the largest magnitude that the vertex has had so far, or to the program's floor: float32 has 24 bits, and
# kept sums contain their earlier large values. Integers are exact. A sum of n terms has an error of about sqrt(n) half
# units in the last place per superstep (3,000 at the hub: 3e-6). A least-squares system multiplies the error of its
# right side by about 1 / lambda = 10, and by more where a single feature cannot fit.
ROUNDING = {
    "label_propagation": 5e-6, "pagerank": 2e-5, "als": 2e-5, "als_all": 1e-4, "belief_propagation": 2e-6,
    "belief_propagation_max": 5e-6, "belief_propagation_edge": 5e-6, "bfs": 0.0, "sssp": 1e-6, "components": 0.0,
    "kcore": 0.0, "manifold_ranking": 5e-6, "multimodal": 5e-6, "feature_diffusion": 5e-6, "hits": 1e-5,
}  # fmt: skip


def magnitude(value):
    """Return the largest finite magnitude of each vertex's features."""
    rows = np.abs(value.reshape(len(value), math.prod(value.shape[1:])))
    return np.where(np.isfinite(rows), rows, 0.0).max(axis=1, initial=0.0)


def furthest(value, wanted, largest):
    """Return the largest difference of a vertex relative to ``largest``; an infinity on one side only counts as
    large."""
    with np.errstate(invalid="ignore"):
        off = np.where(value == wanted, 0.0, np.abs(np.asarray(value, np.float64) - wanted))
    worst = off.reshape(len(off), math.prod(off.shape[1:])).max(axis=1, initial=0.0)
    return float((worst / np.maximum(largest, 1e-30)).max(initial=0.0))


def distances(engine_of, algorithm, graph_name, features, threads):
    """Return the distance between an engine and its reference after every superstep, by output."""
    name, options = engine_of
    graph, inputs = problem(algorithm, graph_name, features)
    engine = prepared(name, options, program(algorithm), graph, features, threads)
    engine.reset(exactly(inputs))
    floors = {result.name: result.floor for result in program(algorithm).results}
    largest = dict.fromkeys(floors, 0.0)
    for wanted in exact_trace(algorithm, graph_name, features, SUPERSTEPS):
        engine.run(1)
        off = {}
        for output, value in wanted.items():
            largest[output] = np.maximum(largest[output], magnitude(value))
            least = floors[output] * largest[output].max(initial=0.0)
            off[output] = furthest(engine.values(output), value, np.maximum(largest[output], least))
        yield off
    engine.close()


@functools.cache
def rounding_of_full(algorithm, graph_name, features):
    """Return the `distances` of float32 with full propagation."""
    return tuple(distances(("onyx", {"change_driven": False}), algorithm, graph_name, features, 1))


def check_every_superstep(strategy, algorithm, features, threads=2):
    """Check that errors stay within ``ROUNDING``. Beliefs of 32 states span so many orders of magnitude that their
    logarithms have larger rounding errors, also with full propagation: twice its distance is allowed there."""
    for graph_name in GRAPHS[algorithm]:
        if features < STATES.get(graph_name, 1):
            continue
        found = distances(CHANGE_DRIVEN[strategy], algorithm, graph_name, features, threads)
        for superstep, distance in enumerate(found):
            for output, off in distance.items():
                if off <= ROUNDING[algorithm]:
                    continue
                full = rounding_of_full(algorithm, graph_name, features)[superstep][output]
                message = f"{graph_name}, {output} after superstep {superstep}: {off}, and where all is computed {full}"
                assert algorithm.startswith("belief"), message
                assert off <= min(2 * full, program(algorithm).bound), message


def of_strategies():
    """Return (strategy, algorithm): pulls take every algorithm with the same kernels; engines that push, which compile
    the most kernels, take turns, and variants of an algorithm do not. ``-m full`` meets every pair (``AT_LENGTH``)."""
    pushes = [strategy for strategy in CHANGE_DRIVEN if not strategy.startswith("pull")]
    for number, algorithm in enumerate(ALGORITHMS):
        yield from ((strategy, algorithm) for strategy in CHANGE_DRIVEN if strategy not in pushes)
        if algorithm not in VARIANTS:
            yield pushes[number % len(pushes)], algorithm


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("strategy", "algorithm"), list(of_strategies()))
def test_equals_full_after_every_superstep(strategy, algorithm):
    check_every_superstep(strategy, algorithm, one_number(CHANGE_DRIVEN[strategy][0], algorithm))


def of_pairs(row):
    """Return all pairs of a strategy, an algorithm, a number of features and a number of threads."""
    return itertools.combinations(enumerate(row), 2)


AT_LENGTH = covering(list(itertools.product(CHANGE_DRIVEN, ALGORITHMS, (1, 3, 4, 7, 8, 32, 33), (1, 2))), of_pairs)


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "algorithm", "features", "threads"), AT_LENGTH)
def test_equals_full_after_every_superstep_at_length(strategy, algorithm, features, threads):
    check_every_superstep(strategy, algorithm, features, threads)


def test_an_infinity_on_only_one_side_is_found():
    reached = np.array([[0.0, np.inf], [2.0, np.inf]])
    assert magnitude(reached).tolist() == [0.0, 2.0]
    assert furthest(reached, reached, magnitude(reached)) == 0.0
    assert furthest(np.where(reached == 2.0, np.inf, reached), reached, magnitude(reached)) == np.inf
    assert furthest(np.where(reached == np.inf, 3e38, reached), reached, magnitude(reached)) == np.inf


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_a_change_driven_form_are_unsupported_in_push(name):
    """The reason is that of the program's analysis; pulls recompute the destinations of changes, which needs no
    form."""
    program_, graph = program_named(name), graph_for(name)
    form = change_driven(separated(products_as_sums(program_)))
    for strategy, (engine, options) in CHANGE_DRIVEN.items():
        answer = new_engine(engine, options).supports(program_, graph, 3, Device(threads=2))
        if strategy in ("push", "gunrock") and isinstance(form, str):
            assert isinstance(answer, No)
            assert answer.reason == form
        else:
            assert isinstance(answer, Yes), answer


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_a_change_driven_form(algorithm):
    assert not isinstance(change_driven(program(algorithm)), str)


def settling(strategy, algorithm, graph_name, features):
    """Return an engine that has run until it settled, its statistics, and its reference's answer."""
    graph, inputs = problem(algorithm, graph_name, features)
    name, options = CHANGE_DRIVEN[strategy]
    engine = prepared(name, options, program(algorithm), graph, features)
    engine.reset(inputs)
    statistics = engine.run(program(algorithm).max_supersteps)
    run = ReferenceRun(program(algorithm), graph, features)
    run.reset(inputs)
    run.run(program(algorithm).max_supersteps)
    return engine, statistics, {name: run.values(name) for name in program(algorithm).outputs}


# The largest allowed share of edges in the quietest superstep of a run's later half. A pull becomes sparse only below
# its threshold, so its share falls less than the others.
QUIETEST = {"push": 0.25, "gunrock": 0.25, "pull-sparse": 0.25, "pull": 0.5}


@pytest.mark.parametrize(
    ("graph_name", "features"),
    [("grid", 1), ("rmat", 1), ("chain", 1), pytest.param("chain", 4, marks=pytest.mark.full)],
)
@pytest.mark.parametrize("strategy", CHANGE_DRIVEN)
def test_edges_visited_fall_and_the_answer_stays(strategy, graph_name, features):
    engine, statistics, wanted = settling(strategy, "label_propagation", graph_name, features)
    found = compare(program("label_propagation"), outputs_of(engine, program("label_propagation")), wanted)
    assert found.ok, found.detail
    graph, _ = problem("label_propagation", graph_name, features)
    visited = [step.edges for step in statistics.supersteps]
    full = graph.num_edges
    # this pull is sparse below half of the edges, and then visits all in-edges of destinations: counts are exact
    assert max(visited) <= {"pull-sparse": 2.0, "pull": 1.3}.get(strategy, 1.0) * full
    falling = [step.edges for step in statistics.supersteps if step.active > 0]
    assert min(falling[len(falling) // 2 :]) < QUIETEST[strategy] * full
    if strategy in ("push", "gunrock"):
        assert sum(visited) < 0.9 * full * len(visited)
    active = [step.active for step in statistics.supersteps]
    assert active[0] == graph.num_vertices
    assert all(0 <= count <= graph.num_vertices for count in active)


@pytest.mark.parametrize("strategy", CHANGE_DRIVEN)
def test_active_sources_and_visited_edges_are_counted(strategy):
    """Along a chain one source moves per superstep, through one edge."""
    program_, graph = program_named("shortest_paths"), problem("pagerank", "chain", 1)[0]
    name, options = CHANGE_DRIVEN[strategy]
    engine = prepared(name, options, program_, graph, 1)
    first = np.full((graph.num_vertices, 1), np.inf, np.float32)
    first[0] = 0.0
    engine.reset(Inputs({"first": first}, dict(program_.parameters)))
    statistics = engine.run(60)
    assert statistics.settled
    steps = statistics.supersteps
    every = strategy not in ("push", "gunrock")  # pushes begin with the vertices that send anything
    assert steps[0].active == (graph.num_vertices if every else 1)
    assert steps[0].edges == (graph.num_edges if every else 1)
    moving = [step for step in steps[1:] if step.active]
    assert len(moving) == graph.num_edges - (0 if len(moving) == graph.num_edges else 1)
    assert {step.active for step in moving} == {1}
    # Push visits the source's edge. Pull tests it and visits the only in-edge of its destination; if sums are not kept,
    # pull also visits the in-edge of the source, whose own value moved.
    assert {step.edges for step in moving[:-1]} <= ({1} if strategy in ("push", "gunrock") else {2, 3})
    weights = np.concatenate([[0.0], np.cumsum(graph.weights.astype(np.float64))])
    assert np.allclose(engine.values("distance")[:, 0], weights, rtol=1e-5)


def reached(p, self):
    """Count steps from vertices, and neighbours that have been reached; one traversal reduces both."""
    p.vertex("first")
    p.vertex("level", start="first")
    p.vertex("seen", start=0.0)

    @p.over_edges(into="low", reduce="min")
    def low(src):
        return src.level + 1.0

    @p.over_edges(into="near", reduce="sum")
    def near(src):
        return where(src.level < 1e30, 1.0, 0.0)

    @p.over_vertices
    def step(v):
        return {"level": minimum(v.level, v.low), "seen": v.near}

    p.repeat(8)
    p.output("level", bound=1e-6)
    p.output("seen", bound=1e-6)


# A vertex moves through one edge, which a push visits for either reduction; a pull tests it first.
@pytest.mark.parametrize(
    ("options", "visited"),
    [
        ({"direction": "push"}, 2),
        ({"direction": "push", "change_driven": False}, 2 * 39),
        ({"direction": "adaptive", "dense_share": 0.5}, 2),
        ({"direction": "adaptive", "dense_share": 0.02}, 2 * 39),  # one edge is the limit, from which on it pulls
        ({"direction": "pull", "dense_share": 0.5}, 1 + 2),
    ],
    ids=str,
)
def test_edges_are_counted_once_for_each_reduction(options, visited):
    length, program_ = 40, traced(reached, "reached")
    chain = Graph.from_edges(np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain")
    engine = prepared("onyx", options, program_, chain, 1)
    engine.reset(Inputs({"first": np.where(np.arange(length) == 0, 0.0, np.inf).astype(np.float32)}, {}))
    edges = [step.edges for step in engine.run(8).supersteps]
    assert edges[0] == 2 * chain.num_edges
    assert edges[2:] == [visited] * 6
    assert engine.values("level")[:9].tolist() == list(range(9))
    assert engine.values("seen").sum() == 8
    engine.close()


KINDS = ["aggregate_rewritten", "destination_alone", "whole_graph", "sides"]
MORE_KINDS = ["two_writers", "reads_destination", "message_reads_graph", "chained_reductions"]


@pytest.mark.parametrize("name", [*KINDS, *(pytest.param(name, marks=pytest.mark.full) for name in MORE_KINDS)])
@pytest.mark.parametrize("dense_share", [0.0, 0.3, 1.0])
def test_pull_changes_of_every_kind(name, dense_share):
    """Ten supersteps, so that dense and sparse ones follow each other."""
    program_, graph = program_named(name), two_sides() if name == "sides" else edges_and_loops()
    inputs = inputs_for(program_, graph, 4, seed=1)
    run = ReferenceRun(program_, graph, 4)
    run.reset(inputs)
    engine = prepared("onyx", {"dense_share": dense_share}, program_, graph, 4)
    engine.reset(inputs)
    for superstep in range(10):
        run.run(1)
        engine.run(1)
        wanted = {output: run.values(output) for output in program_.outputs}
        found = compare(program_, outputs_of(engine, program_), wanted)
        assert found.ok, f"after superstep {superstep}: {found.detail}"


@pytest.mark.parametrize("strategy", ["pull-sparse", "push"])
def test_many_small_movements_are_propagated(strategy):
    """Movement is relative to the last value sent, so many small steps add up."""
    program_, vertices = small_changes.creeping_program(), np.arange(200)
    graph = Graph.from_edges(vertices, np.roll(vertices, -1), name="ring")
    engine = prepared(*CHANGE_DRIVEN[strategy], program_, graph, 1)
    pace = np.full(len(vertices), 0.75 * small_changes.UNSENT, np.float32)
    pace[0] = 9 * small_changes.UNSENT  # beyond the tolerance: the run continues
    engine.reset(Inputs({"pace": pace}, dict(program_.parameters)))
    lags = []
    for superstep in range(12):
        engine.run(1)
        lags.append(superstep * pace - np.roll(engine.values("y"), -1))
    assert np.max(lags) == 0.75 * small_changes.UNSENT  # twice the value is sent
    assert np.min(lags) == 0.0
    engine.close()


def back_to_zero(p, self):
    """Set every value to zero after one superstep; none was zero when first propagated."""
    p.vertex("x0")
    p.vertex("x", start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": where(v.x > 0.5, 0.0, 0.25 * v.aggr)}

    p.repeat(4)
    p.output("x", bound=1e-6)


@pytest.mark.parametrize("strategy", CHANGE_DRIVEN)
def test_values_sent_in_an_earlier_run_are_dropped(strategy):
    """From the first superstep on, changes are relative to this run's values, not to zeros or an earlier run's."""
    program_, graph = traced(back_to_zero, "back_to_zero"), edges_and_loops()
    name, options = CHANGE_DRIVEN[strategy]
    engine = prepared(name, options, program_, graph, 1)
    for start in (np.ones(24, np.float32), np.arange(24, dtype=np.float32) / 32, np.ones(24, np.float32)):
        inputs = Inputs({"x0": start}, dict(program_.parameters))
        run = ReferenceRun(program_, graph, 1)
        run.reset(inputs)
        engine.reset(inputs)
        for superstep in range(4):
            run.run(1)
            engine.run(1)
            found = compare(program_, {"x": engine.values("x")}, {"x": run.values("x")})
            assert found.ok, f"after superstep {superstep}: {found.detail}"


def step_before(p, self):
    """Move the sources in the superstep itself, before the edges are visited."""
    p.vertex("x0")
    p.vertex("x", start="x0")
    p.vertex("y", start=0.0)

    @p.over_vertices
    def shrink(v):
        return {"x": where(v.x > 1.0, v.x - 1.0, v.x)}

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def keep(v):
        return {"y": v.aggr}

    p.repeat(8)
    p.output("y", bound=1e-6)


@pytest.mark.parametrize("strategy", ["push", "gunrock"])
def test_visited_edges_are_those_of_sources_active_when_they_are_visited(strategy):
    program_, graph = traced(step_before, "step_before"), edges_and_loops()
    name, options = CHANGE_DRIVEN[strategy]
    engine = prepared(name, options, program_, graph, 1)
    start = np.arange(24, dtype=np.float32) / 4
    engine.reset(Inputs({"x0": start}, dict(program_.parameters)))
    visited, x = [], start
    for superstep in range(6):
        moves = x > 1.0
        x = np.where(moves, x - 1.0, x)
        expected = graph.num_edges if superstep == 0 else int(graph.out_degrees[moves].sum())
        visited.append((engine.run(1).edges, expected))
    assert [met for met, _ in visited] == [wanted for _, wanted in visited]

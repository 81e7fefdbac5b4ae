"""Change tracking of edge properties: with tolerance 0, equal to updating everything, after every superstep."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Device, No
from harness.graph import Graph
from harness.language import Inputs, where
from harness.language.reference import ReferenceRun
from tests.engines.changing_edges import check_every_superstep, check_readers_of_reverse_edges, lone_speakers
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import new_engine, prepared
from tests.engines.programs import inputs_for, traced

STRATEGIES = {
    "pull": ("onyx", {"direction": "pull"}),
    "push": ("onyx", {"direction": "push", "rebuild": 0}),
    "gunrock": ("gunrock", {"rebuild": 0}),
}
MORE_STRATEGIES = {
    "pull-unfolded": ("onyx", {"fold": False, "change_driven": True}),
    "pull-loops": ("onyx", {"feature_aware": False, "change_driven": True}),
    "push-loops-rebuilt": ("onyx", {"direction": "push", "rebuild": 3, "fold": False, "feature_aware": False}),
}

# Their sums fall by a factor of four in every superstep. A sum that is never rebuilt keeps the rounding error of its
# first, larger values, so these run with the schedule's own rule for rebuilding.
SHRINKING = ("two updates",)


def check_program(schedule, case):
    build, graph, names = EDGE_PROGRAMS[case]
    if case in SHRINKING:
        schedule = schedule[0], {name: value for name, value in schedule[1].items() if name != "rebuild"}
    program, k = traced(build, build.__name__), 3
    answer = new_engine(*schedule).supports(program, graph(), k, Device(threads=2))
    pushes = schedule[0] == "gunrock" or schedule[1].get("direction") == "push"
    assert isinstance(answer, No) == (case == "largest flow" and pushes)
    if isinstance(answer, No):
        assert "an edge's changing property 'flow'" in answer.reason
        return
    inputs, engine = inputs_for(program, graph(), k, seed=2), prepared(*schedule, program, graph(), k)
    check_every_superstep(engine, program, graph(), inputs, k, names, 3e-5, supersteps=10)


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(
    ("strategy", "case"),
    [
        pytest.param(strategy, case, marks=() if (i + j) % len(STRATEGIES) == 0 else (pytest.mark.full,))
        for i, strategy in enumerate(STRATEGIES)
        for j, case in enumerate(EDGE_PROGRAMS)
    ],
)
def test_programs_that_update_edges(strategy, case):
    check_program(STRATEGIES[strategy], case)


def infection(p, self):
    """Make a vertex ill if an edge into it comes from an ill one."""
    p.vertex("first")
    p.vertex("ill", start="first")
    p.edge("said", start=0.0)

    @p.over_edges(updates="said")
    def say(src):
        return src.ill

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.said

    @p.over_vertices
    def step(v):
        return {"ill": where(v.got > 0.5, 1.0, v.ill)}

    p.repeat(8)
    p.output("ill", bound=1e-6)


# On a chain, two vertices fall ill in each superstep. Their 4 edges are updated. A pull then reads both edges of the 4
# vertices that these lead to, and a push sends the 4 edges.
@pytest.mark.parametrize(("strategy", "visited"), [("pull", 4 + 8), ("push", 4 + 4), ("gunrock", 4 + 4)])
def test_edges_of_the_vertices_that_moved_are_visited_after_a_superstep_over_all(strategy, visited):
    length, program = 100, traced(infection, "infection")
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True
    )
    first = (np.arange(length) == length // 2).astype(np.float32)
    engine = prepared(*STRATEGIES[strategy], program, chain, 1)
    for _ in range(2):
        engine.reset(Inputs({"first": first}, {}))
        edges = [superstep.edges for superstep in engine.run(8).supersteps]
        assert edges[0] == 2 * chain.num_edges
        assert edges[2:] == [visited] * 6
    assert engine.values("ill").sum() == 17
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("case", EDGE_PROGRAMS)
@pytest.mark.parametrize("strategy", MORE_STRATEGIES)
def test_programs_that_update_edges_under_more_schedules(strategy, case):
    check_program(MORE_STRATEGIES[strategy], case)


def swap(p, self):
    """Swap the messages of two leaves at every superstep, so that the hub's product does not change."""
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


@pytest.mark.parametrize(
    "strategy", ["push", *(pytest.param(name, marks=pytest.mark.full) for name in ("pull", "gunrock"))]
)
def test_compensating_factors_keep_the_product_and_move_it_without_one(strategy):
    program = traced(swap, "swap")
    hub = Graph.from_edges([0, 0], [1, 2], num_vertices=3, name="swap", symmetrize=True)
    inputs = Inputs(
        {"leaf": np.array([False, True, True]), "x0": np.array([8.0, 2.0, 4.0], np.float32)}, {"tolerance": 0.0}
    )
    engine = prepared(*STRATEGIES[strategy], program, hub, 1)
    engine.reset(inputs)
    run = ReferenceRun(program, hub, 1)
    run.reset(inputs)
    said = []
    for _ in range(8):
        engine.run(1)
        run.run(1)
        said.append(run.values("said")[:2].tolist())
        np.testing.assert_allclose(engine.values("said"), run.values("said"), rtol=1e-6)
        np.testing.assert_allclose(engine.values("x"), run.values("x"), rtol=1e-6)
    assert said[-1] != said[-2]
    np.testing.assert_allclose(np.prod(said[-2:], axis=1), 8.0, rtol=1e-12)
    engine.close()


def falls_at_once(p, self):
    """Set vertices to zero in the first superstep, after their messages were computed from the initial state."""
    p.vertex("x0")
    p.vertex("x", start="x0")
    p.edge("said", start=3.0)

    @p.over_edges(updates="said")
    def say(src):
        return src.x + 1.0

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.said

    @p.over_vertices
    def step(v):
        return {"x": where(v.x > 0.5, 0.0, 0.0 * v.got)}

    p.repeat(4)
    p.output("x", bound=1e-6)


@pytest.mark.parametrize("strategy", ["pull", "push", pytest.param("gunrock", marks=pytest.mark.full)])
def test_later_values_are_compared_with_the_first_value_an_update_read(strategy):
    program = traced(falls_at_once, "falls_at_once")
    star = Graph.from_edges([0, 0], [1, 2], num_vertices=3, name="star", symmetrize=True)
    inputs = Inputs({"x0": np.array([1.0, 2.0, 3.0], np.float32)}, {})
    engine = prepared(*STRATEGIES[strategy], program, star, 1)
    check_every_superstep(engine, program, star, inputs, 1, ("x", "said"), 0.0, supersteps=4)


def follows_its_destination(p, self):
    """Move some vertices; the messages of edges into them come from vertices that stay."""
    p.vertex("moves", dtype=bool)
    p.vertex("x0")
    p.vertex("x", start="x0")
    p.edge("said", start=3.0)

    @p.over_edges(updates="said")
    def say(dst):
        return dst.x + 1.0

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.said

    @p.over_vertices
    def step(v):
        return {"x": where(v.moves, 0.5 * v.x + 1.0 + 0.0 * v.got, v.x)}

    p.repeat(4)
    p.output("x", bound=1e-6)


@pytest.mark.parametrize(
    "strategy", ["pull", *(pytest.param(one, marks=pytest.mark.full) for one in ("push", "gunrock"))]
)
def test_a_message_follows_its_destination_where_its_source_stays(strategy):
    program = traced(follows_its_destination, "follows_its_destination")
    path = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], num_vertices=5, name="path")
    inputs = Inputs({"moves": np.array([False, True, False, False, True]), "x0": np.arange(5, dtype=np.float32)}, {})
    engine = prepared(*STRATEGIES[strategy], program, path, 1)
    check_every_superstep(engine, program, path, inputs, 1, ("x", "said"), 1e-6, supersteps=4)


@pytest.mark.short_run(rows=1, always="gunrock")
@pytest.mark.parametrize("strategy", ["push", "gunrock"])
def test_edges_are_visited_for_what_moved_and_no_more(strategy):
    """Three vertices of a chain move. Five edges lead into them from five sources, which have ten edges."""
    program, graph, inputs = lone_speakers(1, length=60)
    engine = prepared(*STRATEGIES[strategy], program, graph, 1)
    engine.reset(inputs)
    said, heard, echo = 10 + 5, 5, 5  # of the sources and of the vertices that move; those edges' reverse edges
    steps = engine.run(6).supersteps
    assert [step.edges for step in steps] == [3 * graph.num_edges] + [said + heard + echo] * 5
    assert [step.active for step in steps] == [60, 3 + 5 + graph.num_edges] + [3 + 5 + 5] * 4
    engine.close()


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_readers_of_a_reverse_edge_follow_it_where_its_source_stays(strategy):
    program, graph, inputs = lone_speakers(1)
    engine = prepared(*STRATEGIES[strategy], program, graph, 1)
    check_readers_of_reverse_edges(engine, program, graph, inputs, 1)

"""Onyx's ``direction=adaptive`` on the CPU: pushes while little moves, pulls while much does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.cpu_adaptive import AdaptiveScatter
from engines.onyx.cpu_push import ChangeScatter
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device, No, Yes
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Inputs, absolute, where
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.emulation.test_adaptive import network
from tests.engines.problems import ALGORITHMS, new_engine, prepared, program
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named, traced
from tests.engines.test_change_driven import GRAPHS, ROUNDING, distances

SHARES = (0.0, 0.05, 0.3, 0.8, 1.0)
NAMES = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits")
TODAY = (("kcore", 1, 0.3),)
ROWS = [
    (name, features, share)
    for name in NAMES
    for features in ((1,) if name in ("components", "kcore") else (1, 3, 8, 40))
    for share in SHARES
]


def engine_of(program, graph, features, share, threads=2, **options):
    return prepared(
        "onyx", {"direction": "adaptive", "dense_share": share, **options}, program, graph, features, threads
    )


@pytest.mark.parametrize(
    ("name", "features", "share"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in ROWS],
)
def test_answers_of_whole_runs(name, features, share):
    algorithm, program, graph = network(name)
    inputs = algorithm.inputs(graph, features)
    engine, run = engine_of(program, graph, features, share), ReferenceRun(program, graph, features)
    for _ in range(2):
        for one in (engine, run):
            one.reset(inputs)
            statistics = one.run(program.max_supersteps)
        wanted = {result: run.values(result) for result in program.outputs}
        found = compare(program, {result: engine.values(result) for result in program.outputs}, wanted)
        assert found.ok, found.detail
    engine.reset(inputs)
    statistics = engine.run(program.max_supersteps)
    for step in statistics.supersteps:
        assert step.choice is not None
        edges = int(share * graph.num_edges)
        pulls = step.choice.reason in ("start", "rebuild", "confirm") or step.choice.edges >= max(1, edges)
        assert step.direction == ("pull" if pulls and share < 1 else "push")
        assert (step.choice.share, step.choice.by, step.choice.push_s) == (share, "given", None)
    assert (statistics.supersteps[0].choice.reason == "start") == (name not in ("bfs", "sssp"))
    engine.close()


@pytest.mark.parametrize("share", [0.3, pytest.param(0.0, marks=pytest.mark.full), 1.0])
def test_supersteps_pull_from_the_share_of_the_edges_that_is_given(share):
    """A superstep pushes the edges of the sources that moved before it, or pulls all edges."""
    algorithm, program, graph = network("bfs")
    engine, run = engine_of(program, graph, 1, share), ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(algorithm.inputs(graph, 1))
    levels, degrees, (output,) = [], graph.out_degrees, program.outputs
    for _ in range(5):
        before = run.values(output)[:, 0].copy()
        run.run(1)
        levels.append(int(degrees[run.values(output)[:, 0] != before].sum()))
    steps = engine.run(5).supersteps
    assert len(steps) > 3
    for moved, step in zip(levels, steps[1:], strict=False):
        pulls = share < 1 and moved >= max(1, int(share * graph.num_edges))
        assert (step.direction, step.edges) == (("pull", graph.num_edges) if pulls else ("push", moved))
        assert (step.choice.reason, step.choice.edges) == ("many" if pulls else "few", moved)
    assert engine.resolved_options()["dense_share"] == share


@pytest.mark.parametrize(
    ("algorithm", "features"),
    [
        ("kcore", 1),
        *(
            pytest.param(name, features, marks=pytest.mark.full)
            for name in ("bfs", "sssp", "components", "pagerank", "label_propagation", "manifold_ranking", "hits")
            for features in ((1,) if name == "components" else (1, 4, 33))
        ),
    ],
)
def test_equals_full_after_every_superstep(algorithm, features):
    """Kept accumulators that are rebuilt by no more than pulls have the values of full propagation."""
    for name in GRAPHS[algorithm]:
        options = {"direction": "adaptive", "dense_share": 0.2, "rebuild": 0}
        for number, distance in enumerate(distances(("onyx", options), algorithm, name, features, 2)):
            for output, off in distance.items():
                assert off <= ROUNDING[algorithm], f"{name}, {output} after superstep {number}"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_with_a_form_that_pushes_changes(name):
    """Every program that a push of changes runs is run, or refused because edges change."""
    chosen, graph, device = program_named(name), graph_for(name), Device(threads=2)
    pushed = new_engine("onyx", {"direction": "push", "change_driven": True}).supports(chosen, graph, 3, device)
    options = {"direction": "adaptive", "dense_share": 0.3}
    answer = new_engine("onyx", options).supports(chosen, graph, 3, device)
    if isinstance(answer, No):
        assert isinstance(pushed, No) or "edges that change" in answer.reason
        return
    assert isinstance(pushed, Yes)
    engine, run = prepared("onyx", options, chosen, graph, 3, 2), ReferenceRun(chosen, graph, 3)
    inputs = inputs_for(chosen, graph, 3, 1)
    for one in (engine, run):
        one.reset(inputs)
    for _ in range(4):
        engine.run(1)
        run.run(1)
        found = compare(
            chosen, {output: engine.values(output) for output in chosen.outputs},
            {output: run.values(output) for output in chosen.outputs},
        )  # fmt: skip
        assert found.ok, found.detail
    engine.close()


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param(name, share, marks=() if (name, share) == ("components", 0.3) else (pytest.mark.full,))
        for name in ("sssp", "components")
        for share in (0.0, 0.3)
    ],
)
def test_a_warm_run_sends_from_a_few_vertices_or_pulls(name, share):
    algorithm, program, graph = network(name)
    inputs = algorithm.inputs(graph, 1)
    engine = engine_of(program, graph, 1, share)
    engine.reset(inputs)
    engine.run(program.max_supersteps)
    (output,) = program.outputs
    settled = engine.values(output).copy()
    engine.reset(inputs, {output: settled})
    few = np.zeros(graph.num_vertices, np.bool_)
    few[:3] = True
    engine.narrow(few, few)
    found = engine.run(program.max_supersteps)
    assert found.settled
    sent = int(graph.out_degrees[:3].sum())
    first = found.supersteps[0]
    many = sent >= max(1, int(share * graph.num_edges))
    assert (first.choice.reason, first.choice.edges) == ("many" if many else "few", sent)
    assert first.edges == (graph.num_edges if many else sent)
    np.testing.assert_array_equal(engine.values(output), settled)


@pytest.mark.parametrize(
    ("name", "features", "options", "direction"),
    [
        ("bfs", 1, {}, "push"), ("sssp", 4, {}, "adaptive"), ("components", 1, {}, "adaptive"),
        ("kcore", 1, {}, "adaptive"), ("pagerank", 8, {}, "pull"), ("sssp", 4, {"dense_share": 0.5}, "push"),
        ("kcore", 1, {"edges": "mapped"}, "pull"), ("components", 1, {"change_driven": False}, "pull"),
    ],
)  # fmt: skip
def test_the_default_direction_of_a_graph_of_many_edges(name, features, options, direction):
    from engines.onyx.resolve import resolve
    from harness.api import DeviceFacts, GraphFacts
    from harness.lowering.setting import LoweredProgram

    graph, lowered = GraphFacts(1 << 16, 1 << 20, 99), LoweredProgram.of(program(name)).program
    found = resolve(OnyxSchedule(**options), lowered, features, graph, DeviceFacts("cpu"))
    assert found.direction == direction
    assert found.share_by == ("fitted" if direction == "adaptive" else None)


def test_a_superstep_of_several_groups_tells_the_choice_with_the_most_edges(monkeypatch):
    monkeypatch.setattr(ChangeScatter, "changes", lambda self: None)
    run, told = SimpleNamespace(edges=0, choice=None), []
    for edges in (5, 9, 9, 3):
        one = AdaptiveScatter.__new__(AdaptiveScatter)
        one.run, one.sent, one.reason = run, edges, f"of {len(told)}"
        one.choice = SimpleNamespace(made=lambda edges, reason: SimpleNamespace(edges=edges, reason=reason))
        one.changes()
        told.append((run.choice.edges, run.choice.reason))
    assert told == [(5, "of 0"), (9, "of 1"), (9, "of 1"), (9, "of 1")]


@pytest.mark.parametrize(("share", "pulls"), [(1 / 8, True), (2 / 8, False), (0.99 / 8, True), (1.99 / 8, True)])
def test_a_superstep_pulls_from_exactly_the_share_of_the_edges(share, pulls):
    """One vertex of a ring is reached in each superstep, which has one of eight edges."""
    at = np.arange(8)
    ring, algorithm = Graph.from_edges(at, (at + 1) % 8, num_vertices=8, name="ring"), ALGORITHMS["bfs"]
    engine = engine_of(program("bfs"), ring, 1, share)
    engine.reset(algorithm.inputs(ring, 1))
    steps = engine.run(7).supersteps[1:]
    assert [(one.direction, one.edges, one.choice.reason, one.choice.edges) for one in steps] == 6 * [
        ("pull", 8, "many", 1) if pulls else ("push", 1, "few", 1)
    ]
    engine.close()


def fans(reverse=False):
    """Return a directed path whose every third vertex has edges to, or from, 1 to 13 leaves."""
    path, sources, ends = np.arange(30), list(range(29)), list(range(1, 30))
    for number, v in enumerate(path[::3]):
        leaves = np.arange(len(path) + 20 * number, len(path) + 20 * number + 1 + 3 * (number % 5))
        sources += leaves.tolist() if reverse else [v] * len(leaves)
        ends += [v] * len(leaves) if reverse else leaves.tolist()
    return Graph.from_edges(sources, ends, num_vertices=30 + 200, weights=np.ones(len(ends)), name="fans")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["bfs", "sssp"])
def test_a_superstep_pulls_from_the_share_wherever_out_degrees_differ_from_in_degrees(name, reverse):
    """The edges of the sources that moved are never more than the sources times the largest out-degree."""
    graph = fans(reverse)
    assert (graph.out_degrees.max() > 3 * graph.in_degrees.max()) == (not reverse)
    algorithm = type(ALGORITHMS[name])(sources="0")
    inputs, (output,) = algorithm.inputs(graph, 1), program(name).outputs
    for least in range(2, 15, 3):
        engine = engine_of(program(name), graph, 1, (least + 0.5) / graph.num_edges)
        run = ReferenceRun(program(name), graph, 1)
        for one in (engine, run):
            one.reset(inputs)
        before, sent = run.values(output).copy(), 0
        for superstep in range(30):
            run.run(1)
            (step,) = engine.run(1).supersteps
            np.testing.assert_array_equal(engine.values(output), run.values(output))
            moved = (run.values(output) != before)[:, 0]
            if superstep:
                assert (step.direction, step.choice.reason) == (("pull", "many") if sent >= least else ("push", "few"))
                assert step.choice.edges == sent
            sent, before = int(graph.out_degrees[moved].sum()), run.values(output).copy()
        engine.close()


def two_ways(p, self):
    """Count neighbours with ``x``, which decide about ``y``, and those with ``y``: two groups of reductions."""
    p.vertex("first")
    p.vertex("second")
    p.vertex("x", start="first")
    p.vertex("y", start="second")
    p.over_edges(into="a", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"y": where(absolute(v.a - 1.5) < 0.75, 1.0, 0.0)})
    p.over_edges(into="b", reduce="sum")(lambda src: src.y)
    p.over_vertices(lambda v: {"x": where(absolute(v.b - 1.5) < 0.75, 1.0, 0.0)})
    p.until_settled(at_most=40)
    p.output("x", bound=0.0)
    p.output("y", bound=0.0)


@pytest.mark.parametrize("share", [pytest.param(1.0, marks=pytest.mark.full), 0.15])
def test_of_two_groups_the_one_that_sends_more_edges_is_told(share):
    """The second group sends what the first one has changed in the same superstep."""
    graph, made = grid(5, 6), traced(two_ways, "two ways")
    rng = np.random.default_rng(25)
    inputs = Inputs({name: rng.integers(0, 2, 30).astype(np.float32) for name in ("first", "second")})
    engine, run = engine_of(made, graph, 1, share, rebuild=0), ReferenceRun(made, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    moved, degrees, taken = {"x": np.ones(30, bool), "y": np.ones(30, bool)}, graph.out_degrees, set()
    for superstep in range(12):
        before = {name: run.values(name).copy() for name in moved}
        run.run(1)
        (step,) = engine.run(1).supersteps
        sent = int(degrees[moved["x"]].sum())
        moved = {name: run.values(name) != before[name] for name in moved}
        sent = max(sent, int(degrees[moved["y"]].sum()))
        if superstep > 0:
            assert step.choice.edges == sent
            assert step.choice.reason == ("many" if share < 1 and sent >= int(share * graph.num_edges) else "few")
            taken.add((sent, step.choice.reason))
        for name in moved:
            np.testing.assert_array_equal(engine.values(name), run.values(name))
        if not moved["x"].any() and not moved["y"].any():
            break
    assert {reason for _, reason in taken} == ({"many", "few"} if share < 1 else {"few"})
    assert len(taken) > 8
    engine.close()

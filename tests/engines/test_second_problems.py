"""An engine that has had other problems explains and records the next one as a new engine does."""

from __future__ import annotations

import pytest

from harness.contract import Device, No, Phases
from tests.engines.problems import ALGORITHMS, new_engine, program, small

# Engine, options, and whether its code for a GPU is generated, which needs none.
ENGINES = [
    ("onyx", {}, True), ("onyx", {"order": "adaptive"}, True), ("onyx", {"direction": "adaptive"}, True),
    ("onyx", {"change_driven": False}, True), ("gunrock", {}, True), ("tigr", {}, True), ("simdx", {}, True),
    ("emogi", {}, True), ("scaph", {"window_mb": 0.0005}, True), ("onyx", {}, False), ("gunrock", {}, False),
    ("emogi", {}, False), ("simdx", {}, False), ("tigr", {}, False),
]  # fmt: skip
FIRST = ("bfs", "rmat", 3)
SECOND = [("sssp", "rmat", 3), ("bfs", "grid", 3), ("bfs", "rmat", 1), ("components", "grid", 1)]


def posed(engine, problem, *, cuda):
    """Pose a problem. Return what the engine records and explains; None if it refuses the problem."""
    name, graph_name, features = problem
    device = Device("cuda") if cuda else Device(threads=1)
    graph = ALGORITHMS[name].prepare_graph(small(graph_name))
    if isinstance(engine.supports(program(name), graph, features, device), No):
        return None
    if cuda:
        engine.generate(program(name), graph, features, device)
    else:
        engine.prepare(program(name), graph, features, device, Phases())
    return engine.resolved_options(), engine.explain(), engine.stepwise


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize(
    ("name", "options", "cuda"),
    [pytest.param(*row, marks=() if row[2] else (pytest.mark.full,)) for row in ENGINES],
)
def test_what_is_recorded_and_explained_is_of_the_present_problem(name, options, cuda, second):
    """One part of the problem differs from the first: the program, the graph, or the number of features."""
    engine, new = new_engine(name, options), new_engine(name, options)
    wanted, before = posed(new, second, cuda=cuda), posed(new_engine(name, options), FIRST, cuda=cuda)
    if wanted is None or before is None:
        pytest.skip("the engine refuses one of the problems")
    assert posed(engine, FIRST, cuda=cuda) == before
    assert posed(engine, second, cuda=cuda) == wanted
    assert posed(engine, FIRST, cuda=cuda) == before
    assert wanted != before or second[:1] + second[2:] == FIRST[:1] + FIRST[2:]
    for one in (engine, new):
        one.close()

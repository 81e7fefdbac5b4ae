"""Engines that start warm on a changed graph: the answer of a cold run, from few edges where changes are tracked."""

from __future__ import annotations

import pytest

from harness.contract import Device, Phases, Yes
from harness.graph.generators import random_ratings, rmat
from harness.language.residual import residual
from harness.language.validation import compare
from tests.algorithms.warm import ALGORITHMS, kept, outputs, problem, program, run_reference
from tests.engines.problems import new_engine

SCHEDULES = {
    "pull": ("onyx", {}),
    "pull-unfolded": ("onyx", {"fold": False, "dense_share": 1.0}),
    "pull-all": ("onyx", {"change_driven": False}),
    "push": ("onyx", {"direction": "push"}),
    "push-all": ("onyx", {"direction": "push", "change_driven": False}),
    "gunrock": ("gunrock", {}),
    "tigr": ("tigr", {}),
    "simdx": ("simdx", {"warp_degree": 3, "block_degree": 9}),
    "scipy": ("scipy", {}),
    "torch": ("torch", {}),
}
NAMES = tuple(name for name in ALGORITHMS if name != "belief_propagation")
KINDS = ("insert", "delete", "heavier", "lighter")
# A graph with so many edges that one of them changed is few.
SHARE = 1e-4


def graph_of(name):
    return random_ratings(users=60, items=40, num_ratings=700) if name == "als" else rmat(11, max_weight=8, seed=2)


PROCESSOR = Device(threads=2)


def engine_on(schedule, name, posed, features, device):
    engine = new_engine(*SCHEDULES[schedule])
    if not isinstance(engine.supports(program(name), posed[0], features, device), Yes):
        return None
    engine.prepare(program(name), posed[0], features, device, Phases())
    return engine


def runs(schedule, name, kind, features=2, device=PROCESSOR):
    """The start with the statistics of the cold and the warm run on the changed graph; the answer is checked."""
    posed, most = problem(name, graph_of(name), features, kind, SHARE, seed=1), program(name).max_supersteps
    old = engine_on(schedule, name, posed.old, features, device)
    if old is None:
        return None
    old.reset(posed.old[1])
    settled = old.run(most).settled
    start = posed.start(kept(name, old), settled)
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
    assert found.ok, f"{start.told}: {found.detail}"
    new.close()
    return start, cold, warm


# Every schedule with every algorithm, of which a sixth is run each time; the kinds of changes take turns.
PAIRED = [
    (schedule, name, KINDS[(i + j) % len(KINDS)])
    for i, schedule in enumerate(SCHEDULES)
    for j, name in enumerate(NAMES)
]


@pytest.mark.parametrize(("schedule", "name", "kind"), [case for n, case in enumerate(PAIRED) if n % 6 == 0])
def test_the_answer_is_that_of_a_cold_run(schedule, name, kind):
    runs(schedule, name, kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_answer_is_that_of_a_cold_run(schedule, name, kind):
    runs(schedule, name, kind)


@pytest.mark.parametrize(
    ("schedule", "name", "kind", "share"),
    [
        ("pull", "bfs", "insert", 0.1), ("push", "sssp", "lighter", 0.1), ("gunrock", "components", "insert", 0.1),
        ("push", "bfs", "delete", 0.5), ("pull", "kcore", "delete", 0.1), ("push", "kcore", "delete", 0.6),
        ("pull", "pagerank", "insert", 0.6), ("push", "label_propagation", "heavier", 0.6),
    ],
)  # fmt: skip
def test_few_edges_are_visited(schedule, name, kind, share):
    """Of the edges that a cold run visits; pushed sums are built once from all edges."""
    start, cold, warm = runs(schedule, name, kind)
    assert not start.restarted
    assert warm.edges <= share * cold.edges, f"{start.told}: {warm.edges} after {cold.edges}"

"""Emulated CUDA devices run programs that name vertices by values, or refuse them with the reason."""

from __future__ import annotations

import itertools

import pytest

from harness.contract import No, Phases, schedule_from_options
from harness.emulation.compiler import unavailable
from harness.language.validation import compare
from tests.covering import covering
from tests.emulation.device import emulate
from tests.engines.cuda_schedules import ALL, SCHEDULES, loaded
from tests.engines.named_vertices import GRAPHS, check_drawn, most_supersteps, problem, program
from tests.engines.problems import SPECS

FURTHER = {
    "persistent": ("onyx", {**ALL, "persistent": True}),
    "persistent-push-edges": ("onyx", {**ALL, "persistent": True, "direction": "push", "balance": "edge"}),
    "mapped": ("onyx", {"edges": "mapped"}),
    "streamed": ("onyx", {"edges": "streamed"}),
    "managed": ("onyx", {"edges": "managed"}),
    "scaph": ("scaph", {"window_mb": 0.01}),
    "scaph-packed": ("scaph", {"window_mb": 0.01, "values": "low"}),
    "simdx-fused": ("simdx", {"fusion": "push_pull"}),
    "simdx-unfused": ("simdx", {"fusion": "none"}),
}
REFUSING = ("gunrock", "gunrock-merge-path")
NAMES = [name for name in {**SCHEDULES, **FURTHER} if name not in REFUSING]
DRAWN = [
    name for name in NAMES if name not in ("streamed", "scaph", "scaph-packed")
]  # programs without edge stages have no windows
PROGRAMS = [("mst", 1), ("mst-1", 8), ("components", 1), ("hops", 1), ("hops", 5), ("hops", 33)]
TODAY = [
    ("pull", "hops", 5),
    ("persistent", "mst", 1),
    ("tigr-short", "components", 1),
    ("simdx-fused", "mst", 1),
    ("scaph-packed", "mst", 1),
]
EVERY = list(itertools.product(NAMES, PROGRAMS, GRAPHS))


def engine_of(schedule):
    name, options = {**SCHEDULES, **FURTHER}[schedule]
    return loaded(loaded(SPECS[name].factory).engines["cuda"])(schedule_from_options(SPECS[name], options))


def check(schedule, name, features, graph_name, device):
    graph, inputs, expected, supersteps = problem(name, graph_name, features)
    engine = engine_of(schedule)
    answer = engine.supports(program(name), graph, features, device)
    assert not isinstance(answer, No), answer
    engine.prepare(program(name), graph, features, device, Phases())
    for _ in range(2):  # a second run starts from the same state
        engine.reset(inputs)
        statistics = engine.run(most_supersteps(name))
        found = compare(program(name), {output: engine.values(output) for output in expected}, expected)
        assert found.ok, f"{graph_name}: {found.detail}"
        assert statistics.settled == program(name).control.settles
        assert len(statistics.supersteps) == supersteps
    engine.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("schedule", "name", "features"), TODAY)
def test_schedules(schedule, name, features, emulated):
    for graph_name in ("rmat", "path"):
        check(schedule, name, features, graph_name, emulated)


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("row", covering(EVERY, lambda row: set(itertools.combinations(enumerate(row), 2))), ids=str)
def test_every_schedule(row, emulated):
    schedule, (name, features), graph_name = row
    check(schedule, name, features, graph_name, emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.skipif(bool(unavailable()), reason=unavailable())
@pytest.mark.parametrize("schedule", ["pull", "push-edges", "persistent", "tigr", "simdx", "emogi"])
@pytest.mark.parametrize("name", ["mst", "components", "hops"])
def test_no_kernel_races(schedule, name, monkeypatch):
    check(schedule, name, 3, "rmat", emulate(monkeypatch, racing=True))


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("seed", range(3 * len(DRAWN)))
def test_random_programs(seed, emulated):
    assert check_drawn(seed, lambda: engine_of(DRAWN[seed % len(DRAWN)]), emulated)


@pytest.mark.parametrize("schedule", REFUSING)
def test_engines_that_follow_changes_refuse(schedule, emulated):
    graph, *_ = problem("mst", "grid", 1)
    answer = engine_of(schedule).supports(program("mst"), graph, 1, emulated)
    assert isinstance(answer, No)
    assert answer.reason.startswith("jump reads from vertices that values name, so that a change has no known readers")


def test_onyx_refuses_to_follow_changes_and_does_not_unless_requested(emulated):
    graph, *_ = problem("mst", "grid", 1)
    made = loaded(loaded(SPECS["onyx"].factory).engines["cuda"])
    tracking = made(schedule_from_options(SPECS["onyx"], {"change_driven": True}))
    assert isinstance(tracking.supports(program("mst"), graph, 1, emulated), No)
    left = made(schedule_from_options(SPECS["onyx"], {}))
    left.generate(program("mst"), graph, 1, emulated)
    assert left.resolved_options()["change_driven"] is False

"""An engine's claims about a run are checked: that it is settled, and its number of supersteps, at any size."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.campaign.guarded_engine import guarded
from harness.campaign.problem import Problem
from harness.campaign.sampled_check import RunInParts, checked
from harness.campaign.verdict import verdict
from harness.contract import Device, Phases, RunStatistics
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.language.sampled import Sample
from harness.records.outcome import Outcome

EXAMPLE = Path(__file__).parents[1] / "thirdparty"
PROBLEMS = {
    "pagerank": (PageRank(), lambda: rmat(scale=9, edge_factor=8), 3),
    "label_propagation": (LabelPropagation(), lambda: grid(rows=20, columns=20), 3),
    "manifold_ranking": (ManifoldRanking(alpha=0.9), lambda: grid(rows=20, columns=20), 2),
    "bfs": (BFS(), lambda: grid(rows=20, columns=20), 3),
    "sssp": (SSSP(), lambda: grid(rows=20, columns=20), 3),
    "components": (Components(), lambda: grid(rows=20, columns=20), 1),
    "kcore": (KCore(core=3), lambda: grid(rows=20, columns=20), 1),
}


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Run an algorithm on an engine as the child process does, and judge it: its outcome and the reason."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(EXAMPLE)
    engine_class = importlib.import_module("onyx_example_engine").ExampleEngine
    schedule = importlib.import_module("onyx_example").ExampleSchedule()

    def run(name, validate, *, report=lambda statistics: statistics, stop=None, max_supersteps=None):
        algorithm, make, features = PROBLEMS[name]
        graph = algorithm.prepare_graph(make())
        program, inputs = trace(algorithm), algorithm.inputs(graph, features)
        limit = max_supersteps or program.max_supersteps
        problem = Problem(algorithm, program, graph, graph, inputs, features, limit, f"{name} {limit}", {})

        class Engine(engine_class):
            """The example engine; ``stop``: the number of supersteps after which it claims to be settled."""

            def reset(self, inputs, state=None):
                self.done = 0
                super().reset(inputs, state)

            def run(self, most):
                allowed = most if stop is None else min(most, stop - self.done)
                statistics = super().run(allowed)
                self.done += len(statistics.supersteps)
                return RunStatistics(statistics.settled or self.done == stop, statistics.supersteps)

        engine = Engine(schedule)
        engine.prepare(program, graph, features, Device(threads=1), Phases())
        sample = Sample.draw(program, graph) if validate == "sampled" else None
        parts = None if sample is None else RunInParts(guarded(engine), problem, sample)
        if parts is not None:
            parts.run()
        engine.reset(inputs)
        statistics = report(engine.run(limit))
        values = {name: engine.values(name) for name in problem.validated}
        found = None if sample is None else checked(engine, problem, sample, parts, statistics, Phases())
        return verdict(
            SimpleNamespace(validate=validate), problem, values,
            settled=statistics.settled, supersteps=len(statistics.supersteps), checked=found,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("validate", [True, "sampled"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.short_run(rows=8)
def test_a_right_run_is_ok(judged, name, validate):
    outcome, reason, fields = judged(name, validate)
    assert (outcome, reason) == (Outcome.OK, "")
    assert fields["validation"]["ok"]


@pytest.mark.parametrize("validate", [True, "sampled"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_that_stops_early_and_claims_to_be_settled_is_wrong(judged, name, validate):
    stop = 1 if name == "kcore" else 6
    outcome, reason, _ = judged(name, validate, stop=stop)
    assert outcome is Outcome.WRONG
    if name in ("bfs", "sssp", "components", "kcore"):
        assert f"reports {stop} supersteps; a settled run has at least" in reason
    elif validate == "sampled":
        assert reason.startswith("not at rest after the last superstep")


@pytest.mark.parametrize("validate", [True, "sampled"])
def test_a_run_that_claims_to_be_settled_where_the_reference_is_not_is_wrong(judged, validate):
    """Its answer is that of the reference after the same number of supersteps."""
    assert judged("label_propagation", validate, max_supersteps=12)[0] is Outcome.OK
    outcome, reason, _ = judged("label_propagation", validate, stop=12, max_supersteps=12)
    assert outcome is Outcome.WRONG
    assert reason.startswith("not at rest after the last superstep")


def counted(more, settled):
    """Return a function that reports ``more`` supersteps than were taken."""

    def report(statistics):
        steps = [*statistics.supersteps, *statistics.supersteps[:more]]
        return RunStatistics(settled, steps[: len(statistics.supersteps) + more])

    return report


@pytest.mark.parametrize("validate", [True, "sampled"])
@pytest.mark.parametrize(
    ("name", "report", "reason"),
    [
        ("bfs", counted(-10, True), "a settled run has at least"),
        ("bfs", counted(-2, True), "a settled run has at least"),  # one less than the longest path has edges
        ("bfs", counted(0, False), "such a run has all 1000000"),
        ("pagerank", counted(-1, False), "such a run has all 200"),
    ],
)
def test_a_number_of_supersteps_that_cannot_be_is_wrong(judged, name, report, reason, validate):
    outcome, stated, _ = judged(name, validate, report=report)
    assert outcome is Outcome.WRONG
    assert reason in stated


def test_a_settled_run_may_take_the_least_number_of_supersteps(judged):
    assert judged("bfs", True, report=counted(-1, True))[0] is Outcome.OK


def test_more_supersteps_than_allowed_are_wrong(judged):
    outcome, reason, _ = judged("bfs", True, report=counted(3, False), max_supersteps=4)
    assert outcome is Outcome.WRONG
    assert "reports 7 supersteps, more than the 4 that it was given" in reason


def test_a_run_stopped_at_its_limit_is_ok(judged):
    assert judged("bfs", True, max_supersteps=4)[0] is Outcome.OK
    assert judged("pagerank", "sampled", max_supersteps=4)[0] is Outcome.OK


def test_the_least_number_of_supersteps_is_that_of_a_path():
    path = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], name="path")
    for algorithm in (BFS(sources="0"), SSSP(sources="0"), Components()):
        assert algorithm.settled_answer(algorithm.prepare_graph(path), 1).least_supersteps == 4
    assert KCore(core=2).settled_answer(KCore(core=2).prepare_graph(path), 1).least_supersteps == 3

"""Answers checked by the first and the last superstep on a sample of vertices."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.label_propagation import LabelPropagation
from harness.campaign import verdict
from harness.campaign.sampled_check import Checked, RunInParts, Transition, checked
from harness.contract import Phases, RunStatistics, Superstep
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.algorithm import Answer
from harness.language.reference import ReferenceRun
from harness.language.sampled import Sample
from harness.language.validation import WITHIN, Comparison
from harness.records.outcome import Outcome


@pytest.fixture
def outcomes(command_here, tmp_path):
    """Run a sweep and return its records' outcomes, reasons and validations by engine and algorithm."""

    def run(*arguments):
        finished = command_here(*arguments, "validate=sampled", "measure.budget_s=0.01", "measure.warmup_s=0.01")
        found = {}
        for path in tmp_path.glob("results/*/*/record.json"):
            record = json.loads(path.read_text())
            key = record["config"]["engine"], record["config"]["algorithm"]
            found[key] = record["outcome"], record["reason"], record["validation"]
        assert found, finished.stdout + finished.stderr
        return found

    return run


def test_a_right_run_is_ok_a_wrong_one_is_not(outcomes):
    found = outcomes("engine=fake_right,fake_wrong", "algorithm=fake_spread", "graph=fake_ring", "features=3")
    outcome, _, validation = found["fake_right", "fake_spread"]
    assert outcome == "ok"
    assert validation["ok"]
    assert validation["against"].startswith("supersteps 1 and 10 in float64 at ")
    outcome, reason, validation = found["fake_wrong", "fake_spread"]
    assert outcome == "wrong"
    assert reason.startswith("superstep 1")
    assert not validation["ok"]


def test_reductions_over_the_whole_graph_are_checked_too(outcomes):
    overrides = "algorithm=pagerank", "graph=fake_path", "features=2"  # the end of the path has no out-edge
    found = outcomes("engine=fake_right,fake_wrong", *overrides)
    outcome, reason, validation = found["fake_right", "pagerank"]
    assert outcome == "ok", reason
    assert validation["against"].startswith("supersteps 1 and ")
    assert validation["error"] < 1e-4  # the last movement of a settled run, within the program's tolerance
    assert found["fake_wrong", "pagerank"][0] == "wrong"


def test_each_checked_superstep_is_within_rounding_of_float64(outcomes):
    found = outcomes("engine=fake_right", "algorithm=pagerank", "graph=fake_path", "features=2", "max_supersteps=5")
    outcome, reason, validation = found["fake_right", "pagerank"]
    assert outcome == "ok", reason
    assert validation["against"].startswith("supersteps 1 and 5 in float64 at ")
    assert validation["error"] < 1e-6


def test_a_program_without_a_sampled_check_is_reported(outcomes):
    graph = "graph=ratings_random", "graph.users=9", "graph.items=6", "graph.num_ratings=20"
    found = outcomes("engine=fake_right", "algorithm=als", *graph, "features=1")
    outcome, reason, _ = found["fake_right", "als"]
    assert outcome == "invalid_input"
    assert "the program alternates sides; give validate=true or false" in reason


@pytest.mark.parametrize(("most", "solves"), [(100, 1), (99, 0)])
def test_the_library_computes_whole_answers_of_graphs_that_are_not_too_large(most, solves, monkeypatch):
    level = np.zeros((3, 1), np.float32)
    answers, problem = [], SimpleNamespace(
        start=None, graph=SimpleNamespace(num_edges=100), max_supersteps=9, by_residual=False, program=trace(BFS())
    )  # fmt: skip
    monkeypatch.setattr(verdict, "EDGES_OF_LIBRARY", most)
    monkeypatch.setattr(
        verdict,
        "library_answer",
        lambda problem: answers.append(problem) or Answer({"level": level + 1.0}, "a library"),
    )
    right = SimpleNamespace(worst=lambda problem: (Comparison(True, 0.0, 0.0, WITHIN), "a sample"))
    cell = SimpleNamespace(validate="sampled")
    outcome, reason, fields = verdict.verdict(
        cell, problem, {"level": level}, settled=True, supersteps=5, checked=right
    )
    assert len(answers) == solves
    assert fields["validation"]["against"] == ("a library; a sample" if solves else "a sample")
    assert (outcome, bool(reason)) == ((Outcome.WRONG, True) if solves else (Outcome.OK, False))


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_the_timed_answer_is_compared_with_that_of_the_checked_run(off):
    algorithm, graph = LabelPropagation(seeds="random"), rmat(scale=6, edge_factor=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    run = ReferenceRun(program, graph, 2)
    run.reset(inputs)
    run.run(1)
    sample = Sample.draw(program, graph)
    values = {name: run.values(name) for name in program.outputs}
    after = {name: sample.results_of(name, value) for name, value in values.items()}
    timed = {name: value + off for name, value in values.items()}
    problem = SimpleNamespace(program=program, graph=graph, inputs=inputs, features=2)
    worst, _ = Checked(sample, (Transition(1, None, after),), after, False, timed).worst(problem)
    assert worst.ok is (off == 0.0)
    assert worst.ok or worst.detail.startswith("the timed answer is not that of the run in parts: ")


class Steps:
    """An engine whose only value is the number of supersteps done; it settles after ``last`` ones."""

    def __init__(self, last):
        self.last, self.done = last, 0

    def reset(self, inputs):
        self.done = 0

    def timed_run(self, most):
        steps = min(most, self.last - self.done)
        self.done += steps
        return 0.25, RunStatistics(self.done == self.last, [Superstep(1, 2, "push")] * steps)

    def run(self, most):
        return self.timed_run(most)[1]

    def rows(self, name, index):
        return np.array([self.done])

    def values(self, name):
        return np.array([self.done])


@pytest.mark.parametrize(
    ("most", "last", "parts", "seconds"),
    [
        (1, 99, [(1, None, 1)], 0.25),
        (2, 99, [(1, None, 1), (2, 1, 2)], 0.5),
        (3, 99, [(1, None, 1), (3, 2, 3)], 0.75),
        (9, 99, [(1, None, 1), (9, 8, 9)], 0.75),
        (9, 9, [(1, None, 1), (9, 8, 9)], 0.75),
        (9, 8, [(1, None, 1)], 0.5),
        (9, 1, [(1, None, 1)], 0.25),
    ],
)
def test_a_run_in_parts_reads_its_first_and_last_superstep(most, last, parts, seconds):
    problem = SimpleNamespace(inputs=None, max_supersteps=most)
    sample = SimpleNamespace(
        compared_names=("x",), state=("x",), reduces=False, results=lambda _: None, rows_of=lambda _: [0]
    )
    run = RunInParts(Steps(last), problem, sample)
    taken, statistics = run.run()
    assert (taken, len(statistics.supersteps), statistics.settled) == (seconds, min(most, last), last <= most)
    read = [(one.superstep, one.before and one.before["x"][0], one.after["x"][0]) for one in run.transitions]
    assert read == parts
    assert run.ended["x"] == min(most, last)
    assert run.settled == (last <= most)


@pytest.mark.parametrize(
    ("timed_settled", "parts_settle", "final"), [(True, True, 5), (False, True, 9), (False, False, None)]
)
def test_a_state_that_any_run_calls_settled_is_checked_at_its_end(timed_settled, parts_settle, final):
    """Of a timed run that did not settle although that in parts did, a third run gives the state."""
    problem = SimpleNamespace(inputs=None, max_supersteps=20, validated=("x",))
    sample = SimpleNamespace(
        state=("x",), rests_by_whole=False, rows_of=lambda _: [0], part_of=lambda _, values: values
    )
    engine = Steps(9)
    engine.done = 5
    parts = SimpleNamespace(transitions=[], ended={"x": np.array([5])}, settled=parts_settle)
    found = checked(engine, problem, sample, parts, RunStatistics(timed_settled, []), Phases())
    assert found.settled is timed_settled
    assert found.answer["x"] == 5, "that of the timed run"
    assert (None if found.final is None else found.final["x"][0]) == final


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_outside_of_the_sample_that_is_no_number_is_noticed(bad, monkeypatch):
    program = trace(LabelPropagation())
    [name] = program.outputs
    values = {name: np.ones((5, 2), np.float32)}
    values[name][3, 1] = bad
    problem = SimpleNamespace(
        start=None, graph=SimpleNamespace(num_edges=9), max_supersteps=7, by_residual=False, program=program
    )  # fmt: skip
    monkeypatch.setattr(verdict, "library_answer", lambda problem: None)
    right = SimpleNamespace(worst=lambda problem: (Comparison(True, 0.0, 0.0, WITHIN), "a sample"))
    cell = SimpleNamespace(validate="sampled")
    outcome, reason, _ = verdict.verdict(cell, problem, values, settled=True, supersteps=5, checked=right)
    assert (outcome, name in reason) == ((Outcome.DIVERGED, True) if np.isnan(bad) else (Outcome.OK, False))


def test_settled_runs_need_not_end_like_the_run_in_parts():
    """Runs of an engine that is not deterministic settle at different answers: one more superstep is the check."""
    algorithm, graph = LabelPropagation(seeds="random"), rmat(scale=5, edge_factor=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    run = ReferenceRun(program, graph, 2)
    run.reset(inputs)
    run.run(program.max_supersteps)
    sample = Sample.draw(program, graph)
    values = {name: run.values(name) for name in program.outputs}
    final = {name: sample.part_of(name, run.values(name)) for name in sample.state}
    other = {name: sample.results_of(name, value) + 0.5 for name, value in values.items()}
    problem = SimpleNamespace(program=program, graph=graph, inputs=inputs, features=2)
    for settled in (True, False):
        worst, _ = Checked(sample, (), other, settled, values, final).worst(problem)
        assert worst.ok is settled, worst.detail

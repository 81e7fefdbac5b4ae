"""Workloads, answers, protocol, specification and pages of the suite, function by function."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.conformance import page, plugin
from harness.conformance import workload as workloads
from harness.conformance.matrix import Question
from harness.conformance.subject import Subject, Unsupported
from harness.conformance.suite import test_answers as answers
from harness.conformance.suite import test_protocol as protocol
from harness.conformance.suite import test_specification as specification
from harness.conformance.suite import test_steps_in_place as in_place
from harness.conformance.workload import random_graph, workload
from harness.contract import Device, No, Yes
from harness.graph.generators import random_ratings
from harness.language import trace
from harness.options import option
from tests.conformance.test_checks import Refusing, subject_of, suspects

Schedule = sys.modules["onyx_suspects"].Schedule
AnyWord = sys.modules["onyx_suspects"].AnyWord


# workloads ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["averaging", "settling", "nearest", "widest", "pagerank", "components"])
def test_the_first_supported_program_is_the_workload(name):
    asked = []

    class Says:
        def says(self, program, graph, features):
            asked.append(program.name)
            return Yes(1) if program.name == name else No("not this one")

    found = workload(Says(), 40, 100)
    assert (found.program.name, found.features) == (name, workloads.FEATURES)
    assert asked[-1] == name
    assert asked[:4] == ["averaging", "settling", "nearest", "widest"][: len(asked)]
    assert found.graph.num_vertices == 40
    assert set(found.inputs.properties) <= set(found.program.properties)
    for key, array in found.inputs.properties.items():
        place = found.program.properties[key].place
        assert len(array) == {"vertex": 40, "edge": found.graph.num_edges}[place]


def test_without_a_supported_program_each_reason_is_given_once():
    reasons = iter(["no sums", "no sums", "no minima"] + ["no sums"] * 99)
    says = SimpleNamespace(says=lambda *_: No(next(reasons)))
    with pytest.raises(Unsupported) as met:
        workload(says, 10, 20)
    assert str(met.value) == "no program that fits a random graph: no sums; no minima"


def test_the_random_graph_of_a_workload_has_the_requested_size():
    graph = random_graph(50, 400)
    assert (graph.num_vertices, graph.num_edges) == (50, 400)
    assert 0.25 <= graph.weights.min() < 0.4 < 0.9 < graph.weights.max() <= 1.0
    again = random_graph(50, 400)
    assert again.csr.neighbours.tolist() == graph.csr.neighbours.tolist()


# answers, protocol, specification -------------------------------------------------------------------------------------
class WithoutEdges(suspects.Right):
    """Refuses graphs without edges."""

    def supports(self, program, graph, features, device):
        return super().supports(program, graph, features, device) if graph.num_edges else No("it needs an edge or two")


@pytest.mark.parametrize(("engine", "skipped"), [(suspects.Right, False), (WithoutEdges, False), (Refusing, True)])
def test_a_program_is_skipped_if_it_is_refused_on_every_graph(engine, skipped):
    check = answers.test_supported_programs_are_answered_correctly
    if skipped:
        with pytest.raises(pytest.skip.Exception):
            check(subject_of(engine), "averaging", 2)
    else:
        check(subject_of(engine), "averaging", 2)


def test_inputs_that_an_engine_wrote_to_are_named_and_restored():
    problem = protocol.small("averaging")
    before = {name: np.array(array) for name, array in protocol.arrays_of(problem)}
    with pytest.raises(AssertionError, match="it wrote to the caller's x0"):
        protocol.test_inputs_are_not_written(subject_of(suspects.WritesInputs), problem)
    for name, array in protocol.arrays_of(problem):
        assert np.array_equal(array, before[name]), name
    protocol.test_inputs_are_not_written(subject_of(suspects.Right), problem)


def test_other_inputs_of_the_suite_are_rotated_and_change_the_rate_only():
    problem = protocol.small("averaging")
    found = protocol.other_inputs(problem)
    for name, array in problem.inputs.properties.items():
        assert found.properties[name].tolist() == np.roll(array, 1, axis=0).tolist()
    rate = {"rate": 0.25} if "rate" in problem.inputs.parameters else {}
    assert found.parameters == {**problem.inputs.parameters, **rate}


@dataclass(frozen=True)
class MadeDefaults:
    names: tuple[str, ...] = field(default_factory=tuple, metadata={"help": "names"})
    blocks: int = option(1, "blocks")


@dataclass(frozen=True)
class NoDefault:
    blocks: int = field(metadata={"help": "blocks"})


@dataclass(frozen=True)
class NoHelp:
    blocks: int = 1


@dataclass(frozen=True, eq=False)
class Unequal:
    blocks: int = option(1, "blocks")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule, None), (MadeDefaults, None), (NoDefault, "option 'blocks' has no default"),
        (NoHelp, "option 'blocks' has no help"), (Unequal, ""), (int, ""),
    ],
)  # fmt: skip
def test_options_need_defaults_and_help(schedule, message):
    check = specification.test_the_schedule_is_a_frozen_dataclass_whose_options_are_explained
    subject = subject_of(suspects.Right, schedule)
    if message is None:
        check(subject)
        return
    with pytest.raises(AssertionError, match=message or None):
        check(subject)


def test_what_an_unknown_word_does_is_named():
    """It is refused by the schedule, or by the engine for every program; support would ignore it."""
    word = Subject(subject_of(suspects.Right, AnyWord).spec, {"direction": "no_such_word"})
    assert specification.taken(word).startswith("supported are averaging, ")
    with pytest.raises(AssertionError, match="direction=no_such_word: supported are"):
        specification.test_an_unknown_word_is_refused_by_name(subject_of(suspects.Right, AnyWord))
    refused = Subject(subject_of(Refusing, AnyWord).spec, {"direction": "no_such_word"})
    assert "nothing at all" in specification.taken(refused)
    assert "no_such_option" in specification.taken(Subject(subject_of(suspects.Right).spec, {"no_such_option": 1}))


@pytest.mark.parametrize(
    ("given", "thorough", "chosen"),
    [
        ([], False, [{}]), (["way=pull", "width=3"], False, [{"way": "pull", "width": 3}]),
        ([], True, [{"way": "push", "on": True}, {"way": "pull", "on": True}, {"way": "push", "on": False}]),
        (["way=push"], True, [{"way": "push", "on": True}, {"way": "push", "on": False}]),
        (["way=pull", "width=3"], True, [{"way": "pull", "on": True, "width": 3}]),
    ],
)  # fmt: skip
def test_the_schedules_of_a_session_are_those_with_the_given_options(monkeypatch, given, thorough, chosen):
    """Without --thorough, the schedule that the options give."""
    every = [{"way": "push", "on": True}, {"way": "pull", "on": True}, {"way": "push", "on": False}]
    monkeypatch.setattr(plugin, "_spec", lambda config: None)
    monkeypatch.setattr(plugin, "schedules", lambda spec: every)
    options, made = {"--thorough": thorough, "--engine-option": given}, {}
    metafunc = SimpleNamespace(
        config=SimpleNamespace(getoption=options.get), fixturenames=["schedule", "features"],
        parametrize=lambda name, values, **_: made.update({name: list(values)}),
    )  # fmt: skip
    plugin.pytest_generate_tests(metafunc)
    assert made["schedule"] == chosen
    assert len(made["features"]) == (10 if thorough else 3)
    assert {1, 3, 8} <= set(made["features"])


def test_the_page_says_what_an_engine_refuses_and_why():
    """A reason of some schedules names the options that they share, and all others do not have."""
    spec = subject_of(suspects.Right).spec
    rows = {"bfs": SimpleNamespace(program=None, graph=None, features=4)}
    assert page.answers(spec, rows, Device("cuda")) == {"bfs": [({}, "fake has no cuda code")]}
    ways = [{"way": "push", "on": True}, {"way": "push", "on": False}, {"way": "pull", "on": True},
            {"way": "pull", "on": False}]  # fmt: skip
    reasons = {"a": ["", "", "", ""], "b": ["no sums"] * 4, "c": ["", "", "no pulls", "no pulls"],
               "d": ["", "no b", "", "no pulls"]}  # fmt: skip
    found = {label: list(zip(ways, of, strict=True)) for label, of in reasons.items()}
    assert page.summary(found) == {"a": "runs", "b": "no", "c": "in part", "d": "in part"}


class Hesitant(suspects.Right):
    """Takes another order in each run, and says so or not."""

    deterministic, runs = False, 0

    def ordered_superstep(self):
        Hesitant.runs += 1
        found = super().ordered_superstep()
        return {name: np.roll(order, Hesitant.runs) for name, order in found.items()}


class Promising(Hesitant):
    deterministic = True


@pytest.mark.parametrize(
    ("engine", "error"), [(suspects.Right, None), (Hesitant, pytest.skip.Exception), (Promising, AssertionError)]
)
def test_orders_are_compared_if_the_engine_promises_equal_ones(engine, error):
    check, posed = in_place.test_a_deterministic_engine_takes_the_same_order_in_every_run, in_place_problem()
    if error is None:
        check(subject_of(engine), posed)
        return
    with pytest.raises(error):
        check(subject_of(engine), posed)


def in_place_problem():
    """Return a small program with steps in place, with its graph and inputs."""
    algorithm = SGDMatrixFactorisation(epochs=3)
    graph = algorithm.prepare_graph(random_ratings(users=8, items=6, num_ratings=20, seed=2))
    return Question(trace(algorithm), graph, algorithm.inputs(graph, 2), 2)

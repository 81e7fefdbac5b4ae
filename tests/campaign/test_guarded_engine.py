"""A malformed answer of an engine is an engine_error that names the field, its value and the allowed values."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from harness.algorithms.pagerank import PageRank
from harness.campaign.engine_checks import MalformedAnswer, checked_order, checked_share, checked_statistics
from harness.campaign.guarded_engine import GuardedEngine
from harness.contract import Device, No, Phases, RunStatistics, Superstep, Transfers, Yes
from harness.graph.generators import grid
from harness.language import trace
from harness.records.outcome import Outcome
from harness.transactions import Behaviour, KernelBehaviour, Loads
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.conftest import FAKES

sys.path.insert(0, str(FAKES))
from onyx_fakes_engines import Right as _Right

sys.path.remove(str(FAKES))


class Right(_Right):
    def close(self):
        pass


def answering(method, change):
    """Return an engine with one method that returns ``change(right answer)``."""

    def answer(self, *arguments):
        return change(getattr(Right, method)(self, *arguments))

    return type("Misbehaving", (Right,), {method: answer})


class NamesNothing(Exception):
    def __str__(self):
        raise RuntimeError("no message")


def raising(method, error):
    def fail(self, *_):
        raise error

    return type("Raising", (Right,), {method: fail})


def phases_of(**seconds):
    def prepare(self, program, graph, features, device, phases):
        Right.prepare(self, program, graph, features, device, phases)
        phases.seconds.update(seconds)

    return type("Phased", (Right,), {"prepare": prepare})


MALFORMED = {
    "supports() is True of type bool; it must be a Yes or a No": answering("supports", lambda _: True),
    "supports(): Yes.bytes_needed is 1000000.0 of type float; it must be an integer from 0 to 2**63 - 1": answering(
        "supports", lambda _: Yes(bytes_needed=1e6)
    ),
    "supports(): Yes.host_bytes is -1 of type int; it must be an integer from 0 to 2**63 - 1": answering(
        "supports", lambda _: Yes(1000, host_bytes=-1)
    ),
    "supports(): Yes.stepwise is 'no' of type str; it must be a bool or None": answering(
        "supports", lambda _: Yes(1000, stepwise="no")
    ),
    "supports(): No.reason is None of type NoneType; it must be text": answering("supports", lambda _: No(None)),
    "prepare(): Phases.seconds['compile'] is nan of type float; it must be a finite": phases_of(compile=float("nan")),
    "prepare(): Phases.seconds['lower'] is -1 of type int; it must be a finite": phases_of(lower=-1),
    "prepare(): the name of a phase is 'wait' of type str; it must be printable text": phases_of(wait=1.0),
    "resolved_options() is 'direction=pull' of type str; it must be a mapping": answering(
        "resolved_options", lambda _: "direction=pull"
    ),
    "resolved_options(): a name is 'wide' of type str; it must be an option of the schedule": answering(
        "resolved_options", lambda right: {**right, "wide": 2}
    ),
    "resolved_options()['width'] is None of type NoneType; it must be data that JSON holds, not None": answering(
        "resolved_options", lambda right: {**right, "width": None}
    ),
    "resolved_options()['width'] is inf of type float; it must be data that JSON holds, not None": answering(
        "resolved_options", lambda right: {**right, "width": float("inf")}
    ),
    "explain() is b'fast' of type bytes; it must be text": answering("explain", lambda _: b"fast"),
    "run() is None of type NoneType; it must be a RunStatistics": answering("run", lambda _: None),
    "run(): RunStatistics.settled is 1 of type int; it must be a bool": answering(
        "run", lambda found: RunStatistics(1, found.supersteps)
    ),
    "run(): RunStatistics.supersteps is 3 of type int": answering("run", lambda _: RunStatistics(True, 3)),
    "run(): RunStatistics.supersteps[0] is (1, 2, 'pull') of type tuple": answering(
        "run", lambda _: RunStatistics(True, [(1, 2, "pull")])
    ),
    "run(): RunStatistics.supersteps[0].edges is 24000.0 of type float; it must be an integer": answering(
        "run", lambda found: RunStatistics(False, [Superstep(12, 24000.0, "push")] * len(found.supersteps))
    ),
    "run(): RunStatistics.supersteps[0].active is -1 of type int; it must be an integer": answering(
        "run", lambda found: RunStatistics(False, [Superstep(-1, 1, "push")] * len(found.supersteps))
    ),
    "run(): RunStatistics.supersteps[0].direction is 'up' of type str; it must be one of push, pull, dense": answering(
        "run", lambda found: RunStatistics(False, [Superstep(1, 1, "up")] * len(found.supersteps))
    ),
    "it must have at most the": answering("run", lambda _: RunStatistics(True, [Superstep(1, 1, "push")] * 99)),
    "the program runs a fixed number of supersteps": answering(
        "run", lambda found: RunStatistics(True, found.supersteps[:-1])
    ),
    "values('x') is an array of dtype float64 and shape (12, 4); it must be of dtype float32": answering(
        "values", lambda found: found.astype(np.float64)
    ),
    "values('x') is an array of dtype object": answering("values", lambda found: found.astype(object)),
    "values('x') is an array of dtype float32 and shape (11, 4)": answering("values", lambda found: found[:-1]),
    "values('x') is [[": answering("values", lambda found: found.tolist()),
    "NamesNothing: (no message: its __str__ raised RuntimeError)": raising("run", NamesNothing()),
    "SystemExit: 0": raising("run", SystemExit(0)),
    "KeyboardInterrupt: ": raising("prepare", KeyboardInterrupt()),
    "RuntimeError: half \ufffd of it": raising("reset", RuntimeError("half \ud800 of it")),
    "RuntimeError: \ufffd[31mred": raising("explain", RuntimeError("\x1b[31mred")),
}  # fmt: skip


@pytest.mark.parametrize("reason", MALFORMED)
@pytest.mark.short_run(rows=50)  # a row takes milliseconds
def test_a_malformed_answer_is_an_engine_error_that_names_the_field(record_of, reason):  # noqa: F811
    record = record_of(MALFORMED[reason])
    assert (record["outcome"], reason in record["reason"]) == ("engine_error", True), record["reason"]


def test_numbers_of_numpy_are_taken_for_numbers(record_of):  # noqa: F811
    def numpy_numbers(found):
        steps = [Superstep(np.int32(s.active), np.uint64(s.edges), s.direction) for s in found.supersteps]
        return RunStatistics(np.bool_(found.settled), steps)

    record = record_of(answering("run", numpy_numbers))
    assert record["outcome"] == "ok", record["reason"]
    assert record["supersteps"] == [[12, 12, "pull"]] * 10


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (lambda *_: {"accuracy": "high"}, "metrics()['accuracy'] is 'high' of type str; it must be a number"),
        (lambda *_: [1.0], "metrics() is [1.0] of type list; it must be a mapping"),
        (lambda *_: {3: 1.0}, "metrics(): a name is 3 of type int"),
        (lambda *_: {"accuracy": 10**400}, "it must be a number"),
        (lambda *_: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_malformed_metrics_are_the_algorithms_fault(record_of, monkeypatch, metrics, message):  # noqa: F811
    monkeypatch.setattr("onyx_fakes_problem.Spread.metrics", metrics)
    record = record_of(Right)
    assert record["outcome"] == "invalid_input"
    assert record["reason"].startswith("algorithm 'fake_spread': ")
    assert message in record["reason"]


def test_a_first_failure_is_not_replaced_by_that_of_close(record_of):  # noqa: F811
    engine = raising("run", RuntimeError("first"))
    engine.close = raising("close", SystemExit("second")).close
    record = record_of(engine)
    assert (record["outcome"], record["reason"]) == ("engine_error", "RuntimeError: first")


def test_a_patched_clock_does_not_change_the_times(record_of, monkeypatch):  # noqa: F811
    """An engine module that replaces ``time.perf_counter`` does not affect the harness's own clock."""
    monkeypatch.setattr(time, "perf_counter", lambda: 42.0)
    record = record_of(Right)
    assert record["outcome"] == "ok"
    assert min(record["solve"]["samples"]) > 0


def modelled(answer):
    def memory_model(self, program, graph, features, inputs):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return type("Modelled", (Right,), {"memory_model": memory_model})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "MalformedAnswer: memory_model() is None of type NoneType; it must be a Behaviour or a No"),
        (Behaviour("model", {"a": KernelBehaviour(Loads(requests=float("inf")))}), "MalformedAnswer: memory_model(): "),
        (Behaviour("model", {"a": KernelBehaviour(Loads(sectors="many"))}), "TypeError: "),
        (Behaviour(3), "MalformedAnswer: memory_model(): Expected `str`, got `int` - at `$.source`"),
        (SystemExit("no model"), "SystemExit: no model"),
    ],
)
def test_a_malformed_memory_model_is_reported_and_the_run_stays_ok(record_of, answer, message):  # noqa: F811
    record = record_of(modelled(answer), memory="model")
    assert record["outcome"] == "ok", record["reason"]
    assert record["memory"]["reason"].startswith(f"no model: {message}")


class WholeAtOddFeatures(Right):
    """Solves problems with an odd number of features as a whole."""

    def supports(self, program, graph, features, device):
        return Yes(1000, stepwise=False) if features % 2 else Yes(1000)

    def prepare(self, program, graph, features, device, phases):
        self.stepwise = features % 2 == 0


def test_an_answer_does_not_depend_on_the_problem_that_was_prepared():
    posed, device = trace(PageRank()), Device(threads=1)
    graph, engine = grid(3, 3), GuardedEngine(WholeAtOddFeatures(None))
    expected = [Yes(1000, stepwise=features % 2 == 0) for features in (1, 2)]
    for prepared in (1, 2, 1):
        assert [engine.supports(posed, graph, features, device) for features in (1, 2)] == expected
        engine.prepare(posed, graph, prepared, device, Phases())
        assert engine.stepwise == (prepared == 2), "that of the prepared problem"


STEPS = [Superstep(1, 2, "push")] * 3
MOVED = Transfers(8, {"read": 16})


@pytest.mark.parametrize(
    ("settled", "steps", "given", "message"),
    [
        (True, 3, {}, None),
        (True, 2, {}, None),
        (False, 3, {}, None),
        (
            False,
            2,
            {},
            r"run\(3\): RunStatistics.supersteps has 2 supersteps and the run has not settled; it must have 3",
        ),
        (
            True,
            2,
            {"fixed": True},
            "has 2 supersteps and the program runs a fixed number of supersteps; it must have 3",
        ),
        (False, 3, {"fixed": True}, None),
        (True, 0, {"stepwise": False}, None),
        (True, 1, {"stepwise": False}, "settled is True with 1 supersteps; an engine that is not stepwise"),
        (False, 0, {"stepwise": False}, "settled is False with 0 supersteps; an engine that is not stepwise"),
    ],
)
def test_a_run_ends_where_its_limit_and_its_engine_say(settled, steps, given, message):
    statistics = RunStatistics(settled, STEPS[:steps], MOVED)
    if message is None:
        assert checked_statistics(statistics, 3, **given) == statistics
        return
    with pytest.raises(MalformedAnswer, match=message):
        checked_statistics(statistics, 3, **given)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([2, 0, 3, 1], None),
        ([2, 0, 3, 3], "leaves out 1 edges and has 1 more than once"),
        ([2, 0, 3, -1], "leaves out 1 edges and has 0 more than once"),
        ([2, 0, 4, 9], "leaves out 2 edges and has 0 more than once"),
        ([0, 0, 0, 1], "leaves out 2 edges and has 1 more than once"),
        ([2, 0, 1], "it must be an array of 4 integers"),
        ([2.0, 0.0, 3.0, 1.0], "it must be an array of 4 integers"),
    ],
)
def test_an_order_has_every_edge_once(order, message):
    given = np.array(order)
    if message is None:
        assert np.shares_memory(checked_order("order", given, 4), given)
        return
    with pytest.raises(MalformedAnswer, match=message):
        checked_order("order", given, 4)


@pytest.mark.parametrize("value", [-0.001, 1.001, float("nan"), True, "half"])
def test_a_share_is_from_0_to_1(value):
    assert [checked_share("lost", share) for share in (0, 0.5, np.float32(1))] == [0.0, 0.5, 1.0]
    with pytest.raises(MalformedAnswer, match="it must be a share from 0 to 1"):
        checked_share("lost", value)


@pytest.mark.parametrize("outcome", Outcome)
def test_only_right_answers_and_honest_refusals_are_acceptable(outcome):
    assert outcome.acceptable == (outcome in (Outcome.OK, Outcome.UNSUPPORTED))

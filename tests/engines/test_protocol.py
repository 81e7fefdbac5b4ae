"""Promises of the built-in engines beyond the contract: bitwise repetition, statistics, limits and thread counts.

The contract itself is checked by the conformance suite: see tests/conformance/test_engines.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Device, No, Phases, RunStatistics
from harness.language import Inputs
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cpu.engine import CpuEngine
from harness.lowering.cpu.policy import CpuPolicy
from tests.engines.problems import (
    LIBRARIES,
    STRATEGIES,
    new_engine,
    outputs_of,
    prepared,
    problem,
    program,
)
from tests.engines.programs import edges_and_loops, inputs_for, program_named

FEATURES = 3


def engine_for(strategy, algorithm="pagerank", graph="rmat", threads=2):
    graph, inputs = problem(algorithm, graph, FEATURES)
    name, options = STRATEGIES[strategy]
    return prepared(name, options, program(algorithm), graph, FEATURES, threads), inputs, graph


@pytest.fixture(params=STRATEGIES)
def case(request):
    engine, inputs, graph = engine_for(request.param)
    yield engine, inputs, graph
    engine.close()


def test_runs_continue_bit_for_bit(case):
    engine, inputs, graph = case
    engine.reset(inputs)
    first, second = engine.run(3), engine.run(4)
    parted = engine.values("rank")
    engine.reset(inputs)
    whole = engine.run(7)
    assert np.array_equal(parted, engine.values("rank"))
    assert first.supersteps + second.supersteps == whole.supersteps
    assert len(whole.supersteps) == 7
    assert all(step.edges >= 0 and 0 <= step.active <= graph.num_vertices for step in whole.supersteps)
    assert whole.supersteps[0].active == graph.num_vertices


@pytest.mark.short_run(rows=4)
def test_reset_repeats_bit_for_bit(case):
    engine, inputs, _ = case
    answers, statistics = [], []
    for _ in range(2):
        engine.reset(inputs)
        statistics.append(engine.run(200))
        answers.append(engine.values("rank"))
    assert answers[0].tobytes() == answers[1].tobytes()
    assert statistics[0] == statistics[1]
    assert statistics[0].settled
    again = engine.run(5)
    assert again == RunStatistics(settled=True)
    assert np.array_equal(engine.values("rank"), answers[0])


@pytest.mark.short_run(rows=5)
def test_a_warm_start_resumes_where_the_run_stopped(case):
    engine, inputs, _graph = case
    engine.reset(inputs)
    engine.run(200)
    answer = engine.values("rank")
    engine.reset(inputs, {"rank": answer})
    statistics = engine.run(200)
    assert statistics.settled
    assert len(statistics.supersteps) <= 8
    reference = {"rank": answer.astype(np.float64)}
    found = compare(program("pagerank"), outputs_of(engine, program("pagerank")), reference)
    assert found.error <= 2 * program("pagerank").bound


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_inputs_of_other_kinds_of_numbers(strategy):
    """Integers, float64 and bools are accepted as the same floats."""
    answers = []
    for dtype in (np.float32, np.float64, np.int64, np.bool_):
        engine, inputs, graph = engine_for(strategy)
        ones = np.zeros((graph.num_vertices, FEATURES), dtype)
        ones[5] = 1
        engine.reset(Inputs({"teleport": ones}, inputs.parameters))
        engine.run(4)
        answers.append(engine.values("rank"))
    assert all(np.array_equal(answers[0], answer) for answer in answers[1:])


def test_one_thread_gives_the_same_answer(case, request):
    engine, inputs, _ = case
    engine.reset(inputs)
    engine.run(6)
    alone, _, _ = engine_for(request.node.callspec.params["case"], threads=1)
    alone.reset(inputs)
    alone.run(6)
    assert np.allclose(alone.values("rank"), engine.values("rank"), rtol=2e-6, atol=1e-12)


def test_explain_names_schedule_and_stages(case):
    engine, _, _ = case
    text = engine.explain()
    assert type(engine.schedule).__name__ in text
    assert "share" in text


def full_but_for(*kept):
    """Return all strategies; those that are not ``kept``, nor libraries, are marked as full."""
    return [pytest.param(one, marks=() if one in (*kept, *LIBRARIES) else (pytest.mark.full,)) for one in STRATEGIES]


def check_parts(strategy, parts, algorithm, graph_name, monkeypatch):
    """Check five supersteps in parts of a few vertices: many for two threads."""
    monkeypatch.setattr(CpuEngine, "runs", CpuPolicy(smallest_part=4096 // parts, parts_per_thread=parts))
    engine, inputs, graph = engine_for(strategy, algorithm, graph_name)
    engine.reset(inputs)
    engine.run(5)
    run = ReferenceRun(program(algorithm), graph, FEATURES)
    run.reset(inputs)
    run.run(5)
    wanted = {name: run.values(name) for name in program(algorithm).outputs}
    found = compare(program(algorithm), outputs_of(engine, program(algorithm)), wanted)
    assert found.ok, found.detail


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("parts", [1, 64])
def test_more_parts_than_threads(strategy, parts, monkeypatch):
    check_parts(strategy, parts, "pagerank", "scattered", monkeypatch)


@pytest.mark.parametrize("strategy", full_but_for("pull", "push-all", "gunrock"))
@pytest.mark.parametrize("parts", [1, 64])
def test_more_parts_of_matrices_than_threads(strategy, parts, monkeypatch):
    check_parts(strategy, parts, "als", "ratings", monkeypatch)


@pytest.mark.parametrize("strategy", full_but_for("pull-all", "push-all"))
def test_bools_and_matrices_come_back_as_they_are(strategy):
    name, options = STRATEGIES[strategy]
    graph = edges_and_loops()
    for title, shapes in (
        ("conditions", {"flags": (4,), "flag": (), "s": ()}),
        ("tall_matrices", {"t": (3, 4), "w": (3,)}),
    ):
        program_ = program_named(title)
        engine = prepared(name, options, program_, graph, 4)
        engine.reset(inputs_for(program_, graph, 4))
        engine.run(1)
        for output, shape in shapes.items():
            values = engine.values(output)
            assert values.shape == (24, *shape)
            assert values.dtype == (np.bool_ if output.startswith("flag") else np.float32)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in LIBRARIES])
def test_too_many_features_are_refused(strategy):
    name, options = STRATEGIES[strategy]
    graph, _ = problem("pagerank", "grid", 1)
    answer = new_engine(name, options).supports(program("pagerank"), graph, 257, Device(threads=1))
    assert isinstance(answer, No)
    assert "257" in answer.reason
    assert isinstance(new_engine(name, options).supports(program("pagerank"), graph, 0, Device(threads=1)), No)


def test_the_most_features():
    graph, inputs = problem("pagerank", "scattered", 256)
    run = ReferenceRun(program("pagerank"), graph, 256)
    run.reset(inputs)
    run.run(6)
    for strategy in ("pull", "push-all"):
        name, options = STRATEGIES[strategy]
        engine = prepared(name, options, program("pagerank"), graph, 256)
        engine.reset(inputs)
        engine.run(6)
        found = compare(program("pagerank"), outputs_of(engine, program("pagerank")), {"rank": run.values("rank")})
        assert found.ok, found.detail


def test_phases_are_timed_and_a_module_is_compiled_once():
    graph, _ = problem("pagerank", "grid", FEATURES)
    for name, options in STRATEGIES.values():
        engine, phases = new_engine(name, options), Phases()
        engine.prepare(program("pagerank"), graph, FEATURES, Device(threads=1), phases)
        assert all(seconds >= 0.0 for seconds in phases.seconds.values())
        assert phases.seconds
        engine.close()
        engine.close()  # closing twice has no effect

"""Programs that update both ends of edges in place: the engine reports its order of edges, which gives its values."""

from __future__ import annotations

import numpy as np
import pytest

from harness.conformance.matrix import Question, built_in, question
from harness.conformance.subject import Subject, outputs
from harness.contract import Engine, No
from harness.language import Inputs
from harness.language.program import edge_steps
from harness.language.replay import Orders, replay
from harness.language.validation import compare

FEATURES, STEPS = 3, 3


@pytest.fixture
def problem(subject: Subject) -> Question:
    """Return a program with steps in place that the engine supports."""
    refusals = []
    for algorithm in built_in().values():
        found = question(algorithm, FEATURES)
        if edge_steps(found.program):
            answer = subject.says(found.program, found.graph, found.features)
            if not isinstance(answer, No):
                return found
            refusals.append(answer.reason)
    pytest.skip(f"unsupported: {refusals[0]}")


def in_order(engine: Engine, problem: Question, inputs: Inputs) -> list[Orders]:
    """Run some supersteps from the start; return their orders, each of which must have every edge once."""
    engine.reset(inputs)
    orders: list[Orders] = []
    for _ in range(STEPS):
        found = engine.ordered_superstep()
        assert set(found) == {step.name for step in edge_steps(problem.program)}
        for name, order in found.items():
            assert np.array_equal(np.sort(order), np.arange(problem.graph.num_edges)), name
        orders.append({name: np.array(order) for name, order in found.items()})
    return orders


def test_its_order_gives_its_values(subject: Subject, problem: Question) -> None:
    """Repeat the run in float64 in the same orders, also after a reset to other inputs."""
    rolled = {name: np.roll(np.asarray(array), 1, axis=0) for name, array in problem.inputs.properties.items()}
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        for inputs in (problem.inputs, Inputs(rolled, problem.inputs.parameters)):
            orders = in_order(engine, problem, inputs)
            wanted = replay(problem.program, problem.graph, problem.features, inputs, orders)
            comparison = compare(problem.program, outputs(problem.program, engine), wanted)
            assert comparison.ok, comparison.detail


def test_a_run_has_all_supersteps_and_edges(subject: Subject, problem: Question) -> None:
    """Such a program does not settle, and every edge runs once in each of its steps."""
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        for supersteps in range(STEPS):
            engine.reset(problem.inputs)
            statistics = engine.run(supersteps)
            assert not statistics.settled
            edges = len(edge_steps(problem.program)) * problem.graph.num_edges
            assert [step.edges for step in statistics.supersteps] == [edges] * supersteps


def test_a_deterministic_engine_takes_the_same_order_in_every_run(subject: Subject, problem: Question) -> None:
    """Its runs give the same bits whether it reports its order or not."""
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        if not engine.deterministic:
            pytest.skip("the engine declares itself not deterministic")
        orders = in_order(engine, problem, problem.inputs)
        ordered = outputs(problem.program, engine)
        again = in_order(engine, problem, problem.inputs)
        assert all(np.array_equal(a[name], b[name]) for a, b in zip(orders, again, strict=True) for name in a)
        engine.reset(problem.inputs)
        engine.run(STEPS)
        plain = outputs(problem.program, engine)
        assert all(plain[name].tobytes() == ordered[name].tobytes() for name in plain)

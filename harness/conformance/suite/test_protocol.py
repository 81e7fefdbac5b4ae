"""The protocol that the harness relies on: reset, run, values, close."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.conformance.graphs import edges_and_loops, graphs_for
from harness.conformance.matrix import Question, built_in, question
from harness.conformance.programs import PROGRAMS, inputs_for, program_named
from harness.conformance.subject import Subject, Values, expected, outputs
from harness.conformance.workload import random_graph
from harness.contract import No, Yes
from harness.language import Inputs, InvalidInput
from harness.language.program import edge_steps
from harness.language.validation import compare, relative_error

FEATURES = 3
STEPS = 3
AGAIN = 5  # bitwise compared runs
# The other programs of the suite test answers; of the built-in algorithms the first supported one is used.
CASES = ("averaging", "settling", "nearest", "a built-in algorithm")


@functools.cache
def small(name: str, seed: int = 0) -> Question:
    """Return a program of the suite on a small graph, with random inputs."""
    program, graph = program_named(name), edges_and_loops()
    return Question(program, graph, inputs_for(program, graph, FEATURES, seed), FEATURES)


@pytest.fixture(params=CASES)
def problem(request: pytest.FixtureRequest, subject: Subject) -> Question:
    """Return a program that the engine supports, with graph and inputs."""
    names = list(PROGRAMS) if request.param in PROGRAMS else list(built_in())
    refusals = []
    for name in [request.param] if request.param in PROGRAMS else names:
        found = small(name) if name in PROGRAMS else question(built_in()[name], FEATURES)
        if edge_steps(found.program):  # answers depend on the engine's order: test_steps_in_place
            continue
        answer = subject.says(found.program, found.graph, found.features)
        if isinstance(answer, Yes):
            return found
        refusals.append(answer.reason)
    pytest.skip(f"unsupported: {refusals[0]}")


def steps_of(subject: Subject, problem: Question) -> int:
    """Return the supersteps after which answers are compared: a few, or all if the engine solves the whole problem."""
    stepwise = subject.stepwise(problem.program, problem.graph, problem.features)
    return STEPS if stepwise else problem.program.max_supersteps


def needs_steps(subject: Subject, problem: Question) -> None:
    """Skip a test of single supersteps if the engine solves the whole problem."""
    if not subject.stepwise(problem.program, problem.graph, problem.features):
        pytest.skip("the engine solves the whole problem")


def other_inputs(problem: Question) -> Inputs:
    """Return other inputs: rotated among vertices and edges, with other run-time parameters where possible."""
    rolled = {name: np.roll(np.asarray(array), 1, axis=0) for name, array in problem.inputs.properties.items()}
    parameters = dict(problem.inputs.parameters)
    return Inputs(rolled, {**parameters, "rate": 0.25} if "rate" in parameters else parameters)


def right_after(
    problem: Question, found: Values, supersteps: int, inputs: Inputs | None = None, **state: object
) -> None:
    """Compare with the reference after the same number of supersteps."""
    wanted = expected(problem.program, problem.graph, problem.features, inputs or problem.inputs, supersteps, **state)  # type: ignore[arg-type]
    comparison = compare(problem.program, found, wanted)
    assert comparison.ok, f"after {supersteps} supersteps: {comparison.detail}"


def same(one: Values, other: Values) -> bool:
    """Return whether all values are bitwise equal."""
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


# supersteps -----------------------------------------------------------------------------------------------------------
def test_a_run_stops_at_its_limit(subject: Subject, problem: Question) -> None:
    """A run must not exceed its limit, unless it has settled it must reach it, and the values must be those of that
    superstep."""
    needs_steps(subject, problem)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        for supersteps in range(STEPS):
            engine.reset(problem.inputs)
            statistics = engine.run(supersteps)
            assert len(statistics.supersteps) == supersteps or statistics.settled, f"run({supersteps}): {statistics}"
            assert len(statistics.supersteps) <= supersteps, f"run({supersteps}): {statistics}"
            right_after(problem, outputs(problem.program, engine), supersteps)


def test_rows_are_those_of_the_whole_property(subject: Subject, problem: Question) -> None:
    """``rows`` returns ``values(name)[index]``, for any rows in any order."""
    random = np.random.default_rng(3)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(steps_of(subject, problem))
        for name in problem.program.outputs:
            whole = engine.values(name)
            index = random.integers(0, len(whole), 2 * len(whole)) if len(whole) else np.empty(0, np.int64)
            assert engine.rows(name, index).tobytes() == whole[index].tobytes(), name


def test_a_single_array_of_the_inputs_is_exchanged(subject: Subject, problem: Question) -> None:
    """A reset may receive the arrays of the previous one and one new array."""
    rolled = other_inputs(problem).properties
    if not rolled:
        pytest.skip("the program has no arrays as inputs")
    steps = steps_of(subject, problem)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(steps)
        for name in rolled:
            inputs = Inputs({**problem.inputs.properties, name: rolled[name]}, problem.inputs.parameters)
            engine.reset(inputs)
            engine.run(steps)
            right_after(problem, outputs(problem.program, engine), steps, inputs)


def test_a_run_continues_from_its_state(subject: Subject, problem: Question) -> None:
    """``run`` continues from the current state."""
    needs_steps(subject, problem)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        parts = [*engine.run(1).supersteps, *engine.run(STEPS - 1).supersteps]
        parted = outputs(problem.program, engine)
        engine.reset(problem.inputs)
        whole = engine.run(STEPS)
        comparison = compare(problem.program, parted, outputs(problem.program, engine))
    assert len(parts) == len(whole.supersteps)
    assert comparison.ok, comparison.detail


def test_a_settled_run_stays_settled(subject: Subject, problem: Question) -> None:
    """A further run changes nothing and reports that it has settled."""
    if not problem.program.control.settles:
        pytest.skip(f"{problem.program.name} runs for a fixed number of supersteps")
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        assert engine.run(problem.program.max_supersteps).settled
        before = outputs(problem.program, engine)
        again = engine.run(STEPS)
        assert again.settled
        assert compare(problem.program, outputs(problem.program, engine), before).ok


# inputs ---------------------------------------------------------------------------------------------------------------
def test_reset_discards_all_state(subject: Subject, problem: Question) -> None:
    """Other inputs and other run-time parameters replace the previous ones."""
    other = other_inputs(problem)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(problem.program.max_supersteps)
        engine.reset(other)
        engine.run(STEPS)
        right_after(problem, outputs(problem.program, engine), steps_of(subject, problem), other)


def state_of(problem: Question) -> Values:
    """Return values for a warm start: random ones for the programs of the suite; otherwise those after a superstep."""
    found = expected(problem.program, problem.graph, problem.features, problem.inputs, 1)
    if problem.program.name in PROGRAMS:
        draws = np.random.default_rng(2)
        return {name: draws.uniform(0.25, 1.25, value.shape).astype(np.float32) for name, value in found.items()}
    return {name: value.astype(np.float32) for name, value in found.items()}


def test_a_warm_state_is_used(subject: Subject, problem: Question) -> None:
    """``reset(inputs, state)`` starts from values of a previous run, and does not write to them."""
    needs_steps(subject, problem)
    state = state_of(problem)
    kept = {name: value.copy() for name, value in state.items()}
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs, state)
        engine.run(2)
        right_after(problem, outputs(problem.program, engine), 2, state=state)
    assert same(state, kept)


def arrays_of(problem: Question) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield every array that the engine is given."""
    graph = problem.graph
    yield from problem.inputs.properties.items()
    yield from [("CSR offsets", graph.csr.offsets), ("CSR neighbours", graph.csr.neighbours)]
    yield from [("CSC offsets", graph.csc.offsets), ("CSC neighbours", graph.csc.neighbours)]
    yield from [("out-degrees", graph.out_degrees), ("in-degrees", graph.in_degrees)]
    if graph.weights is not None:
        yield "weights", graph.weights


def test_inputs_are_not_written(subject: Subject, problem: Question) -> None:
    """Inputs and graph must be unchanged after a run."""
    before = {name: np.array(array) for name, array in arrays_of(problem)}
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(STEPS)
    written = [name for name, array in arrays_of(problem) if not np.array_equal(array, before[name])]
    for name, array in arrays_of(problem):  # restores them for the next test
        if name in written:
            array[...] = before[name]
    assert not written, f"it wrote to the caller's {', '.join(written)}"


def test_an_input_that_is_missing_or_misshapen_is_refused(subject: Subject, problem: Question) -> None:
    """InvalidInput names the input: nothing is substituted for it, and the next run is unaffected."""
    given, parameters = problem.inputs.properties, problem.inputs.parameters
    start = expected(problem.program, problem.graph, problem.features, problem.inputs, 0)
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        for name, array in given.items():
            rest = {other: kept for other, kept in given.items() if other != name}
            for wrong in (rest, {**rest, name: np.asarray(array)[:-1]}):
                with pytest.raises(InvalidInput, match=name):
                    engine.reset(Inputs(wrong, parameters))
        for name, value in start.items():
            with pytest.raises(InvalidInput, match=name):
                engine.reset(problem.inputs, {name: np.concatenate([value, value[:1]])})
        with pytest.raises(InvalidInput, match="no_such_property"):
            engine.reset(problem.inputs, {"no_such_property": next(iter(start.values()))})
        engine.reset(problem.inputs)
        engine.run(STEPS)
        right_after(problem, outputs(problem.program, engine), steps_of(subject, problem))


# outputs --------------------------------------------------------------------------------------------------------------
def test_values_are_copies(subject: Subject, problem: Question) -> None:
    """Writing to the result of ``values`` must not change the engine, and a further run must not change the result."""
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(1)
        for name in problem.program.outputs:
            values = engine.values(name)
            kept = np.array(values)
            values[...] = 0
            assert np.array_equal(engine.values(name), kept), f"writing to values({name!r}) changes the engine"
        name = problem.program.outputs[0]
        values = engine.values(name)
        kept = np.array(values)
        engine.run(1)
        assert np.array_equal(values, kept), f"values({name!r}) changed during a further run"


def test_explain_names_the_schedule(subject: Subject, problem: Question) -> None:
    """``explain`` returns a text that names the schedule."""
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        assert type(engine.schedule).__name__ in engine.explain()


# determinism ----------------------------------------------------------------------------------------------------------
def repeated() -> Iterator[tuple[str, Question]]:
    """Yield every program of the suite, one of them on a graph with work for every thread."""
    for name, (_, kind) in PROGRAMS.items():
        graph = max(graphs_for(kind), key=lambda graph: graph.num_edges)
        program = program_named(name)
        yield name, Question(program, graph, inputs_for(program, graph, FEATURES), FEATURES)
    graph, program = random_graph(20_000, 100_000), program_named("averaging")
    yield "averaging at length", Question(program, graph, inputs_for(program, graph, FEATURES), FEATURES)


def test_repetitions_agree(subject: Subject, statements: list[str]) -> None:
    """Every repetition stays within the bound.

    An engine that declares itself ``deterministic`` returns bitwise equal values each time, also in a new engine. For
    any other engine the largest difference is reported.
    """
    measured: dict[str, dict[str, float]] = {"again": {}, "in a new engine": {}, "with one thread": {}}
    promised = False
    for name, problem in repeated():
        if isinstance(subject.says(problem.program, problem.graph, FEATURES), No):
            continue
        case = problem.program, problem.graph, FEATURES, problem.inputs, problem.program.max_supersteps
        found = []
        with subject.prepared(problem.program, problem.graph, FEATURES) as engine:
            for _ in range(AGAIN):
                engine.reset(problem.inputs)
                engine.run(problem.program.max_supersteps)
                found.append(outputs(problem.program, engine))
            promised = engine.deterministic
        measured["again"][name] = max(furthest(other, found[0]) for other in found)
        measured["in a new engine"][name] = furthest(subject.answer(*case), found[0])
        measured["with one thread"][name] = furthest(subject.with_threads(1).answer(*case), found[0])
        for kind, differences in measured.items():
            bound = 2 * problem.program.bound
            assert differences[name] <= bound, f"{name}, run {kind}, is off by {differences[name]} (bound {bound})"
            if promised and kind != "with one thread":
                assert not differences[name], f"it declares itself deterministic, and {name}, run {kind}, differs"
    statements.append(f"determinism, run {', '.join(measured)} (of up to {os.cpu_count()}):")
    statements.append(f"  it declares itself {'' if promised else 'not '}deterministic")
    statements.extend(f"  {kind}: {in_words(differences)}" for kind, differences in measured.items())


def furthest(one: Values, other: Values) -> float:
    """Return the largest relative difference: 0 if all bits are equal, otherwise more than 0."""
    if same(one, other):
        return 0.0
    return max(max(float(relative_error(one[name], other[name]).max(initial=0.0)) for name in one), 1e-9)


def in_words(differences: dict[str, float]) -> str:
    """Describe which programs gave bitwise equal results."""
    moved = {name: value for name, value in differences.items() if value}
    if not moved:
        return f"bitwise equal ({len(differences)} programs)"
    return "; ".join(f"{name} differs by up to {value:.1e}" for name, value in moved.items()) + "; others equal"

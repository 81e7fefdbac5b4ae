"""Compare answers with the float64 reference: every small program on every small graph, and every built-in algorithm.

A refusal must be consistent: *unsupported* with a reason, given beforehand and every time.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from harness.conformance.graphs import graphs_for, two_sides
from harness.conformance.matrix import Question, built_in, question
from harness.conformance.plugin import FEATURES, MORE_FEATURES
from harness.conformance.programs import PROGRAMS, inputs_for, program_named
from harness.conformance.subject import Subject, Unsupported, Values, expected, outputs
from harness.contract import Direction, No, RunStatistics, Yes
from harness.graph import Graph
from harness.language import Program
from harness.language.analysis import edge_properties
from harness.language.program import EdgeReduce, EdgeUpdate, edge_steps
from harness.language.validation import compare

WORDS_OF_A_REASON = 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_supported_programs_are_answered_correctly(subject: Subject, name: str, features: int) -> None:
    """Compare with the bound that the program states, in the shape and the dtype of the contract."""
    refused = []
    for graph in graphs_for(PROGRAMS[name][1]):
        try:
            check(subject, name, graph, features)
        except Unsupported as reason:
            refused.append(str(reason))
    if len(refused) == len(graphs_for(PROGRAMS[name][1])):
        pytest.skip(f"unsupported: {refused[0]}")


def check(subject: Subject, name: str, graph: Graph, features: int) -> None:
    """Run a program to its end and compare every output. Raises Unsupported if the engine refuses it."""
    program = program_named(name)
    inputs, limit = inputs_for(program, graph, features), program.max_supersteps
    with subject.prepared(program, graph, features) as engine:
        engine.reset(inputs)
        statistics = engine.run(limit)
        found = outputs(program, engine)
        stepwise = engine.stepwise
    where = f"{name} on {graph.name!r} with k = {features}"
    well_formed(program, found, where)
    comparison = compare(program, found, expected(program, graph, features, inputs, limit))
    assert comparison.ok, f"{where}: {comparison.detail}"
    assert stepwise == subject.stepwise(program, graph, features), f"{where}: supports() and prepare() differ in it"
    if stepwise:
        consistent(statistics, program, graph, where)
    else:
        assert not statistics.supersteps, f"{where}: it is not stepwise and reports {len(statistics.supersteps)}"
    assert statistics.settled or not program.control.settles, f"{where}: it reports that it has not settled"


def well_formed(program: Program, found: Values, where: str) -> None:
    """Check that outputs are float32, or bool; shapes are compared with the reference's."""
    for output, value in found.items():
        boolean = program.properties[output].dtype == "bool"
        assert value.dtype == (np.bool_ if boolean else np.float32), f"{where}: {output} is {value.dtype}"


def consistent(statistics: RunStatistics, program: Program, graph: Graph, where: str) -> None:
    """Check that the counts of a run are possible."""
    limit, most = program.max_supersteps, most_active(program, graph)
    assert 0 < len(statistics.supersteps) <= limit, f"{where}: {len(statistics.supersteps)} supersteps of {limit}"
    for step in statistics.supersteps:
        assert 0 <= step.active <= most, f"{where}: {step}"
        assert step.edges >= 0, f"{where}: {step}"
        assert step.direction in get_args(Direction), f"{where}: {step}"


def most_active(program: Program, graph: Graph) -> int:
    """Return the largest possible number of active sources, where a source is active for a stage.

    At the start all vertices are active. The sources of an edge reduction are the vertices, and the edges if it reads
    changing ones. The sources of a product may count three times: for the sum of logarithms, for the number of zeros
    and for the sign. The sources of an edge update are both ends and the edges.
    """
    most = graph.num_vertices
    for stage in program.stages:
        if isinstance(stage, EdgeReduce):
            edges = graph.num_edges if edge_properties(program, stage) else 0
            most += (graph.num_vertices + edges) * (3 if stage.reducer == "prod" else 1)
        elif isinstance(stage, EdgeUpdate):
            most += graph.num_vertices + graph.num_edges
    return most


@pytest.mark.parametrize("name", PROGRAMS)
def test_supports_is_consistent(subject: Subject, name: str, features: int) -> None:
    """Check that ``supports`` returns the bytes it will hold, or a reason, and changes nothing."""
    program, graph = program_named(name), two_sides()
    engine = subject.new()
    first, second = (engine.supports(program, graph, features, subject.device) for _ in range(2))
    assert first == second
    plain(first)


def plain(answer: Yes | No) -> None:
    """Check for a number of bytes, or a sentence for a table."""
    if isinstance(answer, Yes):
        assert isinstance(answer.bytes_needed, int)
        assert answer.bytes_needed > 0
    else:
        assert isinstance(answer, No)
        assert len(answer.reason.split()) >= WORDS_OF_A_REASON, f"{answer.reason!r} is not a sentence for a table"


def test_it_supports_something(subject: Subject, statements: list[str]) -> None:
    """An engine that refuses everything does not conform."""
    problems = {name: (program_named(name), two_sides(), 3) for name in PROGRAMS}
    small = {label: question(algorithm, 4) for label, algorithm in built_in().items()}
    problems |= {label: (one.program, one.graph, one.features) for label, one in small.items()}
    answers = {label: subject.says(*one) for label, one in problems.items()}
    refused = {label: answer.reason for label, answer in answers.items() if isinstance(answer, No)}
    statements.append(f"supports {len(answers) - len(refused)} of {len(answers)} programs")
    statements.extend(f"  unsupported: {label}: {reason}" for label, reason in refused.items())
    assert len(refused) < len(answers)


def test_memory_grows_with_features(subject: Subject) -> None:
    """The number of bytes that the engine will hold must not decrease with the number of features."""
    for name in PROGRAMS:
        few, many = (subject.says(program_named(name), two_sides(), k) for k in (2, 8))
        if isinstance(few, Yes) and isinstance(many, Yes):
            assert few.bytes_needed <= many.bytes_needed, name


# the matrix -----------------------------------------------------------------------------------------------------------
@functools.cache
def answered(label: str, features: int) -> tuple[Question, Values]:
    """Return a built-in algorithm on a small graph, and the reference's answer."""
    problem = question(built_in()[label], features)
    limit = problem.program.max_supersteps
    return problem, expected(problem.program, problem.graph, features, problem.inputs, limit)


def test_built_in_algorithms_are_answered_correctly(
    subject: Subject, algorithm: str, schedule: dict[str, object], pytestconfig: pytest.Config
) -> None:
    """Every supported algorithm, for one number of features each, or for several under ``--thorough``."""
    one = FEATURES[list(built_in()).index(algorithm) % len(FEATURES)]
    refused = []
    numbers = MORE_FEATURES if pytestconfig.getoption("--thorough") else (one,)
    for features in numbers:
        problem, wanted = answered(algorithm, features)
        where = f"{algorithm} with k = {features}"
        try:
            case = problem.program, problem.graph, features, problem.inputs, problem.program.max_supersteps
            chosen = replace(subject, options=schedule)
            if edge_steps(problem.program):
                found, wanted = chosen.answer_and_replay(*case)
            else:
                found = chosen.answer(*case)
        except Unsupported as reason:
            refused.append(str(reason))
            continue
        well_formed(problem.program, found, where)
        comparison = compare(problem.program, found, wanted)
        assert comparison.ok, f"{where}: {comparison.detail}"
    if len(refused) == len(numbers):
        pytest.skip(f"unsupported: {refused[0]}")

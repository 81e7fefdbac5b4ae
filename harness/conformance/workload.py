"""Small and large graphs, with a program that the engine under test supports."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.conformance.matrix import Question, built_in
from harness.conformance.programs import inputs_for, program_named
from harness.conformance.subject import Subject, Unsupported
from harness.contract import No
from harness.graph import Graph
from harness.language import InvalidInput, trace

FEATURES = 32
SIMPLE = ("averaging", "settling", "nearest", "widest")


def workload(subject: Subject, vertices: int, edges: int) -> Question:
    """Return a supported program on a random graph, for 32 features: one of the suite, or else a built-in algorithm.

    Raises Unsupported if there is none.
    """
    refusals = []
    for problem in _candidates(random_graph(vertices, edges)):
        answer = subject.says(problem.program, problem.graph, problem.features)
        if not isinstance(answer, No):
            return problem
        refusals.append(answer.reason)
    raise Unsupported(f"no program that fits a random graph: {'; '.join(dict.fromkeys(refusals))}")


def _candidates(graph: Graph) -> Iterator[Question]:
    for name in SIMPLE:
        yield Question(program_named(name), graph, inputs_for(program_named(name), graph, FEATURES), FEATURES)
    for algorithm in built_in().values():
        try:
            prepared = algorithm.prepare_graph(graph)
            yield Question(trace(algorithm), prepared, algorithm.inputs(prepared, FEATURES), FEATURES)
        except InvalidInput:  # it needs ratings, or a picture
            continue


def random_graph(vertices: int, edges: int) -> Graph:
    """Return a graph of random weighted edges, including parallel ones and self-loops."""
    rng = np.random.default_rng(7)
    return Graph.from_edges(
        rng.integers(0, vertices, edges), rng.integers(0, vertices, edges), num_vertices=vertices, name="random",
        weights=rng.uniform(0.25, 1.0, edges).astype(np.float32), duplicates="keep",
    )  # fmt: skip

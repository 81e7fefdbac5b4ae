"""Every engine's answers against the float64 reference, within the bounds that the programs state."""

from __future__ import annotations

import pytest

from harness.language.validation import compare
from tests.engines.problems import ALGORITHMS, FEATURES, SMALL, STRATEGIES, outputs_of, prepared, problem, program, reference

GRAPHS = {
    "label_propagation": tuple(SMALL),
    "pagerank": tuple(SMALL),
    "als": ("ratings",),
    "als_all": tuple(SMALL),
}
WORK = 4_000_000  # elements of messages that the reference computes for one answer


def supersteps(algorithm, graph, features):
    """As many supersteps as the program may take, or as the reference can afford."""
    elements = graph.num_edges * features * (features if algorithm.startswith("als") else 1)
    return max(3, min(program(algorithm).max_supersteps, WORK // max(elements, 1)))


def check(strategy, algorithm, features, graphs):
    name, options = STRATEGIES[strategy]
    for graph_name in graphs:
        graph, inputs = problem(algorithm, graph_name, features)
        engine = prepared(name, options, program(algorithm), graph, features)
        engine.reset(inputs)
        count = supersteps(algorithm, graph, features)
        engine.run(count)
        wanted, _, _ = reference(algorithm, graph_name, features, count)
        found = compare(program(algorithm), outputs_of(engine, program(algorithm)), wanted)
        assert found.ok, f"{graph_name}: {found.detail}"
        engine.close()


# Every strategy meets every program; the numbers of features take turns, so that each meets each strategy and program.
PAIRED = [
    (strategy, algorithm, FEATURES[(3 * i + 2 * j + 4 * turn + (i > 3)) % len(FEATURES)])
    for i, strategy in enumerate(STRATEGIES)
    for j, algorithm in enumerate(ALGORITHMS)
    for turn in range(1)
]


@pytest.mark.parametrize(("strategy", "algorithm", "features"), PAIRED)
def test_answers_on_small_graphs(strategy, algorithm, features):
    check(strategy, algorithm, features, GRAPHS[algorithm])


@pytest.mark.full
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_answers_on_small_graphs(strategy, algorithm, features):
    check(strategy, algorithm, features, GRAPHS[algorithm])

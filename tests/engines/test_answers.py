"""Every engine's answers against the float64 reference, within the bounds that the programs state."""

from __future__ import annotations

import os

import pytest

from harness.language.validation import compare
from tests.engines.problems import (
    ALGORITHMS,
    FEATURES,
    SMALL,
    STRATEGIES,
    outputs_of,
    prepared,
    problem,
    program,
    published,
    reference,
)

# ALS needs ratings that differ; on a star, with all sides at once, it shrinks to nothing and with it every digit.
GRAPHS = {
    "label_propagation": tuple(SMALL),
    "pagerank": tuple(SMALL),
    "als": ("ratings",),
    "als_all": ("scattered", "chain", "grid", "rmat", "ratings"),
}
REAL = {
    "label_propagation": ("digits", "wiki-Vote", "rome99"),
    "pagerank": ("digits", "wiki-Vote", "rome99"),
    "als": ("movielens",),
    "als_all": ("digits",),
}
WORK = 3_000_000  # elements of messages that the reference computes for one answer


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


# Every strategy meets every program; the numbers of features take turns (small ones for ALS, which is cubic in them).
def turn(i, j, algorithm):
    choice = (1, 3, 4, 7, 8) if algorithm.startswith("als") else FEATURES
    return choice[(3 * i + 2 * j + (i > 3)) % len(choice)]


PAIRED = [
    (strategy, algorithm, turn(i, j, algorithm))
    for i, strategy in enumerate(STRATEGIES)
    for j, algorithm in enumerate(ALGORITHMS)
]


def here(graphs):
    """Those of the published graphs that can be had."""
    return graphs if os.environ.get("HARNESS_DATA") else tuple(name for name in graphs if name == "digits")


@pytest.mark.parametrize(("strategy", "algorithm", "features"), PAIRED)
def test_answers(strategy, algorithm, features):
    check(strategy, algorithm, features, GRAPHS[algorithm] + here(REAL[algorithm]))


def test_published_graphs_took_part():
    for name in {name for names in REAL.values() for name in names}:
        assert published(name).num_edges > 0


@pytest.mark.full
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_answers(strategy, algorithm, features):
    check(strategy, algorithm, features, GRAPHS[algorithm] + here(REAL[algorithm]))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hub_of_a_hundred_thousand_equal_messages(strategy):
    name, options = STRATEGIES[strategy]
    graph, inputs = problem("pagerank", "great hub", 1)
    engine = prepared(name, options, program("pagerank"), graph, 1)
    engine.reset(inputs)
    engine.run(5)
    wanted, _, _ = reference("pagerank", "great hub", 1, 5)
    found = compare(program("pagerank"), outputs_of(engine, program("pagerank")), wanted)
    assert found.ok, found.detail

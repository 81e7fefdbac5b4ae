"""Inputs of the wrong length (seeds, sources, queries, potentials, weights) are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.graph.generators import random_ratings, rmat
from harness.language import Inputs, InvalidInput
from harness.language.reference import ReferenceRun
from tests.algorithms.networks import picture
from tests.algorithms.warm import ALGORITHMS, program

FEATURES = 3


def given(name):
    """Return the graph of an algorithm and its inputs."""
    if name == "als":
        graph = random_ratings(users=20, items=12, num_ratings=100)
    elif name == "belief_propagation":
        graph = picture(FEATURES)
    else:
        graph = rmat(scale=5, edge_factor=4, max_weight=4)
    graph = ALGORITHMS[name].prepare_graph(graph)
    return graph, ALGORITHMS[name].inputs(graph, FEATURES)


def misshapen(array):
    """Yield variants with one row less, one row more, and for vectors one feature more."""
    yield array[:-1]
    yield np.concatenate([array, array[:1]])
    if array.ndim > 1:
        yield np.concatenate([array, array[..., :1]], axis=-1)


@pytest.mark.parametrize("features", [1, FEATURES])
@pytest.mark.parametrize("vertices", [0, 1, 5])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_graph_without_edges_runs_or_is_refused_in_words(name, vertices, features):
    """Without vertices there is no source."""
    bare = Graph.from_edges(
        [], [], num_vertices=vertices, name="bare", bipartite=(vertices // 2, vertices - vertices // 2),
        vertex_data={"unary": np.ones((vertices, features))},
    )  # fmt: skip
    graph = ALGORITHMS[name].prepare_graph(bare)
    starts = name in ("bfs", "sssp", "manifold_ranking") or (name == "pagerank" and features > 1)
    if starts and not vertices:
        with pytest.raises(InvalidInput, match="graph 'bare' has no vertices to start from"):
            ALGORITHMS[name].inputs(graph, features)
        return
    run = ReferenceRun(program(name), graph, features)
    run.reset(ALGORITHMS[name].inputs(graph, features))
    assert run.run(program(name).max_supersteps).settled
    for output in program(name).outputs:
        assert run.values(output).shape[0] == vertices


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_input_of_the_wrong_length_is_refused_by_name(name):
    graph, inputs = given(name)
    run = ReferenceRun(program(name), graph, FEATURES)
    run.reset(inputs)
    for title, array in inputs.properties.items():
        for wrong in misshapen(np.asarray(array)):
            with pytest.raises(InvalidInput, match=f"input '{title}' has shape"):
                run.reset(Inputs({**inputs.properties, title: wrong}, inputs.parameters))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_missing_input_is_refused_by_name(name):
    graph, inputs = given(name)
    for title in inputs.properties:
        rest = {other: array for other, array in inputs.properties.items() if other != title}
        with pytest.raises(InvalidInput, match=f"input '{title}'"):
            ReferenceRun(program(name), graph, FEATURES).reset(Inputs(rest, inputs.parameters))

"""Programs of several phases on a GPU: the example of the language's page, checked phase by phase."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import onyx_harness
from tests.language.test_reference_page import example


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["onyx", "gunrock", "tigr", "simdx"])
@pytest.mark.parametrize("features", [3, 32])
def test_betweenness_of_random_graphs(engine, features):
    seed = np.random.SeedSequence().entropy % 1000
    graph = nx.gnp_random_graph(150, 0.03, seed=seed, directed=True)
    algorithm = example("phases")["Betweenness"]
    result = onyx_harness.run(engine, algorithm, graph, features=features, validate=True, device="cuda")
    expected = np.zeros(len(graph))
    for source in range(features):
        some = nx.betweenness_centrality_subset(graph, [source], list(graph), normalized=False)
        expected += np.array([some[vertex] for vertex in graph])
    found = np.where(result.answer("level") > 0, result.answer("dependency"), 0).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")

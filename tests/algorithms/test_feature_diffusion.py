"""Feature diffusion, against powers of a dense matrix in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.algorithms.edge_blocks import over_roots_of_totals
from harness.algorithms.feature_diffusion import FeatureDiffusion
from harness.graph import Graph
from harness.language import InvalidInput
from tests.algorithms.answers import answer
from tests.algorithms.multigraphs import adjacency_of, multigraphs


@given(multigraphs(), st.sampled_from([1, 3, 8]), st.integers(1, 5))
@settings(deadline=None)
def test_a_hop_multiplies_by_the_normalised_matrix(graph, features, hops):
    algorithm = FeatureDiffusion(hops=hops, seed=hops)
    found, settled = answer(algorithm, graph, features)
    weighted = adjacency_of(graph, graph.weights)  # row u: the out-edges of u
    out, into = weighted.sum(axis=1), weighted.sum(axis=0)
    scale = np.sqrt(np.outer(out, into))
    hop = np.divide(weighted, scale, out=np.zeros_like(weighted), where=scale > 0).T
    given = algorithm.inputs(graph, features).properties["given"].astype(np.float64)
    np.testing.assert_allclose(found, np.linalg.matrix_power(hop, hops) @ given, rtol=1e-6 * hops, atol=1e-12)
    assert not settled


@given(multigraphs(), st.integers(0, 9))
@settings(max_examples=25)
def test_a_weight_is_divided_by_the_roots_of_what_leaves_and_what_arrives(graph, seed):
    values = np.random.default_rng(seed).uniform(0, 2, graph.num_edges) * (np.arange(graph.num_edges) % 4 > 0)
    dense = adjacency_of(graph, values)
    leaving, arriving = dense.sum(axis=1)[graph.csr.row_of_edge], dense.sum(axis=0)[graph.csr.neighbours]
    expected = np.divide(values, np.sqrt(leaving * arriving), out=np.zeros_like(values), where=values > 0)
    found = over_roots_of_totals(graph, values)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_edges_without_weights_count_once():
    path = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="path")
    inputs = FeatureDiffusion().inputs(path, 2).properties
    assert inputs["coefficient"].tolist() == [1.0, 1.0]
    assert inputs["given"].shape == (3, 2)
    assert 0 <= inputs["given"].min() < inputs["given"].max() < 1


def test_negative_weights_are_refused():
    graph = Graph.from_edges([0, 1], [1, 0], num_vertices=2, weights=np.array([1, -1], np.float32), name="signed")
    with pytest.raises(InvalidInput, match="negative"):
        FeatureDiffusion().inputs(graph, 1)

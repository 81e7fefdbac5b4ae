"""Inverses of small matrices on emulated CUDA devices, compared with LAPACK in float64."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Inputs, K, inverse
from tests.engines.programs import traced
from tests.engines.test_cuda import prepared


def inverses(p, self):
    """Invert a matrix of every vertex."""
    p.vertex("a", (K, K))
    p.vertex("x", (K, K), start="a")

    @p.over_vertices
    def invert(v):
        return {"x": inverse(v.a)}

    p.repeat(1)
    p.output("x", bound=1e-3)


def matrices(features):
    """Return matrices [V, k, k] whose inversion exchanges many rows: rotations of rows by every distance, random
    permutations with scales, random matrices with zeros on the diagonal; and a singular one, the last."""
    rng = np.random.default_rng(features)
    rotations = [np.roll(np.eye(features), distance, axis=0) for distance in range(1, features)]
    permuted = [np.eye(features)[rng.permutation(features)] * 2.0 ** rng.integers(-9, 9, features) for _ in range(4)]
    dense = rng.standard_normal((6, features, features)) * (1 - np.eye(features))
    return np.stack([*rotations, *permuted, *dense, np.ones((features, features))]).astype(np.float32)


@pytest.mark.parametrize(("schedule", "features"), [("pull-loops", 3), ("pull", 35)])
def test_inverses_of_matrices_whose_rows_are_exchanged(schedule, features, emulated):
    given = matrices(features)
    graph = Graph.from_edges([0], [1], num_vertices=len(given), name="matrices")
    program = traced(inverses, "inverses")
    engine = prepared(schedule, program, graph, features, emulated)
    engine.reset(Inputs({"a": given}, dict(program.parameters)))
    engine.run(1)
    *found, singular = engine.values("x")
    for matrix, value in zip(given[:-1].astype(np.float64), found, strict=True):
        exact = np.linalg.inv(matrix)
        assert np.abs(value - exact).max() <= 1e-6 * np.linalg.cond(matrix) * np.abs(exact).max()
    assert np.isnan(singular).all()
    engine.close()

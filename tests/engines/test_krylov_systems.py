"""Krylov plans against the solution of the system by NumPy: one number or a row for each vertex, counts, limits."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.contract import EngineFailure
from harness.graph.generators import grid
from harness.language import Inputs, K
from tests.engines.problems import prepared
from tests.engines.programs import traced

SIDE, LEAK, ITERATES = 9, 0.2, 500
TOLERANCE = 1e-4


def heat_of(shape, at_most=ITERATES):
    """Return a program whose matrix is symmetric on a grid with every edge in both directions."""

    def build(p, self):
        p.vertex("source", *shape)
        p.vertex("heat", *shape, start="source")
        p.over_edges(into="flow", reduce="sum")(lambda src: src.heat)
        p.over_vertices(lambda v: {"heat": 0.5 * v.source + LEAK * v.flow})
        p.until_settled(self.tolerance, at_most=at_most)
        p.output("heat", bound=1e-3)

    return traced(build, "heat", tolerance_value=TOLERANCE)


@functools.cache
def square():
    return grid(rows=SIDE, columns=SIDE)


@functools.cache
def exact(features):
    """Return the sources, [V, k], and the heat that NumPy finds in float64."""
    graph = square()
    matrix = np.zeros((graph.num_vertices,) * 2)
    ends = np.repeat(np.arange(graph.num_vertices), np.diff(graph.csr.offsets))
    np.add.at(matrix, (graph.csr.neighbours.astype(np.int64), ends), LEAK)
    assert np.array_equal(matrix, matrix.T)
    source = np.random.default_rng(features).uniform(-1.0, 1.0, (graph.num_vertices, features)).astype(np.float32)
    return source, np.linalg.solve(np.eye(len(matrix)) - matrix, 0.5 * source.astype(np.float64))


def run(shape, features, solver, source, at_most=ITERATES):
    """Return an engine that has run."""
    engine = prepared("onyx", {"solver": solver}, heat_of(shape, at_most), square(), features)
    engine.reset(Inputs({"source": source if shape else source[:, 0]}, {"tolerance": TOLERANCE}))
    assert engine.run(1).settled
    return engine


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("solver", ["cg", "bicgstab"])
@pytest.mark.parametrize(("shape", "features"), [((), 3), ((K,), 1), ((K,), 3)])
def test_the_state_is_the_solution_of_the_system(shape, features, solver):
    source, heat = exact(features if shape else 1)
    engine = run(shape, features, solver, source)
    found = engine.values("heat").reshape(heat.shape)
    assert np.abs(found - heat).max() <= TOLERANCE * np.abs(heat).max()
    resolved = engine.resolved_options()
    counts = dict(resolved["solved"])
    assert resolved["solver"] == solver
    assert counts["edges"] == counts["products"] * square().num_edges
    # one product of an iteration of CG, two of BiCGSTAB; others are those between corrections and of the right side
    assert counts["products"] > counts["iterations"] * (1 if solver == "cg" else 2)
    engine.close()


@pytest.mark.short_run(rows=1)
def test_a_run_takes_as_many_products_as_the_program_has_supersteps_but_no_more():
    source, _ = exact(3)
    taken = dict(run((K,), 3, "cg", source).resolved_options()["solved"])["products"]
    again = run((K,), 3, "cg", source, at_most=taken)
    assert dict(again.resolved_options()["solved"])["products"] == taken
    with pytest.raises(EngineFailure, match=f"within {taken - 1} products"):
        run((K,), 3, "cg", source, at_most=taken - 1)


@pytest.mark.parametrize(("shape", "bytes_"), [((), 4 * SIDE**2), ((K,), 4 * 3 * SIDE**2)])
def test_the_plan_states_the_vectors_and_that_supersteps_are_not_counted(shape, bytes_):
    engine = prepared("onyx", {"solver": "auto"}, heat_of(shape), square(), 3)
    text = engine.explain().splitlines()
    assert text[:4] == [
        "Krylov plan: leaves bulk-synchronous order; supersteps are not counted",
        "solver: auto: cg if the inputs are symmetric, else bicgstab, for corrections of 'heat', each to 0.0001 of the "
        "residual",
        "between corrections: 4 supersteps, each measured; the run ends when one meets the criterion",
        f"memory: 8 vectors of {bytes_:,} bytes",
    ]
    engine.close()

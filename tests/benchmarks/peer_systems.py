"""The jobs whose answers solve linear systems: manifold ranking and multimodal learning.

No library has either under that name. What solves the same systems: SciPy's sparse products, put together by hand,
superstep by superstep; and SciPy's Krylov solvers, column by column, conjugate gradients where the system can be made
symmetric, BiCGSTAB elsewhere, each at the loosest tolerance whose answer is true.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike
from scipy.sparse.linalg import bicgstab, cg

from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.graph import Graph
from harness.language import Algorithm
from tests.benchmarks.peer_forms import incoming
from tests.benchmarks.peer_jobs import Array, Job, Peer

TOLERANCES = tuple(10.0**-digits for digits in range(2, 12))
ROUNDING = 1e-12  # of the truth, relative, in the L1 norm
MOST_STEPS = 300  # of a Krylov solver that converges


@dataclass(frozen=True)
class System:
    """``(I - matrix) x = right`` for some ``columns`` of the answer; ``scale`` ``[V]`` makes S (I - matrix) S^-1
    symmetric, where there is such a thing.
    """

    columns: slice
    matrix: Any
    right: Array
    scale: Array
    scaled: Any
    symmetric: bool

    @classmethod
    def of(cls, matrix: Any, right: Array, columns: slice, scale: Array) -> System:
        """``scale``: what would make it symmetric if arcs are as strong one way as the other."""
        plain = (scipy.sparse.eye_array(len(scale)) - matrix).tocsr()
        scaled = (scipy.sparse.diags_array(scale) @ plain @ scipy.sparse.diags_array(1 / scale)).tocsr()
        if abs(scaled - scaled.T).max() <= 1e-6:  # affinities are of float32, the diagonal is 1
            return cls(columns, matrix, right, scale, scaled, symmetric=True)
        return cls(columns, matrix, right, np.ones_like(scale), plain, symmetric=False)

    def astype(self, dtype: DTypeLike) -> System:
        forms = (self.matrix, self.right, self.scale, self.scaled)
        return System(self.columns, *(form.astype(dtype) for form in forms), self.symmetric)

    def solve(self, x: Array, tolerance: float) -> int:
        """Solve into ``x[:, columns]``, from what is there; how many products with the matrix that took."""
        solver, of_one_step = (cg, 1) if self.symmetric else (bicgstab, 2)
        steps: list[None] = []
        for column, right in zip(np.arange(x.shape[1])[self.columns], self.right.T, strict=True):
            first = self.scale * x[:, column]
            found, _ = solver(
                self.scaled, self.scale * right, first, rtol=tolerance, maxiter=MOST_STEPS,
                callback=lambda _: steps.append(None),
            )  # fmt: skip
            x[:, column] = found / self.scale
        return of_one_step * len(steps)


def manifold_ranking(graph: Graph, features: int) -> Job:
    """Three manifolds, drawn; feature f is of manifold f mod 3, so that each has a system of its own."""
    algorithm = ManifoldRanking()
    graph = algorithm.prepare_graph(graph)
    properties = algorithm.inputs(graph, features).properties
    affinity, query = properties["affinity"], properties["query"].astype(np.float64)
    systems = []
    for view in range(3):
        matrix = incoming(graph, affinity[:, view])
        totals = np.asarray(matrix.sum(axis=1)).ravel()
        totals[totals == 0] = 1.0
        share = (scipy.sparse.diags_array(algorithm.alpha / totals) @ matrix).tocsr()
        columns = slice(view, None, 3)
        systems.append(System.of(share, (1 - algorithm.alpha) * query[:, columns], columns, np.sqrt(totals)))
    bound = algorithm.tolerance / (1 - algorithm.alpha)
    return _job(f"manifold ranking, {features} queries", algorithm, graph, "mm", query, systems, bound)


def multimodal(graph: Graph, features: int) -> Job:
    """Linear fusion is one system: the matrices of the modalities are added up beforehand."""
    algorithm = Multimodal(seeds="random")
    graph = algorithm.prepare_graph(graph)
    properties = algorithm.inputs(graph, features).properties
    known = properties["known"].astype(np.float64)
    fused = incoming(graph, algorithm.alpha * properties["affinity"].astype(np.float64).mean(axis=1))
    system = System.of(fused, (1 - algorithm.alpha) * known, slice(None), np.ones(graph.num_vertices))
    bound = algorithm.tolerance / (1 - algorithm.alpha)
    return _job(f"multimodal learning, {features} labels", algorithm, graph, "mmode", known, [system], bound)


def _job(
    title: str, algorithm: Algorithm, graph: Graph, output: str, start: Array, systems: list[System], bound: float
) -> Job:
    """As many supersteps for Onyx and for the products as bring every vector halfway within ``bound`` of the true one,
    in the L1 norm, relative to it; the other half is for rounding."""

    @functools.cache
    def truth() -> Array:
        """Solved, and then products until nothing moves, so that the one proves the other."""
        x, _ = _krylov(systems, start, 1e-13)
        moved = np.inf
        while moved > ROUNDING:
            x, before = _superstep(systems, x), x
            moved = _apart(x, before)
        return x

    supersteps, x = 0, start
    while _apart(x, truth()) > bound / 2:
        supersteps, x = supersteps + 1, _superstep(systems, x)

    def products(systems: list[System]) -> Array:
        x = start.astype(systems[0].right.dtype)
        for _ in range(supersteps):
            x = _superstep(systems, x)
        return x

    method = "cg" if all(system.symmetric for system in systems) else "bicgstab"
    features, peers = start.shape[1], []
    for dtype in (np.float32, np.float64):
        forms, name = [system.astype(dtype) for system in systems], np.dtype(dtype).name
        hand = f"scipy: csr @ {features} columns, {name}, by hand"
        peers.append(Peer(hand, lambda forms=forms: products(forms)))
        for rtol in TOLERANCES:
            found, work = _krylov(forms, start, rtol)
            if _apart(found, truth()) <= bound:
                solver = f"scipy {method}, {name}, rtol {rtol:g}, {work:.0f} products a column"
                peers.append(Peer(solver, lambda forms=forms, rtol=rtol: _krylov(forms, start, rtol)[0]))
                break
    return Job(
        f"{title}, {supersteps} supersteps", algorithm, graph, algorithm.inputs(graph, features), features, output,
        truth, _apart, bound, peers, supersteps=supersteps,
    )  # fmt: skip


def _apart(found: Array, true: Array) -> float:
    """The largest distance of two columns in the L1 norm, relative to that of the true one."""
    return float((np.abs(found - true).sum(axis=0) / np.abs(true).sum(axis=0)).max())


def _superstep(systems: list[System], x: Array) -> Array:
    if len(systems) == 1:  # all columns
        return np.asarray(systems[0].matrix @ x + systems[0].right)
    new = np.empty_like(x)
    for system in systems:
        new[:, system.columns] = system.matrix @ x[:, system.columns] + system.right
    return new


def _krylov(systems: list[System], start: Array, tolerance: float) -> tuple[Array, float]:
    """Every column solved, from where the supersteps start too, and how many products a column that took."""
    x = start.astype(systems[0].right.dtype)
    products = sum(system.solve(x, tolerance) for system in systems)
    return x, products / x.shape[1]

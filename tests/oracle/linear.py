"""Oracles of the affine programs: PageRank, manifold ranking and multimodal learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from tests.oracle.error_model import LEFT_OUT, TINY, WORST, Array, Expected, U, combined, in_matrix, summed

STEPS = 200_000  # of an iteration that must converge; more is an error of the oracle
DIRECT = 4000  # systems with at most this many vertices are factorised
Map = Callable[[Array], Array]


@dataclass(frozen=True)
class Affine:
    """x -> spread(x) + constant from ``start``, with ``spread`` linear and nonnegative; arrays are float64[V, k].

    solve: the solution of x = spread(x) + b for a right side b. terms: int[V], terms of the sum at each vertex; a
    superstep has ``sums`` of them and ``roundings`` further operations. shared: the rounding error of reductions
    over the whole graph. tolerance: the program's, relative to each value (norm "max") or to the sum of a column
    ("sum").
    """

    alpha: float
    tolerance: float
    spread: Map
    solve: Map
    constant: Array
    start: Array
    terms: Array
    sums: int = 1
    roundings: int = 8
    shared: Map | None = None
    norm: str = "max"
    last: dict[object, tuple] = field(default_factory=dict)  # the last iterate of each kind

    def tolerated(self, x: Array) -> Array:
        """Return the tolerance at each entry."""
        return np.abs(x) * self.tolerance

    def rounding(self, x: Array, worst: bool) -> Array:
        """Return the rounding error of one superstep; 1 - alpha has the relative error U / (1 - alpha), because
        alpha is rounded."""
        units = self.sums * summed(self.terms, worst)[:, None] + self.roundings
        own = U / (1 - self.alpha) * np.abs(self.constant) + U * units * np.abs(x) + units * TINY
        return own if self.shared is None else own + self.shared(x)

    def after(self, supersteps: int, left_out: bool, kept: bool = False) -> Expected:
        """Return the iterate after exactly this many supersteps.

        left_out: changes within the tolerance need not be propagated. kept: sums are kept and changed by
        differences, so a rounding error is relative to the largest value so far. Iterates are computed in ascending
        order, each from the last.
        """
        done, x, errors, size = self.last.get((left_out, kept), (0, *self._begin()))
        if done > supersteps:
            done, x, errors, size = (0, *self._begin())
        for _ in range(done, supersteps):
            sources = [error + LEFT_OUT * self.tolerated(x) if left_out else error for error in errors]
            x = self.spread(x) + self.constant
            size = np.maximum(size, np.abs(x)) if kept else x
            errors = [self.spread(e) + self.rounding(size, w) for e, w in zip(sources, WORST, strict=True)]
        self.last[left_out, kept] = supersteps, x, errors, size
        return combined(x, *errors, f"{supersteps} supersteps in float64")

    def _begin(self) -> tuple[Array, list[Array], Array]:
        return self.start, [U * np.abs(self.start)] * 2, self.start

    def fixed(self, left_out: bool) -> Expected:
        """Return the fixed point, and the errors of a run that has settled."""
        x = self.solve(self.constant)
        missing = (LEFT_OUT if left_out else 0.0) + (1.0 if self.norm == "max" else 0.0)
        source = self.spread(missing * self.tolerated(x))
        bound = combined(x, *(self.solve(source + self.rounding(x, worst)) for worst in WORST), "the fixed point")
        if self.norm == "max":
            return bound
        return bound.wider(self.alpha / (1 - self.alpha) * self.tolerance * x.sum(axis=0))


def converged(spread: Map, b: Array) -> Array:
    """Return the solution of x = spread(x) + b by summing powers of ``spread``; b >= 0.

    Terms below float32's range are left out. Raises ArithmeticError if the terms do not vanish.
    """
    term, x = b.copy(), b.copy()
    for _ in range(STEPS):
        term = spread(term)
        x += term
        if (term <= np.maximum(1e-14 * x, 1e-3 * TINY)).all():
            return x
    raise ArithmeticError(f"no fixed point after {STEPS} terms")


def linear_solver(matrix: sp.csr_array) -> Map:
    """Solve (I - matrix) x = b: by factorisation if the matrix is small, otherwise by the sum of powers."""
    if matrix.shape[0] > DIRECT:
        return lambda b: converged(lambda x: matrix @ x, b)
    factors = scipy.sparse.linalg.splu(sp.csc_array(sp.identity(matrix.shape[0]) - matrix))
    return lambda b: np.maximum(factors.solve(b), 0.0)


def pagerank(graph, inputs: Mapping[str, Array], algorithm) -> Affine:
    """Solve rank = (1 - alpha + alpha * dangling . rank) teleport + alpha P rank.

    The rank-one part is solved separately: with y = (I - alpha P)^-1 teleport and z = (I - alpha P)^-1 b the
    solution for a right side b is z + alpha y (d . z) / (1 - alpha d . y), where d marks the vertices without
    out-edges.
    """
    alpha, teleport = algorithm.alpha, np.asarray(inputs["teleport"], np.float64)
    source, degree = graph.csr.row_of_edge, graph.out_degrees
    share = alpha / degree[source].astype(np.float64)
    links = in_matrix(graph.num_vertices, source, graph.csr.neighbours, share)
    dangling = (degree == 0).astype(np.float64)
    plain = linear_solver(links)
    walk = plain(teleport)

    def spread(x: Array) -> Array:
        return links @ x + alpha * (dangling @ x) * teleport

    def solve(b: Array) -> Array:
        z = plain(b)
        return z + walk * (alpha * (dangling @ z) / (1 - alpha * (dangling @ walk)))

    # Every rank gets a share of the sum over dangling vertices. Such a sum is pairwise, or in a wider type: an error of
    # log2 of its length, and of the 128 terms that NumPy sums sequentially.
    terms = 128 + np.log2(graph.num_vertices + 1)

    def shared(x: Array) -> Array:
        return U * terms * alpha * (dangling @ np.abs(x)) * teleport

    constant, terms_of = (1 - alpha) * teleport, graph.in_degrees
    return Affine(alpha, algorithm.tolerance, spread, solve, constant, teleport, terms_of, shared=shared)


def manifold_ranking(graph, inputs: Mapping[str, Array], algorithm) -> Affine:
    """Solve mm = alpha P mm + (1 - alpha) query, where P has the affinities of a feature, normalised over the in-edges
    of each vertex.

    Features with the same affinities share a matrix.
    """
    affinity = np.asarray(inputs["affinity"], np.float64)
    query = np.asarray(inputs["query"], np.float64)
    source, destination = graph.csr.row_of_edge, graph.csr.neighbours
    views, column = np.unique(affinity, axis=1, return_inverse=True)
    column = np.asarray(column).reshape(-1)
    matrices = []
    for view in views.T:
        total = np.bincount(destination, view, graph.num_vertices)
        share = np.divide(view, total[destination], out=np.zeros_like(view), where=total[destination] > 0)
        matrices.append(in_matrix(graph.num_vertices, source, destination, algorithm.alpha * share))
    solvers = [linear_solver(matrix) for matrix in matrices]

    def by_view(functions: list[Map], x: Array) -> Array:
        y = np.empty_like(x)
        for number, function in enumerate(functions):
            y[:, column == number] = function(np.ascontiguousarray(x[:, column == number]))
        return y

    def spread(x: Array) -> Array:
        return by_view([matrix.__matmul__ for matrix in matrices], x)

    # Two sums over the in-edges: of the products and of the affinities.
    return Affine(
        algorithm.alpha, algorithm.tolerance, spread, lambda b: by_view(solvers, b), (1 - algorithm.alpha) * query,
        query, graph.in_degrees, sums=2,
    )  # fmt: skip


def multimodal(graph, inputs: Mapping[str, Array], algorithm) -> Affine:
    """Solve mmode = sum_m alpha_m S_m mmode + (1 - alpha) known, with the S_m fused into one matrix beforehand."""
    affinity, known = (np.asarray(inputs[name], np.float64) for name in ("affinity", "known"))
    given = [float(word) for word in algorithm.shares.split()] or [1.0] * affinity.shape[1]
    fused = affinity @ (algorithm.alpha * np.array(given) / sum(given))
    matrix = in_matrix(graph.num_vertices, graph.csr.row_of_edge, graph.csr.neighbours, fused)
    return Affine(
        algorithm.alpha, algorithm.tolerance, lambda x: matrix @ x, linear_solver(matrix),
        (1 - algorithm.alpha) * known, known, graph.in_degrees, roundings=8 + affinity.shape[1],
    )  # fmt: skip

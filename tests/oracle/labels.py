"""Oracle of label propagation: affine once every label has arrived where it can."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from tests.oracle.error_model import Array, Expected, U, combined, in_matrix, summed
from tests.oracle.linear import linear_solver


class LabelPropagation:
    """lp = seed at labelled vertices, otherwise the normalised (1 - alpha) lp + alpha (mean of the in-neighbours).

    A row of lp sums to 1 or is zero: so the mean over in-neighbours is over those that some label has reached, and the
    map is affine from the superstep on in which the last label arrives. At the fixed point (1 - alpha) lp moves to the
    left side and alpha drops out: an unlabelled vertex is the weighted mean of its reached in-neighbours (Zhu and
    Ghahramani's harmonic solution), which is solved as a linear system.
    """

    def __init__(self, graph, inputs: Mapping[str, Array], algorithm) -> None:
        if not algorithm.clamp:
            raise NotImplementedError("without clamped seeds there is no single fixed point")
        self.alpha, self.tolerance = algorithm.alpha, algorithm.tolerance
        weight = np.ones(graph.num_edges) if graph.weights is None else graph.weights
        self.weights = in_matrix(graph.num_vertices, graph.csr.row_of_arc, graph.csr.neighbours, weight)
        self.seed = np.asarray(inputs["seed"], np.float64)
        self.labelled = np.asarray(inputs["labelled"], bool)[:, None]
        # A sum over the in-edges; two scalings to 1, each a sum over the row and a division; 1 - alpha in float32.
        more = 2 * self.seed.shape[1] + 8 + 1 / max(1 - self.alpha, U)
        self.units = [(summed(graph.in_degrees, worst) + more)[:, None] for worst in (True, False)]

    def after(self, supersteps: int, tolerance: bool, kept: bool = False) -> Expected:
        """The iterate after exactly this many supersteps; ``kept`` is that of :class:`tests.oracle.linear.Affine`."""
        size = x = self.seed.copy()
        errors = [np.zeros_like(self.seed)] * 2
        for _ in range(supersteps):
            reached = (x.sum(axis=1, keepdims=True) > 0).astype(np.float64)
            total = self.weights @ reached
            inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            moved = self.alpha * inverse * (self.weights @ x) + (1 - self.alpha) * x
            size = moved.sum(axis=1, keepdims=True)
            scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
            x = np.where(self.labelled, self.seed, moved * scale)
            size = np.maximum(size, x) if kept else x
            for number, (error, units) in enumerate(zip(errors, self.units, strict=True)):
                sources = error + self.tolerance * reached * ~self.labelled if tolerance else error
                spread = self.alpha * inverse * (self.weights @ sources) + (1 - self.alpha) * error
                errors[number] = np.where(self.labelled, 0.0, scale * spread + U * units * size)
        return combined(x, *errors, f"{supersteps} supersteps in float64")

    def fixed(self) -> Expected:
        """The harmonic solution; the errors of a settled run are those of e = alpha P (e + t) + (1 - alpha) e + r."""
        reached = self._reached()
        total = self.weights @ reached.astype(np.float64)
        free = reached & ~self.labelled[:, 0]
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=free & (total > 0))
        mean = sp.csr_array(sp.diags_array(scale) @ self.weights @ sp.diags_array(free.astype(np.float64)))
        clamped = np.where(self.labelled, self.seed, 0.0)
        solve = linear_solver(mean)
        x = np.where(free[:, None], solve(scale[:, None] * (self.weights @ clamped)), clamped)
        left_out = np.full((len(x), 1), self.tolerance) * free[:, None]
        tolerated = solve(mean @ left_out)
        x_free = np.where(free[:, None], x, 0.0)
        errors = [tolerated + solve(U * units * x_free / self.alpha) for units in self.units]
        return combined(x, *(np.where(free[:, None], error, 0.0) for error in errors), "the harmonic solution")

    def _reached(self) -> np.ndarray:
        """Which vertices a label can reach, bool[V], by a search from all seeds at once."""
        forward = sp.csr_array((self.weights > 0).T.astype(np.float64))
        distance = dijkstra(forward, indices=np.flatnonzero(self.labelled), unweighted=True, min_only=True)
        return np.isfinite(distance)

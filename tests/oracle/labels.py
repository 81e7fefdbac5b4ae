"""Oracle of label propagation: affine once every label has reached all vertices that it can reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from tests.oracle.error_model import LEFT_OUT, WORST, Array, Expected, U, combined, in_matrix, summed
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
        self.weights = in_matrix(graph.num_vertices, graph.csr.row_of_edge, graph.csr.neighbours, weight)
        self.seed = np.asarray(inputs["seed"], np.float64)
        self.labelled = np.asarray(inputs["labelled"], bool)[:, None]
        # A sum over the in-edges; two normalisations, each a sum over the row and a division; 1 - alpha in float32.
        more = 2 * self.seed.shape[1] + 8 + 1 / max(1 - self.alpha, U)
        self.units = [(summed(graph.in_degrees, worst) + more)[:, None] for worst in WORST]
        self.last: dict[object, tuple] = {}

    def after(self, supersteps: int, left_out: bool, kept: bool = False) -> Expected:
        """Return the iterate after exactly this many supersteps, as in :class:`tests.oracle.linear.Affine`."""
        begin = (0, self.seed, [np.zeros_like(self.seed)] * 2, self.seed)
        done, x, errors, size = self.last.get((left_out, kept), begin)
        if done > supersteps:
            done, x, errors, size = begin
        for _ in range(done, supersteps):
            reached = (x.sum(axis=1, keepdims=True) > 0).astype(np.float64)
            total = self.weights @ reached
            inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            moved = self.alpha * inverse * (self.weights @ x) + (1 - self.alpha) * x
            amount = moved.sum(axis=1, keepdims=True)
            scale = np.divide(1.0, amount, out=np.zeros_like(amount), where=amount > 0)
            missing = LEFT_OUT * self.tolerance * reached * ~self.labelled if left_out else 0.0
            spread = [self.alpha * inverse * (self.weights @ (e + missing)) + (1 - self.alpha) * e for e in errors]
            x = np.where(self.labelled, self.seed, moved * scale)
            size = np.maximum(size, x) if kept else x
            errors = [
                np.where(self.labelled, 0.0, scale * e + U * units * size)
                for e, units in zip(spread, self.units, strict=True)
            ]
        self.last[left_out, kept] = supersteps, x, errors, size
        return combined(x, *errors, f"{supersteps} supersteps in float64")

    def fixed(self, left_out: bool) -> Expected:
        """Return the harmonic solution; the errors of a settled run are those of e = alpha P (e + t) + (1 - alpha) e
        + r."""
        reached = self._reached()
        total = self.weights @ reached.astype(np.float64)
        free = reached & ~self.labelled[:, 0]
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=free & (total > 0))
        mean = sp.csr_array(sp.diags_array(scale) @ self.weights @ sp.diags_array(free.astype(np.float64)))
        clamped = np.where(self.labelled, self.seed, 0.0)
        solve = linear_solver(mean)
        x = np.where(free[:, None], solve(scale[:, None] * (self.weights @ clamped)), clamped)
        missing = (1 + LEFT_OUT * left_out) * self.tolerance * free[:, None].astype(np.float64)
        # A superstep moves x by alpha times the distance to the mean, so a movement of t is a distance of t / alpha.
        tolerated = solve(mean @ missing + (1 - self.alpha) / self.alpha * self.tolerance * free[:, None])
        x_free = np.where(free[:, None], x, 0.0)
        errors = [tolerated + solve(U * units * x_free / self.alpha) for units in self.units]
        return combined(x, *(np.where(free[:, None], error, 0.0) for error in errors), "the harmonic solution")

    def _reached(self) -> np.ndarray:
        """Return which vertices a label can reach, bool[V], by a search from all seeds at once."""
        forward = sp.csr_array((self.weights > 0).T.astype(np.float64))
        distance = dijkstra(forward, indices=np.flatnonzero(self.labelled), unweighted=True, min_only=True)
        return np.isfinite(distance)

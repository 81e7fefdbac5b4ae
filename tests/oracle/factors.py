"""Oracle of alternating least squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tests.oracle.error_model import LEFT_OUT, Array, Expected, in_matrix
from tests.oracle.sensitivity import Noise, Step, expected_after


class ALS:
    """x_v = (sum_u x_u x_u' + lambda n_v I)^-1 sum_u r_uv x_u, solved by LAPACK for all vertices at once.

    The Gram matrices of all vertices are one sparse product: the 0/1 matrix of the edges times the k^2 products of the
    factors. ``sides=alternate``: even supersteps solve the left side, odd ones the right.
    """

    def __init__(self, graph, inputs: Mapping[str, Array], algorithm) -> None:
        self.algorithm, self.initial = algorithm, np.asarray(inputs["initial"], np.float64)
        source, destination = graph.csr.row_of_edge, graph.csr.neighbours
        self.degrees = graph.in_degrees.astype(np.float64)
        self.links = in_matrix(graph.num_vertices, source, destination, np.ones(graph.num_edges))
        self.ratings = in_matrix(graph.num_vertices, source, destination, inputs["rating"])
        side = np.zeros(graph.num_vertices, int)
        if algorithm.sides == "alternate":
            side[graph.bipartite[0] :] = 1
        self.side = side

    def iterates(self, supersteps: Iterable[int], left_out: bool) -> dict[int, Expected]:
        allowed = LEFT_OUT * self.algorithm.tolerance if left_out else 0.0
        return expected_after(self._start, supersteps, allowed, by_row=True)

    def _start(self, noise: Noise) -> Step:
        x = noise.rounded(self.initial, 1.0)

        def step(number: int, noise: Noise) -> Array:
            nonlocal x
            turn = np.ones(len(x), bool) if self.algorithm.sides == "all" else self.side == number % 2
            x = np.where(turn[:, None], self._solved(noise.left_out(x), noise), x)
            return x

        return step

    def _solved(self, x: Array, noise: Noise) -> Array:
        count, k = x.shape
        terms = self.degrees[:, None] + 2.0
        products = np.einsum("vi,vj->vij", x, x).reshape(count, k * k)
        gram = noise.rounded(self.links @ products, terms)
        # Rounding in a sum of terms of both signs is relative to the sum of their magnitudes.
        right = self.ratings @ x
        right += noise.rounded(abs(self.ratings) @ np.abs(x), terms) - abs(self.ratings) @ np.abs(x)
        ridge = self.algorithm.lam * (np.maximum(self.degrees, 1.0) if self.algorithm.weighted else 1.0)
        system = gram.reshape(count, k, k) + (ridge * np.ones(count))[:, None, None] * np.eye(k)
        # The solver's own error, as that of a system whose entries have k rounding errors.
        diagonal = np.sqrt(np.einsum("vii->vi", system))
        size = diagonal[:, :, None] * diagonal[:, None, :]
        system = system + noise.rounded(size, 2.0 * k) - size
        return np.linalg.solve(system, right[:, :, None])[:, :, 0]

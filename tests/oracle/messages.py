"""Oracle of loopy belief propagation, sum-product and max-product, in logarithms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from tests.oracle.error_model import Array, Expected
from tests.oracle.sensitivity import Noise, Step, expected_after

BLOCK = 2**22  # elements of a temporary [edges, k, k]


class BeliefPropagation:
    """All messages at once, in log space: no product can underflow, and impossible states are counted separately.

    A superstep: the log-product at every vertex of its potential and of its incoming messages; the belief from it;
    then each message from the product without the message of the reverse edge.
    """

    def __init__(self, graph, inputs: Mapping[str, Array], algorithm) -> None:
        self.algorithm = algorithm
        self.phi = np.asarray(inputs["phi"], np.float64)
        self.psi = np.asarray(inputs["psi"], np.float64)
        self.source = graph.csr.row_of_edge.astype(np.int64)
        self.reverse = self._reverse(graph)
        edges, ends = np.arange(graph.num_edges), graph.csr.neighbours.astype(np.int64)
        self.gather = sp.csr_array((np.ones(len(edges)), (ends, edges)), shape=(graph.num_vertices, len(edges)))
        self.degrees = graph.in_degrees.astype(np.float64)[:, None]

    @staticmethod
    def _reverse(graph) -> np.ndarray:
        """Pair the i-th of the parallel edges u -> v with the i-th of v -> u, by sorting both ways."""
        row, column = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
        forward, backward = np.lexsort((column, row)), np.lexsort((row, column))
        reverse = np.empty(len(row), np.int64)
        reverse[forward] = backward
        assert (row[reverse] == column).all()
        assert (column[reverse] == row).all()
        return reverse

    def iterates(self, supersteps: Iterable[int], left_out: bool) -> dict[int, Expected]:
        allowed = self.algorithm.tolerance if left_out else 0.0
        return expected_after(self._start, supersteps, allowed, by_row=False)

    def _start(self, noise: Noise) -> Step:
        message = np.ones((len(self.source), self.phi.shape[1]))

        def step(number: int, noise: Noise) -> Array:
            nonlocal message
            seen = np.maximum(noise.left_out(message), 0.0) if number else message
            seen = np.where(message > 0, seen, 0.0)
            logs, zeros = self._logarithms(seen)
            phi, none = self._logarithms(self.phi)
            product, blocked = phi + self.gather @ logs, none + self.gather @ zeros
            belief = noise.rounded(_normalised(product, blocked), self.degrees + 4.0)
            others = self._others(product, blocked, logs, zeros)
            others = noise.rounded(others, self.degrees[self.source] + 4.0)
            new = noise.rounded(self._sent(others), 2.0 * self.phi.shape[1] + 4.0)
            damping = self.algorithm.damping
            message = (1 - damping) * _scaled(new) + damping * _scaled(message)
            return belief

        return step

    @staticmethod
    def _logarithms(values: Array) -> tuple[Array, Array]:
        """Return logarithms, with 0 in place of those of zeros, and where these are."""
        positive = values > 0
        return np.log(np.where(positive, values, 1.0)), (~positive).astype(np.float64)

    def _others(self, product: Array, blocked: Array, logs: Array, zeros: Array) -> Array:
        """Return the product at the source of each edge without the message of its reverse, scaled to a largest
        entry of 1."""
        left = product[self.source] - logs[self.reverse]
        free = blocked[self.source] - zeros[self.reverse] == 0
        left = np.where(free, left, -np.inf)
        top = left.max(axis=1, keepdims=True)
        return np.where(free, np.exp(left - np.where(np.isfinite(top), top, 0.0)), 0.0)

    def _sent(self, others: Array) -> Array:
        combine = (lambda a, psi: np.einsum("ex,exy->ey", a, psi)) if self.algorithm.rule == "sum" else _max_product
        if self.psi.ndim == 2:
            if self.algorithm.rule == "sum":
                return others @ self.psi
            return np.stack([(others * column).max(axis=1) for column in self.psi.T], axis=1)
        size = max(1, BLOCK // self.psi[0].size)
        parts = [combine(others[i : i + size], self.psi[i : i + size]) for i in range(0, len(others), size)]
        return np.concatenate(parts) if parts else others


def _max_product(a: Array, psi: Array) -> Array:
    return (a[:, :, None] * psi).max(axis=1)


def _scaled(rows: Array) -> Array:
    total = rows.sum(axis=1, keepdims=True)
    return np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)


def _normalised(logs: Array, blocked: Array) -> Array:
    """Return exponentials scaled to a sum of 1 in each row; zero rows if no state is possible."""
    free = blocked == 0
    logs = np.where(free, logs, -np.inf)
    some = free.any(axis=1, keepdims=True)
    total = np.zeros((len(logs), 1))
    total[some[:, 0]] = logsumexp(logs[some[:, 0]], axis=1, keepdims=True)
    return np.where(free, np.exp(np.where(some, logs - total, -np.inf)), 0.0)

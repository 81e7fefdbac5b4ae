"""Surprise as an engine: its SVD, which is stochastic gradient descent in float64 on one thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from engines.libraries.ratings_engine import Array, RatingsEngine
from harness.api import Graph, Unsupported
from harness.api.library import RecognisedSGD


class SurpriseEngine(RatingsEngine):
    """Calls ``surprise.SVD.fit`` with the program's first factors, rate and lambda.

    Its update is that of the program with ``rates=power``: one rate for all rows, which is the program's own where it
    does not change (beta = 0). Without biases a fit of one sweep continues from the factors before, so that the rate
    may change from sweep to sweep. A sweep takes users one after another, in the order of the CSR, so that the answer
    is compared with float64 in this order.
    """

    library = "Surprise"
    bytes_per_edge = 250  # tuples of Python objects
    deterministic = True

    def refused(self, problem: RecognisedSGD, graph: Graph, features: int) -> str:
        """Refuse adaptive rates."""
        if problem.rates != "power":
            return f"Surprise has one rate for all rows, and rates={problem.rates} has some for each; give rates=power"
        return ""

    def load(self) -> None:
        """Import the library."""
        import surprise

        self.surprise: Any = surprise

    def convert(self, graph: Graph) -> None:
        """Note the ends of the ratings."""
        self.users = graph.csr.row_of_edge.tolist()
        self.items = (graph.csr.neighbours.astype(np.int64) - self.left).tolist()

    def pose(self) -> None:
        """Make the library's training set."""
        if self.problem.bias and self.rates["beta"] != 0.0:
            raise Unsupported("Surprise keeps its rate over all sweeps with biases; give beta=0, or bias=none")
        of_users = defaultdict(list)
        for user, item, rating in zip(self.users, self.items, self.start["rating"].tolist(), strict=True):
            of_users[user].append((item, rating))
        # Its SVD reads the ratings of users only. Ids are the library's own already.
        self.ratings = self.surprise.Trainset(of_users, {}, self.left, self.right, len(self.users), (1, 5), {}, {})
        self.ratings._global_mean = 0.0  # the program subtracts it, if any, from the ratings
        self.answer: Mapping[str, Array] = {}

    def sweeps(self, done: int, more: int) -> None:
        """Fit; with biases, from the start."""
        x = self.answer.get("x", self.start["x"].astype(np.float64)).copy()
        beta = self.rates["beta"]
        if self.problem.bias:
            self.answer = self._fitted(self.start["x"].astype(np.float64), done + more, self.rates["alpha"])
            return
        if beta == 0.0:
            self.answer = self._fitted(x, more, self.rates["alpha"])
            return
        for sweep in range(done, done + more):
            found = self._fitted(x, 1, self.rates["alpha"] / (1.0 + beta * sweep**1.5))
            x = found["x"]
        self.answer = {"x": x}

    def _fitted(self, x: Array, sweeps: int, rate: float) -> dict[str, Array]:
        """Return factors and biases after some sweeps from factors ``x`` and no biases."""
        fit = self.surprise.SVD(
            n_factors=self.features, n_epochs=sweeps, biased=self.problem.bias, lr_all=rate, reg_all=self.rates["lam"],
            random_state=_GivenFactors([x[: self.left], x[self.left :]]),
        ).fit(self.ratings)  # fmt: skip
        found = {"x": np.concatenate([fit.pu, fit.qi])}
        return found | ({"b": np.concatenate([fit.bu, fit.bi])} if self.problem.bias else {})

    def factors(self) -> Mapping[str, Array]:
        return self.answer

    def order(self) -> Array | float:
        return np.arange(self.graph.num_edges)

    def what_runs(self) -> str:
        return "SVD.fit in float64, one thread; users one after another, each one's ratings in the order of the CSR"

    def close(self) -> None:
        """Release the training set too."""
        super().close()
        for name in ("ratings", "answer", "users", "items"):
            self.__dict__.pop(name, None)


class _GivenFactors(np.random.RandomState):
    """Draws given arrays, one a call: the factors of users, then those of items."""

    def __init__(self, arrays: list[Array]) -> None:
        super().__init__(0)
        self._arrays = iter(arrays)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return the next array. Raises ValueError if it has another shape."""
        found = next(self._arrays)
        if found.shape != size:
            raise ValueError(f"Surprise draws factors of shape {size}, and {found.shape} are given")
        return np.ascontiguousarray(found)

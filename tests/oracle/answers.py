"""The right answer of every built-in algorithm, in float64, derived from its formula and not from the harness.

An oracle offers any of these: ``fixed(left_out)``, the answer of a settled run; ``after(n, left_out, kept)``, the
iterate after n supersteps; ``iterates(ns, left_out)``, several of them. ``left_out``: changes within the tolerance need
not be propagated. ``kept``: the engine adds differences to sums that it keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tests.oracle import linear, traversals
from tests.oracle.error_model import Expected
from tests.oracle.factors import ALS
from tests.oracle.labels import LabelPropagation
from tests.oracle.messages import BeliefPropagation

ORACLES = {
    "pagerank": linear.pagerank,
    "manifold_ranking": linear.manifold_ranking,
    "multimodal": linear.multimodal,
    "label_propagation": LabelPropagation,
    "als": ALS,
    "belief_propagation": BeliefPropagation,
    "bfs": traversals.bfs,
    "sssp": traversals.sssp,
    "components": traversals.components,
    "kcore": traversals.kcore,
}
OUTPUTS = {
    "pagerank": "rank", "manifold_ranking": "mm", "multimodal": "mmode", "label_propagation": "lp", "als": "lf",
    "belief_propagation": "belief", "bfs": "level", "sssp": "distance", "components": "label", "kcore": "alive",
}  # fmt: skip


class Answers:
    """The answers of one algorithm on one graph; each is computed once.

    norm: the quantity that the program's tolerance limits, the largest movement of an entry (max) or of a column's
    L1 norm (sum).
    """

    def __init__(self, algorithm, graph, inputs, norm: str = "max") -> None:
        properties = {name: np.asarray(value) for name, value in inputs.properties.items()}
        self.oracle = ORACLES[algorithm.name](graph, properties, algorithm)
        if isinstance(self.oracle, linear.Affine):
            self.oracle = replace(self.oracle, norm=norm)
        elif norm != "max":
            raise NotImplementedError(f"{algorithm.name} with a tolerance in the norm {norm}")
        self.made: dict[object, Expected] = {}

    @property
    def has_fixed(self) -> bool:
        """Return whether all settled runs have one answer."""
        return hasattr(self.oracle, "fixed")

    @property
    def has_iterates(self) -> bool:
        return hasattr(self.oracle, "after") or hasattr(self.oracle, "iterates")

    def prepare(self, supersteps: Iterable[int], left_out: bool) -> None:
        """Compute several iterates together if the oracle can."""
        wanted = {n for n in supersteps if (n, left_out) not in self.made}
        if wanted and hasattr(self.oracle, "iterates"):
            for number, expected in self.oracle.iterates(wanted, left_out).items():
                self.made[number, left_out] = expected

    def after(self, supersteps: int, left_out: bool, kept: bool = False) -> Expected:
        """Return the iterate after this many supersteps."""
        if hasattr(self.oracle, "iterates"):
            self.prepare([supersteps], left_out)
            return self.made[supersteps, left_out]
        key = (supersteps, left_out, kept)
        if key not in self.made:
            self.made[key] = self.oracle.after(*key)
        return self.made[key]

    def fixed(self, left_out: bool) -> Expected:
        """Return the answer of a settled run."""
        if left_out not in self.made:
            self.made[left_out] = self.oracle.fixed(left_out)
        return self.made[left_out]

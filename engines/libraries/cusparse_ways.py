"""The ways in which cuSPARSE multiplies a CSR matrix with dense features."""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

Order = Literal["row", "column"]


class Way(NamedTuple):
    """One way to compute a product.

    ``routine``: SpMV takes one feature, SpMM any number. ``algorithm``: the CSR algorithm, 1 to 3 (SpMV: 1 or 2).
    ``order``: the storage order in which SpMM reads the dense operand and writes the result. ``preprocess``: cuSPARSE
    analyses the matrix once beforehand.
    """

    routine: Literal["SpMM", "SpMV"]
    algorithm: int
    order: Order = "row"
    preprocess: bool = False

    @property
    def analysed(self) -> bool:
        """Whether cuSPARSE can analyse the matrix beforehand; preprocessing has no effect on SpMM algorithm 2."""
        return self.routine == "SpMV" or self.algorithm != 2

    def __str__(self) -> str:
        order = f", by {self.order}s" if self.routine == "SpMM" else ""
        return f"{self.routine} algorithm {self.algorithm}{order}{', preprocessed' * self.preprocess}"


def all_ways(features: int) -> tuple[Way, ...]:
    """Return every way to multiply with ``features`` columns."""
    orders: tuple[Order, ...] = ("row", "column") if features > 1 else ("row",)
    ways = [Way("SpMM", *one) for one in itertools.product((1, 2, 3), orders, (False, True))]
    ways = [way for way in ways if way.analysed or not way.preprocess]
    if features == 1:
        ways += [Way("SpMV", number, "row", preprocess) for number in (1, 2) for preprocess in (False, True)]
    return tuple(ways)

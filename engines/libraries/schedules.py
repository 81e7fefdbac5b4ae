"""The schedules of the library peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.api import option


@dataclass(frozen=True)
class ScipySchedule:
    """SciPy has no options: each stage takes the library's best path, which ``explain`` shows."""


@dataclass(frozen=True)
class CusparseSchedule:
    """The options of cuSPARSE's products.

    Options at their default are chosen by timing all values on the given matrix and number of features, once, in the
    phase *tune*; ``explain`` lists the times. A given value restricts the choice.
    """

    algorithm: int = option(0, "cuSPARSE's algorithm for CSR; 0: the fastest", values=(0, 1, 2, 3))
    order: Literal["auto", "row", "column"] = option("auto", "how dense operands are stored during a product")
    preprocess: Literal["auto", "yes", "no"] = option("auto", "whether cuSPARSE analyses the matrix beforehand")
    split: Literal["auto", "yes", "no"] = option("auto", "whether rows of many entries are cut into runs")


@dataclass(frozen=True)
class TorchSchedule:
    """PyTorch has no options: each stage takes the library's best path, which ``explain`` shows."""


@dataclass(frozen=True)
class SolverSchedule:
    """The option of a library that solves the whole problem."""

    way: str = option(
        "auto", "the function to call, as explain names it; auto: the fastest, by timing all on the first inputs"
    )


@dataclass(frozen=True)
class LibmfSchedule:
    """The options of LIBMF.

    LIBMF built with vector instructions is about twice as fast as built by default (1.6 times with k = 32, 2.4 times
    with k = 128, by CPU seconds of 1 M ratings). The record has the build that ran.
    """

    build: Literal["any", "vector", "scalar"] = option("any", "the build that is wanted; any: that which is installed")
    bins: int | None = option(
        None, "blocks a side of the matrix (null: 26, or more for many threads)", within="[1, inf)"
    )


@dataclass(frozen=True)
class SurpriseSchedule:
    """Surprise has no options: a fit is one loop in float64 on one thread."""

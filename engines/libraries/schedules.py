"""The schedules of the library peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.api import ScheduleError, option


@dataclass(frozen=True)
class ScipySchedule:
    """SciPy has no options: each stage takes the library's best path, which ``explain`` shows."""


@dataclass(frozen=True)
class CusparseSchedule:
    """The options of cuSPARSE's products.

    Options at their default are chosen by timing all values on the given matrix and number of features, once, in the
    phase *tune*; ``explain`` lists the times. A given value restricts the choice.
    """

    algorithm: int = option(0, "of cuSPARSE's for CSR: 1, 2 or 3; 0: the fastest")
    order: Literal["auto", "row", "column"] = option("auto", "how dense operands are stored during a product")
    preprocess: Literal["auto", "yes", "no"] = option("auto", "whether cuSPARSE analyses the matrix beforehand")
    split: Literal["auto", "yes", "no"] = option("auto", "whether rows of many entries are cut into runs")

    def __post_init__(self) -> None:
        if self.algorithm not in (0, 1, 2, 3):
            raise ScheduleError(f"algorithm={self.algorithm} of cuSPARSE does not exist; give 1, 2, 3, or 0 for any")
        for name, values in {"order": ("row", "column"), "preprocess": ("yes", "no"), "split": ("yes", "no")}.items():
            if getattr(self, name) not in ("auto", *values):
                raise ScheduleError(f"{name}={getattr(self, name)!r} is not known; give auto, {' or '.join(values)}")


@dataclass(frozen=True)
class TorchSchedule:
    """PyTorch has no options: each stage takes the library's best path, which ``explain`` shows."""


@dataclass(frozen=True)
class SolverSchedule:
    """The option of a library that solves the whole problem."""

    way: str = option(
        "auto", "the function to call, as explain names it; auto: the fastest, by timing all on the first inputs"
    )

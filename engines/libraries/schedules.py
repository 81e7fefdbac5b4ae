"""How the library peers run a program."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api import ScheduleError, option

# Of 37 M in-edges of 1 M vertices with hubs of 200,000, on an H100, algorithms 1 / 2 / 3 take 1.23 / 2.02 / 2.95 ms for
# 4 features, 2.22 / 2.33 / 3.44 for 8 and 9.11 / 3.02 / 3.89 for 32; SpMV takes 0.35 ms.
MOST_OF_FIRST = 8


@dataclass(frozen=True)
class ScipySchedule:
    """SciPy has no options: each stage takes the library's best path, and ``explain`` says which."""


@dataclass(frozen=True)
class CusparseSchedule:
    """Which of cuSPARSE's algorithms multiplies."""

    algorithm: int = option(0, "of cuSPARSE's for CSR times dense: 1, 2 or 3; 0 takes the fastest for the features")

    def __post_init__(self) -> None:
        if self.algorithm not in (0, 1, 2, 3):
            raise ScheduleError(f"algorithm={self.algorithm} of cuSPARSE does not exist; take 1, 2, 3, or 0 for any")


@dataclass(frozen=True)
class TorchSchedule:
    """PyTorch has no options: each stage takes the library's best path, and ``explain`` says which."""

"""How the library peers run a program."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api import ScheduleError, option


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

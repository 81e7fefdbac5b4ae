"""How the library peers run a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScipySchedule:
    """SciPy has no options: each stage takes the library's best path, and ``explain`` says which."""


@dataclass(frozen=True)
class TorchSchedule:
    """PyTorch has no options: each stage takes the library's best path, and ``explain`` says which."""

"""The parts that solvers of linear systems are made of: recognition of programs whose superstep is x -> A x + b, and of
those whose A is symmetric."""

from __future__ import annotations

from harness.language.affine import GATHERED, Symmetry, not_affine, state_of, symmetry
from harness.language.independent_features import independent_features
from harness.language.initial_state import Start

__all__ = ["GATHERED", "Start", "Symmetry", "independent_features", "not_affine", "state_of", "symmetry"]

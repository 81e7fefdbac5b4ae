"""Conjugate gradients and BiCGSTAB for the correction of a state, all columns at once.

A solver returns when the residual of every column has shrunk to ``REDUCTION`` of its first value, or after
``MOST_ITERATIONS``. A column that has converged no longer changes: its coefficients are 0. The columns to keep are
those whose residual became smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from engines.onyx.krylov_system import Columns, System

# Products until manifold ranking and multimodal learning settled on the digits, a grid and an R-MAT graph. CG: 99, 41,
# 231, 69, 33, 30; with 1e-2: 119, 51, 262, 68, 34, 31. BiCGSTAB: 128, 48, 330, 82, 44, 34; 148, 56, 496, 106, 44, 36.
REDUCTION = 1e-4
MOST_ITERATIONS = 60

Solver = Callable[[System], NDArray[np.bool_]]


def bicgstab(system: System) -> NDArray[np.bool_]:
    """Solve by BiCGSTAB (van der Vorst 1992, sec. 3) with the first residual as the shadow; return the columns to
    keep."""
    zero = np.zeros(system.width)
    rho, first = system.advance(zero, zero, "image", zero, "shadow")
    norm, active = first, first > 0.0
    for _ in range(MOST_ITERATIONS if active.any() else 0):
        system.iterations += 1
        projected, _ = system.product("direction", "image", "shadow")
        alpha = _quotient(rho, projected, active)
        system.shorten(alpha)
        aligned, square = system.product("residual", "second", "residual")
        omega = _quotient(aligned, square, active)
        former = rho
        rho, norm = system.advance(alpha, omega, "second", omega, "shadow")
        active = _continuing(active, norm, first) & (omega != 0.0) & (rho != 0.0)
        if not active.any():
            break
        system.turn(_quotient(rho, former, active) * _quotient(alpha, omega, active), omega)
    return _smaller(norm, first)


def conjugate_gradients(system: System) -> NDArray[np.bool_]:
    """Solve by conjugate gradients (Hestenes & Stiefel 1952, eq. 3:1) in the weighted inner product; return the columns
    to keep.

    A column ends where the matrix is not positive definite.
    """
    zero = np.zeros(system.width)
    square, norm = system.advance(zero, zero, "image", zero, "residual", weighted=True)
    first, active = square, square > 0.0
    for _ in range(MOST_ITERATIONS if active.any() else 0):
        system.iterations += 1
        curvature, _ = system.product("direction", "image", "direction", weighted=True)
        alpha = _quotient(square, curvature, active & (curvature > 0.0))
        former = square
        square, norm = system.advance(alpha, zero, "image", alpha, "residual", weighted=True)
        active = _continuing(active, square, first) & (alpha != 0.0)
        if not active.any():
            break
        system.turn(_quotient(square, former, active), zero)
    return _smaller(square, first) & np.isfinite(norm)


SOLVERS: Mapping[str, Solver] = {"bicgstab": bicgstab, "cg": conjugate_gradients}


def _quotient(over: Columns, under: Columns, where: NDArray[np.bool_]) -> Columns:
    """Return the quotients where they are wanted and exist; else 0."""
    usable = where & (under != 0.0) & np.isfinite(under) & np.isfinite(over)
    return np.divide(over, under, out=np.zeros_like(over), where=usable)


def _continuing(active: NDArray[np.bool_], square: Columns, first: Columns) -> NDArray[np.bool_]:
    """Return the columns whose residual is still too large."""
    return np.asarray(active & np.isfinite(square) & (square > REDUCTION**2 * first))


def _smaller(square: Columns, first: Columns) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(square) & (square < first))

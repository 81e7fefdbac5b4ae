"""Comparison of an engine's answer with the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Allowance
from harness.language.program import Output, Program

Array = NDArray[Any]
Values = Mapping[str, Array]

# Below this magnitude float32 loses relative precision (its smallest normal number is 1.2e-38), and so do sums of such
# numbers. Errors are relative to the vertex's largest feature, but at least to this value.
FLOOR = 1e-30
# Allowed error of every entry as a share of its vertex's largest: 16 roundings of float32, for operations on a value
# outside the program (initialisation, conversion, scaling).
LEAST_ALLOWED = 16 * 2.0**-24
WITHIN = "all outputs within their bounds"


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    ``ok``: no output exceeds its bound. ``error``, ``bound``: relative, at the entry with the largest ratio of error to
    bound (with one bound for all vertices: the largest error of any output, and that bound).
    """

    ok: bool
    error: float
    bound: float
    detail: str

    @property
    def excess(self) -> float:
        """The error in units of the bound."""
        if self.error == 0:
            return 0.0
        return self.error / self.bound if self.bound else math.inf


def relative_error(values: Array, reference: Array, floor: float = 0.0) -> NDArray[np.float64]:
    """Return per vertex the largest absolute difference of a feature, relative to the vertex's largest magnitude.

    The magnitude is that of the reference, and at least ``floor`` times the largest at any vertex. Equal infinities
    count as equal; NaN, or an infinity on one side only, gives infinity.
    """
    x, y = _rows(values), _rows(reference)
    if not y.size:
        return np.zeros(len(y))
    with np.errstate(invalid="ignore", over="ignore"):
        error = _difference(x, y).max(axis=1) / _scale(y, floor)
    return np.where(np.isnan(error), np.inf, error)


def compare(
    program: Program, values: Values, reference: Values, allowances: Mapping[str, Allowance] | None = None
) -> Comparison:
    """Compare every output of ``program`` with the reference; valid for any answer, also of an unfinished run.

    ``allowances``: error bounds by output. A vertex is compared with the largest allowance of its entries. Every
    feature is compared with its total over the graph: a large feature cannot hide a small one. An output whose bound
    is 0 must be equal. Without allowances every vertex is compared with the bound that the program states.
    """
    found = []
    for result in program.results:
        x, y = values[result.name], reference[result.name]
        if x.shape != y.shape:
            return Comparison(False, math.inf, result.bound, f"{result.name} has shape {x.shape}, not {y.shape}")
        place = program.properties[result.name].place
        if allowances is None or result.bound == 0.0:
            found.append(by_bound(result, place, x, y))
        else:
            allowance = allowances[result.name]
            limit = allowed(y, allowance.entries, result.floor)
            found.append(within(result.name, place, x, y, limit, allowance.totals))
    if allowances is None:
        worst = max(found, key=lambda one: (not one.ok, one.error))
        worst = replace(worst, error=max(one.error for one in found), bound=program.bound)
    else:
        worst = max(found, key=lambda one: (not one.ok, one.excess))
    return replace(worst, detail=WITHIN) if worst.ok else worst


def allowed(reference: Array, allowance: Array, floor: float = 0.0) -> Array:
    """Return the allowance of every entry plus a few roundings of the vertex's largest magnitude."""
    y = _rows(reference)
    least = LEAST_ALLOWED * _scale(y, floor)
    return np.asarray((_rows(allowance) + least[:, None]).reshape(np.shape(allowance)))


def within(
    name: str, place: str, values: Array, reference: Array, limit: Array, totals: Array | None = None
) -> Comparison:
    """Compare an array ``[N, ...]`` with absolute limits (> 0) of its entries: per row, and per feature over all rows.

    ``totals``: limits of the sums over all rows; None: the sums of the entries' limits.
    """
    x, y, most = _rows(values), _rows(reference), _rows(limit)
    if not y.size:
        return Comparison(True, 0.0, 0.0, "")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = np.nan_to_num(_difference(x, y), nan=np.inf, posinf=np.inf)
        row, column = difference.max(axis=1), difference.sum(axis=0)
        row_limit, column_limit = most.max(axis=1), _totals(y, most, totals)
        scale = _scale(y, 0.0)
        total = np.maximum(np.where(np.isfinite(y), np.abs(y), 0.0).sum(axis=0), FLOOR)
        v, f = int((row / row_limit).argmax()), int((column / column_limit).argmax())
    shown = row[v] / scale[v], row_limit[v] / scale[v]
    met, wanted = (np.array2string(np.asarray(a[v]), threshold=8) for a in (values, reference))
    at_row = Comparison(
        bool(row[v] <= row_limit[v]), float(shown[0]), float(shown[1]),
        f"{name} of {place} {v} is off by {shown[0]:.3g} relative (bound {shown[1]:.3g}): {met} instead of {wanted}",
    )  # fmt: skip
    share = column[f] / total[f], column_limit[f] / total[f]
    in_column = Comparison(
        bool(column[f] <= column_limit[f]), float(share[0]), float(share[1]),
        f"feature {f} of {name} is off by {share[0]:.3g} relative in the L1 norm over the graph (bound {share[1]:.3g})",
    )  # fmt: skip
    return max(at_row, in_column, key=lambda one: (not one.ok, one.excess))


def _totals(y: Array, limit: Array, totals: Array | None) -> Array:
    """Return the limit of the sum of each feature's errors: at least a few roundings of the sum of magnitudes."""
    most = limit.sum(axis=0)
    if totals is None:
        return np.asarray(most)
    least = LEAST_ALLOWED * np.where(np.isfinite(y), np.abs(y), FLOOR).sum(axis=0)
    return np.asarray(np.minimum(most, np.maximum(np.reshape(totals, most.shape), least)))


def by_bound(result: Output, place: str, x: Array, y: Array) -> Comparison:
    """Compare values ``x`` with ``y`` by the bound that the program states for an output."""
    error = relative_error(x, y, result.floor)
    if not len(error):
        return Comparison(True, 0.0, result.bound, "")
    at = int(error.argmax())
    met, wanted = (np.array2string(np.asarray(a[at]), threshold=8) for a in (x, y))
    off = f"{result.name} of {place} {at} is off by {error[at]:.3g} relative (bound {result.bound:g})"
    return Comparison(
        bool(error[at] <= result.bound), float(error[at]), result.bound, f"{off}: {met} instead of {wanted}"
    )


def _rows(values: Array) -> NDArray[np.float64]:
    """Reshape to ``[N, features]`` in float64."""
    return np.asarray(values, np.float64).reshape(len(values), math.prod(values.shape[1:]))


def _difference(x: Array, y: Array) -> NDArray[np.float64]:
    return np.asarray(np.where(x == y, 0.0, np.abs(x - y)))


def _scale(y: Array, floor: float) -> NDArray[np.float64]:
    """Return the largest finite magnitude of each row, and at least ``floor`` times that of all rows."""
    magnitude = np.where(np.isfinite(y), np.abs(y), 0.0).max(axis=1, initial=0.0)
    return np.asarray(np.maximum(magnitude, max(FLOOR, floor * float(magnitude.max(initial=0.0)))))

"""Comparing an engine's answer with the reference, by the bound that the program states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.program import Program

# Below this magnitude float32 has no relative precision left (its smallest normal number is 1.2e-38), and sums of such
# numbers lose digits; errors are taken relative to the vertex's largest feature, but never to less than this.
FLOOR = 1e-30


@dataclass(frozen=True)
class Comparison:
    """``error``: the largest relative error of any output at any vertex; ``ok``: no output exceeds its bound."""

    ok: bool
    error: float
    bound: float
    detail: str


def relative_error(values: NDArray[Any], reference: NDArray[Any], floor: float = 0.0) -> NDArray[np.float64]:
    """Per vertex: the largest absolute difference of a feature over the largest magnitude of the reference's features,
    or over ``floor`` times the largest magnitude at any vertex where that is more.

    Equal infinities count as equal; NaN, or an infinity on one side only, gives infinity.
    """
    count = len(reference)
    x, y = (np.asarray(a, np.float64).reshape(count, math.prod(a.shape[1:])) for a in (values, reference))
    if not y.size:
        return np.zeros(count)
    finite = np.isfinite(y)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(x == y, 0.0, np.abs(x - y))
        magnitude = np.where(finite, np.abs(y), 0.0).max(axis=1)
        scale = np.maximum(magnitude, max(FLOOR, floor * float(magnitude.max())))
        error = difference.max(axis=1) / scale
    return np.where(np.isnan(error), np.inf, error)


def compare(program: Program, values: Mapping[str, NDArray[Any]], reference: Mapping[str, NDArray[Any]]) -> Comparison:
    """Hold every output of ``program`` against the reference."""
    worst, detail, ok = 0.0, "all outputs within their bounds", True
    for result in program.results:
        x, y = values[result.name], reference[result.name]
        if x.shape != y.shape:
            return Comparison(False, float("inf"), result.bound, f"{result.name} has shape {x.shape}, not {y.shape}")
        error = relative_error(x, y, result.floor)
        if not len(error):
            continue
        at = int(error.argmax())
        worst = max(worst, float(error[at]))
        if error[at] > result.bound:
            ok = False
            met, wanted = (np.array2string(np.asarray(a[at]), threshold=8) for a in (x, y))
            place = program.properties[result.name].place
            off = f"{result.name} of {place} {at} is off by {error[at]:.3g} relative (bound {result.bound:g})"
            detail = f"{off}: {met} instead of {wanted}"
    return Comparison(ok, worst, program.bound, detail)

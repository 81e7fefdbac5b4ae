"""Whether an answer may be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.cell import Cell
from harness.campaign.problem import Problem
from harness.campaign.reference import expected
from harness.language.validation import compare
from harness.records.outcome import Outcome

Verdict = tuple[Outcome, str, dict[str, Any]]


def verdict(cell: Cell, problem: Problem, values: Mapping[str, NDArray[Any]], *, settled: bool) -> Verdict:
    """The outcome, its reason, and the fields of a record that say how it was found.

    ``settled``: whether the engine's run had; one that stopped at its limit is held against as many supersteps of the
    reference. Without validation (``validate=false``) only values that are not numbers are noticed.
    """
    if not cell.validate:
        for name, value in values.items():
            if np.isnan(value).any():
                return Outcome.DIVERGED, f"{name} holds values that are not numbers", {}
        return Outcome.OK, "", {}
    answer = expected(problem, settled=settled)
    reference = answer.values
    comparison = compare(problem.program, values, reference)
    told = {
        "validation": {
            "ok": bool(comparison.ok),
            "error": float(comparison.error),
            "bound": float(comparison.bound),
            "detail": comparison.detail,
            "against": answer.method,
        }
    }
    for name, value in values.items():
        if value.shape == reference[name].shape:
            lost = np.count_nonzero(~np.isfinite(value) & np.isfinite(reference[name]))
            if lost:
                return Outcome.DIVERGED, f"{lost} values of {name} are not finite where the reference's are", told
    return (Outcome.OK, "", told) if comparison.ok else (Outcome.WRONG, comparison.detail, told)

"""Whether an answer may be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.cell import Cell
from harness.campaign.problem import Problem
from harness.campaign.reference import expected
from harness.campaign.transitions import Checked
from harness.language.residual import residual
from harness.language.validation import Comparison, compare
from harness.records.outcome import Outcome

Verdict = tuple[Outcome, str, dict[str, Any]]


def verdict(
    cell: Cell, problem: Problem, values: Mapping[str, NDArray[Any]], *, settled: bool, checked: Checked | None = None
) -> Verdict:
    """The outcome, its reason, and the fields of a record that say how it was found.

    ``settled``: whether the engine's run had; one that stopped at its limit is held against as many supersteps of the
    reference. An answer that is one of several fixed points is held against its own next superstep. Without validation
    (``validate=false``) only values that are not numbers are noticed. ``checked``: supersteps that are to be right on
    a sample, and every value a number.
    """
    if not cell.validate or checked is not None:
        for name, value in values.items():
            if np.isnan(value).any():
                return Outcome.DIVERGED, f"{name} holds values that are not numbers", {}
    if checked is not None:
        found, method = checked.worst(problem)
        told = {"validation": _plain(found, method)}
        return (Outcome.OK, "", told) if found.ok else (Outcome.WRONG, found.detail, told)
    if not cell.validate:
        return Outcome.OK, "", {}
    if problem.by_residual:
        found = residual(problem.program, problem.graph, problem.features, problem.inputs, values)
        told = {"validation": _plain(found, "its own next superstep in float64")}
        return (Outcome.OK, "", told) if found.ok else (Outcome.WRONG, found.detail, told)
    # an algorithm's own method would draw sources on the changed graph anew; the question stays the same in a warm run
    answer = expected(problem, settled=settled and problem.start is None)
    reference = answer.values
    comparison = compare(problem.program, values, reference)
    told = {"validation": _plain(comparison, answer.method)}
    for name, value in values.items():
        if value.shape == reference[name].shape:
            lost = np.count_nonzero(~np.isfinite(value) & np.isfinite(reference[name]))
            if lost:
                return Outcome.DIVERGED, f"{lost} values of {name} are not finite where the reference's are", told
    return (Outcome.OK, "", told) if comparison.ok else (Outcome.WRONG, comparison.detail, told)


def _plain(comparison: Comparison, against: str) -> dict[str, Any]:
    """The ``validation`` field of a record."""
    return {
        "ok": bool(comparison.ok),
        "error": float(comparison.error),
        "bound": float(comparison.bound),
        "detail": comparison.detail,
        "against": against,
    }

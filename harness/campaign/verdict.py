"""Validation of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.cell import Cell
from harness.campaign.ordered_check import Ordered
from harness.campaign.problem import Problem
from harness.campaign.reference import converged, expected, library_answer
from harness.campaign.sampled_check import Checked
from harness.language.algorithm import Answer
from harness.language.residual import residual
from harness.language.validation import WITHIN, Comparison, compare
from harness.language.warm import kept_properties
from harness.records.outcome import Outcome

# With a sample, whole answers of larger graphs are not computed: SciPy's matrices take 40 bytes an edge, and minutes.
EDGES_OF_LIBRARY = 1 << 29

Verdict = tuple[Outcome, str, dict[str, Any]]


def verdict(
    cell: Cell, problem: Problem, values: Mapping[str, NDArray[Any]], *,
    settled: bool, supersteps: int | None, checked: Checked | None = None, ordered: Ordered | None = None,
) -> Verdict:  # fmt: skip
    """Return the outcome, its reason, and the record fields of the validation.

    ``settled``, ``supersteps``: the engine's report of the run; None: it counts no supersteps. A run that stopped at
    its limit is compared with the same number of supersteps of the reference. An answer that is one of several fixed
    points is compared with its own next superstep. Without validation (``validate=false``) only NaN values are
    detected. ``checked``: results of the comparison with float64 on a sample. If the algorithm has its own method for
    settled answers, the whole answer is also compared with that; with a sample, only on graphs of up to
    EDGES_OF_LIBRARY edges. ``ordered``: a run of known order, for a program with steps in place. Raises InvalidInput if
    such an answer cannot be compared.
    """
    if not cell.validate or checked is not None:
        for name, value in values.items():
            if value.size and np.isnan(value.min()):  # the least of some values is NaN if one of them is
                return Outcome.DIVERGED, f"{name} holds values that are not numbers", {}
    if not cell.validate:
        return Outcome.OK, "", {}
    whole = checked is None or problem.graph.num_edges <= EDGES_OF_LIBRARY
    answer = library_answer(problem) if settled and problem.start is None and whole else None
    least = answer.least_supersteps if answer else 0
    reason = "" if supersteps is None else miscounted(problem, settled, supersteps, least)
    if reason:
        return Outcome.WRONG, reason, {}
    if ordered is not None:
        return _in_order(ordered, values)
    if checked is not None:
        return _of_a_sample(problem, values, checked, answer)
    if problem.by_residual:
        found = residual(problem.program, problem.graph, problem.features, problem.inputs, values)
        return _ended(found, "its own next superstep in float64")
    answer = answer or expected(problem, settled=settled)
    reference = answer.values
    comparison = compare(problem.program, values, reference, answer.allowances or None)
    for name, value in values.items():
        if value.shape == reference[name].shape:
            lost = np.count_nonzero(~np.isfinite(value) & np.isfinite(reference[name]))
            if lost:
                fields = {"validation": _plain(comparison, answer.method)}
                return Outcome.DIVERGED, f"{lost} values of {name} are not finite where the reference's are", fields
    if comparison.ok and settled and not (rest := _unexpected_rest(problem, values)).ok:
        return _ended(rest, "its own next superstep in float64, as the reference does not settle")
    return _ended(comparison, answer.method)


def _in_order(ordered: Ordered, values: Mapping[str, NDArray[Any]]) -> Verdict:
    """Return the verdict of a program with steps in place. Raises InvalidInput if float64 diverges too."""
    ordered.check_float64()
    for name in ordered.values:
        lost = np.count_nonzero(~np.isfinite(values[name]))
        if lost:
            first = ordered.first_not_finite
            since = "" if first is None else f", since superstep {first} of another run"
            return Outcome.DIVERGED, f"{lost} values of {name} are not finite{since}; lower the rates", {}
    grown = ordered.grown(values)
    if grown:
        return Outcome.DIVERGED, f"{grown}; lower the rates", {}
    return _ended(*ordered.compared(values))


def _unexpected_rest(problem: Problem, values: Mapping[str, NDArray[Any]]) -> Comparison:
    """Compare an answer reported as settled with its next superstep, if the reference does not settle within the limit.

    The answer after the limit would accept a run that stopped shortly before it at a larger tolerance. Programs whose
    state is more than their outputs are not compared.
    """
    state = {name: values[name] for name in kept_properties(problem.program) if name in values}
    with_tolerance = problem.start is None and problem.program.control.tolerance is not None
    whole = len(state) == len(kept_properties(problem.program))
    if not with_tolerance or not whole or converged(problem) is not None:
        return Comparison(True, 0.0, 0.0, WITHIN)
    return residual(problem.program, problem.graph, problem.features, problem.inputs, state)


def miscounted(problem: Problem, settled: bool, supersteps: int, least: int) -> str:
    """Return why a run cannot have taken the reported number of supersteps; empty if it can.

    ``least``: a lower bound for a settled run from the program's start.
    """
    most, reports = problem.max_supersteps, f"the engine reports {supersteps} supersteps"
    if supersteps > most:
        return f"{reports}, more than the {most} that it was given"
    if not problem.program.control.settles and supersteps != most:
        return f"{reports}, but the program runs exactly {most}"
    if not settled and supersteps != most:
        return f"{reports} and that the run is not settled; such a run has all {most}"
    if settled and supersteps < least:
        return f"{reports}; a settled run has at least {least}, as a superstep carries values over one edge"
    return ""


def _of_a_sample(
    problem: Problem, values: Mapping[str, NDArray[Any]], checked: Checked, answer: Answer | None
) -> Verdict:
    """Return the verdict of a run that was checked on a sample; ``answer``: an expected whole answer."""
    found, method = checked.worst(problem)
    if found.ok and answer is not None:
        whole = compare(problem.program, values, answer.values, answer.allowances or None)
        return _ended(whole, f"{answer.method}; {method}")
    return _ended(found, method)


def _ended(found: Comparison, against: str) -> Verdict:
    fields = {"validation": _plain(found, against)}
    return (Outcome.OK, "", fields) if found.ok else (Outcome.WRONG, found.detail, fields)


def _plain(comparison: Comparison, against: str) -> dict[str, Any]:
    """Return the ``validation`` field of a record."""
    return {
        "ok": bool(comparison.ok),
        "error": float(comparison.error),
        "bound": float(comparison.bound),
        "detail": comparison.detail,
        "against": against,
    }

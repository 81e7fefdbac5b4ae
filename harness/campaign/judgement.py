"""The end of a cell: validate its answer, and rate it by its algorithm if it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from harness.cache import CacheError
from harness.campaign.answers import NONE, save_answer
from harness.campaign.cell import Cell
from harness.campaign.child_report import ChildReport, ReportDamaged, StoreError, keeping
from harness.campaign.engine_checks import MalformedAnswer, checked_metrics
from harness.campaign.problem import Problem
from harness.campaign.scrutiny import scrutinize
from harness.campaign.verdict import verdict
from harness.contract import Phases
from harness.plain_text import describe_error, message_of, print_traceback
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.solved import Solved


def judge(cell: Cell, problem: Problem, solved: Solved, report: ChildReport, phases: Phases, folder: Path) -> bool:
    """Validate the values; after the last phase rate them, and write the artefacts.

    Return whether the outcome, which the report receives, is ok.
    """
    values, settled = solved.values, solved.settled
    report.stage("validate")
    with phases("validate"):
        outcome, reason, fields = verdict(
            cell, problem, values, settled=settled, supersteps=solved.supersteps, checked=solved.checked,
            ordered=solved.ordered,
        )  # fmt: skip
        if outcome is Outcome.OK:
            outcome, reason = scrutinize(cell, problem, values, solved.evidence, solved.sample, solved.ordered)
    report.tell(**fields, phases=phases.seconds)
    answers = {**problem.carried, **values}
    ended = outcome is Outcome.OK and not problem.later
    if ended and problem.start is None:  # metrics use the given graph, so not for an answer after the change
        report.stage("rate")
        if problem.several_phases:
            settled = not problem.unsettled and (settled or not problem.program.control.settles)
        fault = _rate(problem, answers, report, folder, settled=settled)
        if fault:
            outcome, reason = Outcome.INVALID_INPUT, f"algorithm {cell.algorithm!r}: {fault}"
    if ended and outcome is Outcome.OK and cell.save != NONE:
        report.stage("save the answer")
        with keeping(report):
            save_answer(folder, cell.save, problem.program, problem.graph, answers)
    report.end(outcome, reason)
    return outcome is Outcome.OK


def _rate(
    problem: Problem, values: Mapping[str, NDArray[Any]], report: ChildReport, folder: Path, *, settled: bool
) -> str:
    """Record the metrics of an answer and write its artefacts; return the error of the algorithm's own code, or ""."""
    try:
        rated = settled or not problem.algorithm.rated_when_settled
        metrics = checked_metrics(problem.algorithm.metrics(problem.given, values)) if rated else {}
        with keeping(report):
            problem.algorithm.artefacts(problem.given, values, folder)
    except (MemoryError, StoreError, ReportDamaged, CacheError):
        raise
    except MalformedAnswer as error:
        return message_of(error)
    except BaseException as error:  # noqa: BLE001  whatever an algorithm raises is this cell's outcome
        print_traceback(error)
        return describe_error(error)
    report.tell(metrics=metrics)
    return ""

"""The cell under another schedule, where its own does not run it, or not as the cell requests it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.campaign.preflight import uncounted
from harness.campaign.problem import identity
from harness.campaign.resolution import Resolution, answer_of, hint, resolve
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.child_report import ChildReport
    from harness.campaign.problem import Problem
    from harness.contract import EngineSpec, Phases


def resolved_cell(
    spec: EngineSpec, cell: Cell, problem: Problem, reason: str, report: ChildReport, phases: Phases
) -> Cell | None:
    """Return the cell under the nearest schedule that runs; None, with the outcome recorded, if there is none.

    ``reason``: why the schedule of the cell does not run.
    """
    report.stage("resolve the schedule")
    with phases("resolve"):
        found = resolve(spec, cell, problem, reason)
    if found is None:
        report.end(Outcome.UNSUPPORTED, reason + hint(spec, cell, problem))
        return None
    return _under(found, cell, problem, report)


def counted_cell(spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases) -> Cell:
    """Return the cell under the nearest schedule that runs by supersteps, whose memory transactions are counted.

    It is the same cell if its schedule does so, if none does, or if the engine fails.
    """
    report.stage("resolve the schedule")
    with phases("resolve"):
        answer = answer_of(spec, cell, problem, cell.schedule)
        reason = "" if answer is None else uncounted(answer, cell)
        found = resolve(spec, cell, problem, reason, stepwise=True) if reason else None
    return cell if found is None else _under(found, cell, problem, report)


def _under(found: Resolution, cell: Cell, problem: Problem, report: ChildReport) -> Cell:
    """Return the cell under a resolved schedule, and record both."""
    resolved = replace(cell, schedule={**cell.schedule, **found.resolved})
    report.tell(resolution=found.plain(), schedule=resolved.schedule, identity=identity(problem.key, resolved))
    return resolved

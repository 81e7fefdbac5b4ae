"""The cell under another schedule, where its own does not run it, or not as the cell requests it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.campaign.preflight import DoesNotFit, memory_refusal, uncounted
from harness.campaign.problem import identity
from harness.campaign.resolution import Resolution, answer_of, fitting, hint, resolve
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.child_report import ChildReport
    from harness.campaign.problem import Problem
    from harness.contract import EngineSpec, Phases, Unsupported, Yes


def resolved_cell(
    spec: EngineSpec, cell: Cell, problem: Problem, refused: Unsupported, report: ChildReport, phases: Phases,
    memory_bytes: int,
) -> Cell | None:  # fmt: skip
    """Return the cell under the nearest schedule that runs; None, with the outcome recorded, if there is none.

    ``refused``: why the schedule of the cell does not run. ``memory_bytes``: the limit on the host.
    """

    def fits(answer: Yes) -> bool:
        return not memory_refusal(answer, cell.device, memory_bytes, cell.limits.device_bytes)

    report.stage("resolve the schedule")
    reason, short = str(refused), isinstance(refused, DoesNotFit)
    with phases("resolve"):
        found = fitting(spec, cell, problem, reason, fits) if short else resolve(spec, cell, problem, reason)
    if found is None:
        end_refused(report, refused, "" if short else hint(spec, cell, problem))
        return None
    return _under(found, cell, problem, report)


def end_refused(report: ChildReport, refused: Unsupported, more: str = "") -> None:
    """Record that an engine does not run the problem; ``more`` follows the reason."""
    outcome = Outcome.OUT_OF_MEMORY if isinstance(refused, DoesNotFit) else Outcome.UNSUPPORTED
    report.end(outcome, f"{refused}{more}")


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

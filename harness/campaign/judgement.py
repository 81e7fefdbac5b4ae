"""The end of a cell: its answer is validated, and rated by its algorithm where it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from harness.cache import CacheError
from harness.campaign.cell import Cell
from harness.campaign.draft import Draft, DraftDamaged, StoreError, keeping
from harness.campaign.guarded_engine import MalformedAnswer, checked_metrics
from harness.campaign.problem import Problem
from harness.campaign.scrutiny import scrutinize
from harness.campaign.verdict import verdict
from harness.contract import Phases
from harness.plain_text import describe_error, message_of, print_traceback
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.solved import Solved


def judge(cell: Cell, problem: Problem, solved: Solved, draft: Draft, phases: Phases, folder: Path) -> None:
    """Validate the values, rate them, and keep what they look like; the draft says how the cell ends."""
    values, settled = solved.values, solved.settled
    draft.stage("validate")
    with phases("validate"):
        outcome, reason, told = verdict(
            cell, problem, values, settled=settled, supersteps=solved.supersteps, checked=solved.checked
        )
        if outcome is Outcome.OK:
            outcome, reason = scrutinize(cell, problem, values, solved.evidence, solved.sample)
    draft.tell(**told, phases=phases.seconds)
    if outcome is Outcome.OK and problem.start is None:  # the graph as given, before the change, rates no warm answer
        draft.stage("rate")
        fault = _rate(problem, values, draft, folder, settled=settled)
        if fault:
            outcome, reason = Outcome.INVALID_INPUT, f"algorithm {cell.algorithm!r}: {fault}"
    draft.end(outcome, reason)


def _rate(problem: Problem, values: Mapping[str, NDArray[Any]], draft: Draft, folder: Path, *, settled: bool) -> str:
    """Tell the metrics of an answer and keep its artefacts; return what the algorithm's own code raised, or ""."""
    try:
        rated = settled or not problem.algorithm.rated_when_settled
        metrics = checked_metrics(problem.algorithm.metrics(problem.given, values)) if rated else {}
        with keeping(draft):
            problem.algorithm.artefacts(problem.given, values, folder)
    except (MemoryError, StoreError, DraftDamaged, CacheError):
        raise
    except MalformedAnswer as error:
        return message_of(error)
    except BaseException as error:  # noqa: BLE001  whatever an algorithm raises is this cell's outcome
        print_traceback(error)
        return describe_error(error)
    draft.tell(metrics=metrics)
    return ""

"""The ``memory`` field of a record: transactions of one superstep, modelled and measured by a GPU's counters."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.campaign.cell import Cell, load
from harness.campaign.child_report import ChildReport
from harness.campaign.device_use import DeviceUse
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.ncu_child import counted
from harness.campaign.preflight import uncounted
from harness.campaign.resolution import answer_of
from harness.contract import EngineSpec, No, Phases, schedule_from_options
from harness.plain_text import describe_error, print_traceback
from harness.transactions.profiler import ProfilerError

if TYPE_CHECKING:
    from harness.campaign.problem import Problem


def memory_of(
    spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases, folder: Path
) -> dict[str, Any]:
    """Return the model's result and, if ``cell.memory`` requests them, the counters; missing ones with the reason.

    Neither is of a plan that solves the whole problem, which has no superstep to count.
    """
    answer = answer_of(spec, cell, problem, cell.schedule)
    whole = "" if answer is None else uncounted(answer, cell)
    if whole:
        return {"model": None, "counters": None, "reason": whole}
    reasons = []
    counters = None
    found = _modelled(spec, cell, problem)
    model = None if isinstance(found, str) else found
    if isinstance(found, str):
        reasons.append(f"no model: {found}")
    if cell.memory == "counters":
        try:
            use = DeviceUse(cell, report, phases)
            with use.reserved_memory(None), use.alone():
                counters = counted([cell], folder, cell.limits.time_s)[0].plain()
        except (ProfilerError, subprocess.TimeoutExpired) as error:
            print_traceback(error)
            reasons.append(f"no counters: {error}")
    return {"model": model, "counters": counters, "reason": "; ".join(reasons)}


def _modelled(spec: EngineSpec, cell: Cell, problem: Problem) -> dict[str, Any] | str:
    """Return the model's result, or why there is none."""
    try:
        engine = GuardedEngine(load(spec.factory)(schedule_from_options(spec, cell.schedule)))
        try:
            found = engine.memory_model(problem.program, problem.graph, problem.features, problem.inputs)
        finally:
            engine.close()
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001  an engine's own code; the cell's outcome stays ok
        print_traceback(error)
        return describe_error(error)
    return found.reason if isinstance(found, No) else found.plain()

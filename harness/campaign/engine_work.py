"""Admit, build and run the engine of a cell, and record its errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from harness.cache import CacheError
from harness.campaign.cell import Cell, load
from harness.campaign.child_report import ChildReport, ReportDamaged, StoreError
from harness.campaign.device_memory import device_memory
from harness.campaign.device_use import DeviceUse
from harness.campaign.fingerprint import Fingerprint
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.preflight import DoesNotFit, memory_refusal, ran_out_of_memory, whole_run_refusal
from harness.campaign.resolution import count_refused
from harness.contract import EngineSpec, No, Phases, Unsupported, schedule_from_options
from harness.device.errors import DeviceUnavailable
from harness.device.synchronizing import synchronizing
from harness.plain_text import describe_error, message_of, print_traceback
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.problem import Problem
    from harness.contract import Engine

T = TypeVar("T")


def with_engine(
    spec: EngineSpec,
    cell: Cell,
    problem: Problem,
    report: ChildReport,
    phases: Phases,
    memory_bytes: int,
    work: Callable[[GuardedEngine], T | None],
) -> T | None:
    """Run ``work`` with the cell's engine, close the engine, and return the result.

    None, with the outcome recorded, if the engine raises an error or writes to the arrays of the problem. Raises
    Unsupported if the engine refuses the problem, DoesNotFit if its memory does.
    """
    with phases("fingerprint"):
        before = Fingerprint(problem)
    try:
        again = False
        try:
            result = _work_of_engine(spec, cell, problem, report, phases, memory_bytes, work)
        except _MemoryOfOthers as error:
            print_traceback(error)
            again = True
        if again:  # not within the except clause, which keeps the arrays of the failed engine
            report.stage("engine")
            result = _work_of_engine(spec, cell, problem, report, phases, memory_bytes, work, whole_memory=True)
        with phases("fingerprint"):
            before.check()
        return result
    except (MemoryError, StoreError, ReportDamaged, CacheError, Unsupported):
        raise
    except DeviceUnavailable as error:
        report.end(Outcome.UNSUPPORTED, message_of(error))
        return None
    except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt, too, are this cell's outcome
        print_traceback(error)
        outcome = Outcome.OUT_OF_MEMORY if ran_out_of_memory(error) else Outcome.ENGINE_ERROR
        report.end(outcome, describe_error(error))
        return None


class _MemoryOfOthers(Exception):
    """An engine ran out of memory on a GPU where other cells had some of it."""


def _work_of_engine(
    spec: EngineSpec,
    cell: Cell,
    problem: Problem,
    report: ChildReport,
    phases: Phases,
    memory_bytes: int,
    work: Callable[[GuardedEngine], T | None],
    *,
    whole_memory: bool = False,
) -> T | None:
    """Run ``work`` with a new engine and close the engine.

    What needs no device is done before memory of the device is reserved: imports, admission, compiling. Raises
    Unsupported, and _MemoryOfOthers unless ``whole_memory`` is reserved.
    """
    use, seconds = DeviceUse(cell, report, phases), dict(phases.seconds)
    made = load(spec.factory)(schedule_from_options(spec, cell.schedule))
    engine = GuardedEngine(synchronizing(made, cell.device), use)
    alone = True
    with contextlib.ExitStack() as held:
        try:
            needed = _admitted(engine, cell, problem, report, memory_bytes, phases)
            report.stage("build")
            engine.build(problem.program, problem.graph, problem.features, cell.device, phases)
            alone = held.enter_context(use.reserved_memory(None if whole_memory else needed, tunes=engine.tunes))
            held.enter_context(use.shared())
            with phases("context") if use.overlaps else contextlib.nullcontext():
                held.enter_context(device_memory(cell, report))
            result = work(engine)
        except BaseException as error:
            _close_failed(engine)
            if isinstance(error, Unsupported):
                count_refused(phases, seconds)
            if alone or not ran_out_of_memory(error):
                raise
            phases.seconds = seconds | {"wait": phases.seconds["wait"]}  # phases of the engine that is tried again
            raise _MemoryOfOthers(describe_error(error)) from error
        engine.close()
    return result


def _close_failed(engine: Engine) -> None:
    """Close an engine that has failed; a second failure is printed and does not replace the first."""
    try:
        engine.close()
    except BaseException as error:  # noqa: BLE001  the first failure is the outcome
        print_traceback(error)


def _admitted(
    engine: GuardedEngine, cell: Cell, problem: Problem, report: ChildReport, memory_bytes: int, phases: Phases
) -> int:
    """Return the bytes that the engine needs. Raises Unsupported, DoesNotFit if they do not fit."""
    with phases("support"):  # may count the in-edges of the graph, from which facts are computed
        answer = engine.supports(problem.program, problem.graph, problem.features, cell.device)
    if isinstance(answer, No):
        raise Unsupported(answer.reason)
    reason = whole_run_refusal(answer, cell, problem)
    if reason:
        raise Unsupported(reason)
    report.tell(bytes_needed=answer.bytes_needed, host_bytes=answer.host_bytes)
    short = memory_refusal(answer, cell.device, memory_bytes, cell.limits.device_bytes)
    if short:
        raise DoesNotFit(short)
    return answer.bytes_needed

"""The process of one cell: ``python -m harness.campaign.child REQUEST REPORT``.

REQUEST is a JSON file with the cell and the folder for its artefacts; REPORT receives the fields of the record.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from harness.campaign.cell import Cell, Warm
from harness.campaign.child_report import STORE_STATUS, ChildReport, StoreError, keeping
from harness.campaign.engine_work import with_engine
from harness.campaign.errors import CampaignError
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.lock import device_holder, share_until_end
from harness.campaign.lock_folder import fix_folders
from harness.campaign.phase_report import PhaseReport
from harness.campaign.preflight import device_refusal, one_phase_only, profiler_refusal, refusal
from harness.campaign.reference_process import Referee
from harness.campaign.solved import Solved
from harness.contract import EngineSpec, Phases, Unsupported
from harness.device.cuda import was_opened
from harness.device.driver import start_driver
from harness.plain_text import message_of, print_traceback
from harness.plugins import Registry, load_plugins
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.problem import Problem
    from harness.contract import RunStatistics
    from harness.language.sampled import Sample

T = TypeVar("T")


def main(arguments: list[str]) -> int:
    """Run the cell of a request; its outcome is written to the report, so the status is 0 unless the process dies.

    If the report cannot be written, as on a full disk, the status is STORE_STATUS and the request is deleted.
    """
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    cell = Cell.from_plain(request["cell"])
    _limit_memory(cell, request["memory_bytes"])
    with Path(arguments[1]).open("ab", buffering=0) as file:
        report = ChildReport(file)
        try:
            phases = run_cell(cell, report, Path(request["folder"]), request["memory_bytes"])
            if cell.device.kind == "cuda" and was_opened(cell.device.index):
                _wait_to_end(cell, report, phases)
        except StoreError as error:
            print_traceback(error)
            with contextlib.suppress(OSError):
                Path(arguments[0]).unlink()  # tells the parent, and needs no space
            return STORE_STATUS
    return 0


def _wait_to_end(cell: Cell, report: ChildReport, phases: Phases) -> None:
    """Wait until no run is timed on the GPU, whose context the end of this process destroys; record the wait."""
    report.waits(device_holder(cell.device))
    with phases("wait"):
        share_until_end(cell.device)
    report.waited(phases.seconds["wait"])
    report.tell(phases=phases.seconds)


def run_cell(cell: Cell, report: ChildReport, folder: Path, memory_bytes: int) -> Phases:
    """Run a cell, its artefacts in ``folder``, and return its phases; the report receives the outcome.

    Raises StoreError when the disk is full.
    """
    phases = Phases()
    try:
        with keeping(report):
            _run(cell, report, folder, memory_bytes, phases)
    except MemoryError as error:
        print_traceback(error)
        message = message_of(error)
        report.end(Outcome.OUT_OF_MEMORY, f"memory ran out: {message}" if message else "memory ran out")
    return phases


def _limit_memory(cell: Cell, memory_bytes: int) -> None:
    """Make allocations beyond the limit fail immediately, before the watch acts; CUDA reserves more than it uses."""
    if cell.device.kind == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def _run(cell: Cell, report: ChildReport, folder: Path, memory_bytes: int, phases: Phases) -> None:
    starting = cell.device.kind == "cuda" and start_driver()
    report.stage("plugins")
    registry = load_plugins(cell.block, importing=lambda name: report.stage(f"import of plugin {name}"))
    spec = registry.engine(cell.engine)
    reason = refusal(spec, cell) or ("" if starting else device_refusal(cell.device)) or profiler_refusal(cell)
    if reason:
        report.end(Outcome.UNSUPPORTED, reason)
        return
    referee = Referee(cell)  # before an engine is imported, which may change the environment
    problem = _problem(cell, registry, referee, report, phases)
    if problem is None:
        return
    if starting and (reason := device_refusal(cell.device)):
        report.end(Outcome.UNSUPPORTED, reason)
        return
    if not problem.later:
        _phase(spec, cell, problem, report, phases, memory_bytes, folder)
        return
    of_phases = PhaseReport(report, 1 + len(problem.later))
    while solved := _phase(spec, cell, problem, of_phases, phases, memory_bytes, folder):
        if not problem.later:
            return
        following = _fitting(of_phases, partial(problem.after, solved.values, settled=solved.settled))
        if following is None:
            return
        problem = following
        of_phases.next_phase()


def _phase(
    spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases, memory_bytes: int, folder: Path
) -> Solved | None:
    """Run a problem under the cell's schedule, or the nearest one that runs; None if its outcome is not ok."""
    from harness.campaign.resolved_cell import counted_cell, end_refused, resolved_cell

    if cell.memory != "off":
        cell = counted_cell(spec, cell, problem, report, phases)
    try:
        return _measure(spec, cell, problem, report, phases, memory_bytes, folder)
    except Unsupported as refused:
        resolved = resolved_cell(spec, cell, problem, refused, report, phases, memory_bytes)
    if resolved is None:
        return None
    try:
        return _measure(spec, resolved, problem, report, phases, memory_bytes, folder)
    except Unsupported as refused:  # its memory does not fit, or it refuses the inputs too
        end_refused(report, refused)
        return None


def _measure(
    spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases, memory_bytes: int, folder: Path
) -> Solved | None:
    """Run a problem and validate the answer; None if it is not ok. Raises Unsupported if the engine refuses it, or if
    its memory does not fit."""
    if cell.warm is not None:
        changed = _changed(spec, cell, cell.warm, problem, report, phases, memory_bytes)
        if changed is None:
            return None
        problem = changed
    solved = _solve(spec, cell, problem, report, phases, memory_bytes, folder)
    if solved is not None and cell.memory != "off":
        _count_memory(spec, cell, problem, report, phases, folder)
    if solved is None:
        return None
    from harness.campaign.judgement import judge

    return solved if _fitting(report, lambda: judge(cell, problem, solved, report, phases, folder)) else None


def _problem(cell: Cell, registry: Registry, referee: Referee, report: ChildReport, phases: Phases) -> Problem | None:
    """Return graph, program and inputs; None, with the outcome recorded, if they do not fit each other."""
    from harness.campaign.problem import set_problem
    from harness.campaign.sampled_check import SAMPLED, not_sampled

    problem = _fitting(report, lambda: set_problem(cell, registry, report, phases))
    if problem is None:
        return None
    report.tell(**problem.record_fields, phases=phases.seconds)
    refused = one_phase_only(cell) if problem.later else ""
    if refused:
        report.end(Outcome.INVALID_INPUT, f"{problem.program.name} has several phases: {refused}")
        return None
    reason = not_sampled(problem) if cell.validate == SAMPLED else ""
    if reason:
        report.end(Outcome.INVALID_INPUT, f"validate={SAMPLED}: {reason}; give validate=true or false")
        return None
    return replace(problem, compute=referee)


def _fitting(report: ChildReport, work: Callable[[], T | None]) -> T | None:
    """Return the result of ``work``; record an error of graph, program or inputs as the cell's outcome."""
    from harness.graph import GraphError
    from harness.language import InvalidInput, LanguageError

    try:
        return work()
    except (GraphError, InvalidInput, LanguageError, CampaignError) as error:
        traceback.print_exc()
        report.end(Outcome.INVALID_INPUT, message_of(error))
        return None


def _solve(
    spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases, memory_bytes: int, folder: Path
) -> Solved | None:
    """Return the engine's answer; None, with the outcome recorded, if there is none or the cold run is wrong."""
    from harness.campaign.accuracy import target_of, tell_accuracy
    from harness.campaign.sampled_check import sample_for
    from harness.campaign.warm_cell import compare_cold

    sample = sample_for(cell, problem, report, phases)
    report.stage("reference")
    with phases("validate"):
        found = _fitting(report, lambda: (target_of(cell, problem),))
    if found is None:
        return None
    target = found[0]
    report.stage("engine")

    def work(engine: GuardedEngine) -> Solved | None:
        solved = _values(engine, cell, problem, sample, report, phases, folder)
        if target is not None:
            marks = tell_accuracy(engine, cell, problem, target, solved.values, solved.timing, report, phases)
            report.tell(marks=list(dict.fromkeys([*solved.marks, *marks])))
        return solved

    solved = with_engine(spec, cell, problem, report, phases, memory_bytes, work)
    if solved is None or solved.cold is None:
        return solved
    cold = solved.cold
    right = _fitting(report, lambda: compare_cold(cell, problem, cold, report, settled=solved.settled))
    return solved if right else None


def _changed(
    spec: EngineSpec, cell: Cell, warm: Warm, problem: Problem, report: ChildReport, phases: Phases, memory_bytes: int
) -> Problem | None:
    """Return the problem on the changed graph, started from a run on the current one.

    None, with the outcome recorded, if there is none.
    """
    from harness.campaign.warm_cell import changed_graph, changed_problem, run_before

    def work() -> Problem | None:
        report.stage("change the graph")
        changed = changed_graph(problem, warm)
        report.stage("engine")
        values = with_engine(
            spec, cell, problem, report, phases, memory_bytes,
            lambda engine: run_before(engine, cell, problem, report),
        )  # fmt: skip
        return None if values is None else changed_problem(problem, warm, changed, values)

    return _fitting(report, work)


def _values(
    engine: GuardedEngine, cell: Cell, problem: Problem, sample: Sample | None, report: ChildReport, phases: Phases,
    folder: Path,
) -> Solved:  # fmt: skip
    """Run the engine and return its answer with the times."""
    from harness.campaign.environment import Bystanders
    from harness.campaign.gpu import gpu_facts, gpu_marks
    from harness.campaign.least_work import WORK, work_of
    from harness.campaign.link import is_crossed, link_of, with_pages
    from harness.campaign.lock import others_at_rest
    from harness.campaign.measurement import answer_of, marks_of, measure_engine, reset, spare_cores, watched_cores
    from harness.campaign.ordered_check import metrics_by_superstep, run_in_order
    from harness.campaign.plausibility import SAMPLED_BYTES, Witness
    from harness.campaign.sampled_check import RunInParts, checked
    from harness.campaign.scrutiny import gather
    from harness.campaign.solve_window import solve_window
    from harness.campaign.warm_cell import cold_run

    report.stage("prepare")
    engine.prepare(problem.program, problem.graph, problem.features, cell.device, phases)
    _tell_schedule(engine, problem, report, folder)
    overlaps = cell.device.kind == "cuda"
    if overlaps:
        with phases("upload"):  # of the inputs, which later resets find on the device
            reset(engine, problem.inputs, problem.start)
    with contextlib.ExitStack() as turn:
        turn.enter_context(engine.use.alone())
        bystanders = Bystanders(watched_cores(cell.device))
        cold = cold_run(engine, cell, problem, report) if problem.start is not None else None
        report.stage("solve")
        witness = Witness(engine, problem.validated, sample if problem.answer_bytes > SAMPLED_BYTES else None)
        parts = RunInParts(engine, problem, sample) if sample is not None and engine.stepwise else None
        with solve_window(report, folder):
            timing = measure_engine(
                engine,
                problem.inputs,
                problem.max_supersteps,
                cell.measure,
                phases,
                problem.start,
                witness.look,
                witness.prime,
                None if parts is None else parts.run,
            )

        def run_again() -> RunStatistics:
            reset(engine, problem.inputs, problem.start)
            return engine.run(problem.max_supersteps)

        late = witness.late(timing.interval.median, run_again)
        others = bystanders.cores()
        link, options = None, engine.resolved_options()
        if is_crossed(options):
            with phases("link"):
                link = link_of(
                    cell.device, problem.graph, lambda: reset(engine, problem.inputs, problem.start),
                    lambda: engine.run(problem.max_supersteps),
                )  # fmt: skip
        gpu = gpu_facts(cell.device.index, others_at_rest(cell.device)) if cell.device.kind == "cuda" else None
        if overlaps:
            turn.close()  # what follows is not timed
        report.tell(**{WORK: work_of(engine, problem, timing)})
        report.stage("download")
        found = None
        if sample is not None:
            found = checked(engine, problem, sample, parts, timing.statistics, phases)
        with phases("download"):
            values = answer_of(engine, problem.validated) if found is None else found.answer
        report.stage("run on other inputs")
        with phases("other_inputs"):
            evidence = gather(engine, cell, problem, timing, witness, late, sample)
        report.stage("run in a known order")
        with phases("replay"):
            ordered = run_in_order(engine, cell, problem)
            by_superstep = {} if ordered is not None else metrics_by_superstep(engine, problem)
    _tell_schedule(engine, problem, report, folder)  # again: some options are chosen by timing the first runs
    settled = timing.statistics.settled
    reported = settled if problem.program.control.settles else None  # a fixed number of supersteps does not settle
    caveats = marks_of(
        timing, cell.measure, others, spare_cores=spare_cores(cell.device), throttled=bystanders.throttled()
    )
    marks = [*caveats, *gpu_marks(gpu)]
    report.tell(
        solve=timing.plain(), settled=reported, supersteps=timing.supersteps(), choices=timing.choices(),
        others=others, gpu=gpu, marks=marks,
    )  # fmt: skip
    steps = len(timing.statistics.supersteps) if engine.stepwise else None
    lost = None if ordered is None else ordered.lost
    transfers = with_pages(timing.statistics.transfers, options, link)
    report.tell(transfers=None if transfers is None else transfers.plain(), link=link)
    report.tell(metrics_by_superstep=by_superstep if ordered is None else ordered.metrics, lost_updates=lost)
    return Solved(values, settled, steps, found, cold, timing, marks, sample, evidence, ordered)


def _tell_schedule(engine: GuardedEngine, problem: Problem, report: ChildReport, folder: Path) -> None:
    """Record the resolved schedule, and write what the engine explains."""
    from harness.language.explain import explain_program

    report.tell(schedule=engine.resolved_options())
    explanation = f"{explain_program(problem.program)}\n\n{engine.explain()}\n"
    phase = len(problem.program.phases)
    with keeping(report):
        (folder / f"explain{f'-{phase}' if phase > 1 else ''}.txt").write_text(explanation, encoding="utf-8")


def _count_memory(
    spec: EngineSpec, cell: Cell, problem: Problem, report: ChildReport, phases: Phases, folder: Path
) -> None:
    """Record the memory transactions of a superstep, or why there are none."""
    from harness.campaign.memory_counters import memory_of

    report.stage("memory")
    with phases("memory"), keeping(report):
        transactions = memory_of(spec, cell, problem, report, phases, folder)
    report.tell(memory=transactions)


def _end_with(arguments: list[str]) -> NoReturn:
    """Run a cell and end the process immediately: threads or exit handlers of an engine could delay it indefinitely."""
    status: Any = 1
    try:
        fix_folders()
        status = main(arguments)
    except SystemExit as error:
        status = error.code
    except BaseException as error:  # noqa: BLE001  the interpreter would print it too, and then wait for threads
        print_traceback(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # an engine may have closed or replaced it
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    _end_with(sys.argv[1:])

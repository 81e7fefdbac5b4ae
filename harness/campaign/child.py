"""The process of one cell: ``python -m harness.campaign.child REQUEST DRAFT``.

REQUEST is a JSON file with the cell and the folder for its artefacts; DRAFT receives what the record is made of.
"""

from __future__ import annotations

import errno
import json
import resource
import sys
import traceback
from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.campaign.cell import Cell, load
from harness.campaign.draft import STORE_STATUS, Draft, StoreError
from harness.campaign.errors import CampaignError
from harness.campaign.refusal import refusal
from harness.contract import EngineSpec, No, Phases, schedule_from_options
from harness.plugins import Registry, load_plugins
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.campaign.problem import Problem
    from harness.contract import Engine

    Values = Mapping[str, NDArray[Any]]
    Solved = tuple[Values, bool]  # the outputs, and whether the run had settled

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@contextmanager
def _keeping(draft: Draft, only: Container[int | None] | None = None) -> Iterator[None]:
    """Tell what a disk refuses, of all errors or of those with the numbers ``only``, from what an engine raises."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        draft.tell(store_error=str(error))
        raise StoreError(str(error)) from error


def main(arguments: list[str]) -> int:
    """Run the cell of a request; how it ended is told in the draft, so the status is 0 unless the process dies."""
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    cell = Cell.from_plain(request["cell"])
    _limit_memory(cell, request["memory_bytes"])
    with Path(arguments[1]).open("wb", buffering=0) as file:
        draft = Draft(file)
        try:
            with _keeping(draft, _DISK_FULL):
                _run(cell, draft, Path(request["folder"]), request["memory_bytes"])
        except StoreError:
            traceback.print_exc()
            return STORE_STATUS
        except MemoryError as error:
            traceback.print_exc()
            draft.end(Outcome.OUT_OF_MEMORY, f"memory ran out: {error}" if str(error) else "memory ran out")
    return 0


def _limit_memory(cell: Cell, memory_bytes: int) -> None:
    """Let an allocation beyond the limit fail at once, ahead of the watch; CUDA reserves more than it uses."""
    if cell.device.kind == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def _run(cell: Cell, draft: Draft, folder: Path, memory_bytes: int) -> None:
    draft.stage("plugins")
    registry = load_plugins(cell.block)
    spec = registry.engine(cell.engine)
    reason = refusal(spec, cell)
    if reason:
        draft.end(Outcome.UNSUPPORTED, reason)
        return
    phases = Phases()
    problem = _problem(cell, registry, draft, phases)
    if problem is None:
        return
    solved = _solve(spec, cell, problem, draft, phases, memory_bytes, folder)
    if solved is not None:
        _judge(cell, problem, solved, draft, phases, folder)


def _problem(cell: Cell, registry: Registry, draft: Draft, phases: Phases) -> Problem | None:
    """Graph, program and inputs; None, with the outcome told, when they do not fit each other."""
    from harness.campaign.problem import set_problem
    from harness.graph import GraphError
    from harness.language import InvalidInput, LanguageError

    try:
        problem = set_problem(cell, registry, draft, phases)
    except (GraphError, InvalidInput, LanguageError, CampaignError) as error:
        traceback.print_exc()
        draft.end(Outcome.INVALID_INPUT, str(error))
        return None
    draft.tell(**problem.told, phases=phases.seconds)
    return problem


def _solve(
    spec: EngineSpec, cell: Cell, problem: Problem, draft: Draft, phases: Phases, memory_bytes: int, folder: Path
) -> Solved | None:
    """The engine's answer; None, with the outcome told, when there is none."""
    draft.stage("engine")
    try:
        engine: Engine = load(spec.factory)(schedule_from_options(spec, cell.schedule))
        try:
            return _values(engine, cell, problem, draft, phases, memory_bytes, folder)
        finally:
            engine.close()
    except (MemoryError, StoreError):
        raise
    except Exception as error:  # noqa: BLE001  whatever an engine raises is this cell's outcome
        traceback.print_exc()
        draft.end(Outcome.ENGINE_ERROR, f"{type(error).__name__}: {error}")
        return None


def _values(
    engine: Engine, cell: Cell, problem: Problem, draft: Draft, phases: Phases, memory_bytes: int, folder: Path
) -> Solved | None:
    from harness.campaign.environment import Bystanders
    from harness.campaign.gpu import gpu_facts, gpu_marks
    from harness.campaign.lock import device_holder, device_lock
    from harness.campaign.measurement import marks_of, measure_engine
    from harness.language.explain import explain_program

    answer = engine.supports(problem.program, problem.graph, problem.features, cell.device)
    if isinstance(answer, No):
        draft.end(Outcome.UNSUPPORTED, answer.reason)
        return None
    draft.tell(bytes_needed=answer.bytes_needed)
    if answer.bytes_needed > memory_bytes and cell.device.kind == "cpu":
        reason = f"the engine needs {answer.bytes_needed:,} bytes, and the limit is {memory_bytes:,}"
        draft.end(Outcome.OUT_OF_MEMORY, f"{reason}; raise limits.memory_gb or take a smaller graph")
        return None
    draft.stage("prepare")
    engine.prepare(problem.program, problem.graph, problem.features, cell.device, phases)
    explanation = f"{explain_program(problem.program)}\n\n{engine.explain()}\n"
    with _keeping(draft):
        (folder / "explain.txt").write_text(explanation, encoding="utf-8")
    draft.waits(device_holder(cell.device))
    with ExitStack() as held:
        with phases("wait"):
            held.enter_context(device_lock(cell.device, cell.title, cell.limits.time_s))
        draft.waited(phases.seconds["wait"])
        draft.stage("solve")
        bystanders = Bystanders()
        timing = measure_engine(engine, problem.inputs, problem.max_supersteps, cell.measure, phases)
        others = bystanders.cores()
        gpu = gpu_facts(cell.device.index) if cell.device.kind == "cuda" else None
    steps = [[step.active, step.edges, step.direction] for step in timing.statistics.supersteps]
    settled = timing.statistics.settled
    told = settled if problem.program.control.settles else None  # a fixed number of supersteps settles nothing
    marks = [*marks_of(timing, cell.measure, others, throttled=bystanders.throttled()), *gpu_marks(gpu)]
    draft.tell(solve=timing.plain(), settled=told, supersteps=steps, others=others, gpu=gpu, marks=marks)
    draft.stage("download")
    with phases("download"):
        return {name: _array(name, engine.values(name)) for name in problem.program.outputs}, settled


def _array(name: str, value: object) -> NDArray[Any]:
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value
    met = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
    raise TypeError(f"values({name!r}) of the engine gave a {met}; it must be an array of numbers")


def _judge(cell: Cell, problem: Problem, solved: Solved, draft: Draft, phases: Phases, folder: Path) -> None:
    """Validate the values, rate them, and keep what they look like."""
    from harness.campaign.verdict import verdict

    values, settled = solved
    draft.stage("validate")
    with phases("validate"):
        outcome, reason, told = verdict(cell, problem, values, settled=settled)
    draft.tell(**told, phases=phases.seconds)
    if outcome is Outcome.OK:
        draft.stage("rate")
        rated = settled or not problem.algorithm.rated_when_settled
        metrics = problem.algorithm.metrics(problem.given, values) if rated else {}
        with _keeping(draft):
            problem.algorithm.artefacts(problem.given, values, folder)
        draft.tell(metrics={name: float(value) for name, value in metrics.items()})
    draft.end(outcome, reason)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

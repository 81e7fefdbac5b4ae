"""A group of the thesis's tables on a CUDA device: an algorithm on a graph with k features, all engines in turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from harness.contract import Device, Engine, No, Phases
from harness.graph import Graph
from harness.language import Inputs
from harness.language.warm import kept_properties
from harness.lowering.cuda.engine import CudaEngine
from tests.benchmarks.cuda_cells import Unsupported, milliseconds, release
from tests.benchmarks.cuda_checks import Transition
from tests.benchmarks.cuda_groups import OUT_OF_MEMORY, guarded
from tests.benchmarks.cuda_shared import Shared, holds_nan, part_of
from tests.benchmarks.thesis_pages import LEFT_OUT, Entry, Place, failed
from tests.benchmarks.thesis_plan import EngineColumn
from tests.benchmarks.thesis_problems import CHECKING, Bench, Problem

ROUNDS = 3
ROUNDS_OF_LONG = ((30.0, 2), (80.0, 1))  # of runs of more than so many ms, whose times vary least
SLOW_MS = 1000.0  # a run of about so much is checked by its first two supersteps
PATIENCE_MS = 6000.0  # no run of more
GRACE_S = 10.0  # after the end, in which engines that are ready are still timed once


@dataclass
class Held:
    """An engine that is ready to be timed."""

    engine: Engine
    inputs: Inputs
    entry: Entry
    lost: bool = False  # it failed while it was timed


class Group:
    """``deadline``: the time (monotonic) from which nothing is begun."""

    def __init__(self, bench: Bench, name: str, k: int, deadline: float) -> None:
        self.bench, self.name, self.k, self.deadline = bench, name, k, deadline
        self.algorithm = bench.preset.algorithms[name]
        self.limit = bench.preset.supersteps
        assert bench.graph is not None
        self.graph = bench.graph.name
        self.held: dict[str, Held] = {}

    def measure(self) -> None:
        """All engines that have not been measured yet."""
        began = time.monotonic()
        known = self.bench.tables.row(self.k, self.name, self.graph)
        done = {label for label, entry in known.items() if entry.outcome != LEFT_OUT}
        columns = [column for column in self.bench.preset.columns if column.label not in done]
        if not columns:
            return
        if began > self.deadline:
            self._leave_out([column.label for column in columns])
            return
        problem = guarded(lambda: Problem.of(self.bench, self.algorithm, self.k))
        posed_in = time.monotonic() - began
        for column in columns:
            if isinstance(problem, str):
                self._note(column.label, failed(problem))
            elif time.monotonic() > self.deadline:
                self._leave_out([column.label])
            else:
                self._take(column, problem)
        self._time_held()
        problem = None
        release([])
        self._tell(posed_in, time.monotonic() - began)

    def _leave_out(self, labels: Sequence[str]) -> None:
        for label in labels:
            self._note(label, Entry(outcome=LEFT_OUT, reason="the time was up"))

    def _note(self, label: str, entry: Entry) -> None:
        self.bench.tables.entries[Place(self.k, self.name, self.graph, label)] = entry

    def _take(self, column: EngineColumn, problem: Problem) -> None:
        """Prepare an engine, and hold it beside the others if there is room; else it comes after them."""
        found = guarded(lambda: self._made(column, problem))
        if found == OUT_OF_MEMORY:
            self._time_held()
            found = guarded(lambda: self._made(column, problem))
        if isinstance(found, str):
            self._note(column.label, failed(found))
            return
        self._note(column.label, found.entry)
        self.held[column.label] = found

    def _made(self, column: EngineColumn, problem: Problem) -> Held | str:
        """An engine that has run once, its answer handed over to be checked; or why there is none."""
        engine = prepared(column, problem.shared)
        try:
            found = self._first_run(engine, problem)
        except BaseException:
            release([engine])
            raise
        if isinstance(found, str):
            release([engine])
            return found
        shared = problem.shared
        check = self.bench.checker.check(problem.kept, problem.algorithm, shared.inputs.parameters, self.k, found)
        entry = Entry(outcome=CHECKING)
        self.bench.pending.append((entry, check))
        return Held(engine, shared.inputs, entry)

    def _first_run(self, engine: Engine, problem: Problem) -> list[Transition] | str:
        """Run as many supersteps as are timed, unless that takes long, and keep what the sample has before and after
        the last and after the first; or why none is timed."""
        sample, inputs = problem.sample, problem.shared.inputs
        program = problem.shared.program

        def results() -> dict[str, NDArray[Any]]:
            return {name: part_of(engine, name, sample.near, sample.arcs)[sample.rows] for name in program.outputs}

        def state() -> dict[str, NDArray[Any]]:
            return {name: part_of(engine, name, sample.near, sample.arcs) for name in kept_properties(program)}

        engine.run(1)  # what is loaded or compiled at first use
        engine.reset(inputs)
        ms, _ = milliseconds(lambda: engine.run(1), stream_of(engine))
        if ms * self.limit > PATIENCE_MS:
            return f"too slow: a superstep takes {ms:,.0f} ms, and no run may take more than {PATIENCE_MS / 1e3:.0f} s"
        if ms * self.limit > 1e3 * max(1.0, self.bench.end - time.monotonic()) / 3:
            return LEFT_OUT
        found = [Transition(1, None, results())]
        last = self.limit if ms * self.limit <= SLOW_MS else min(2, self.limit)
        done = engine.run(last - 2) if last > 2 else None
        if done is not None and done.settled:
            last = 1 + len(done.supersteps)
            engine.reset(inputs)
            engine.run(last - 1)
        if last > 1:
            before = state()
            engine.run(1)
            found.append(Transition(last, before, results()))
        broken = [name for name in program.outputs if holds_nan(engine, name)]
        return f"diverged: {broken[0]} holds values that are no numbers" if broken else found

    def _time_held(self) -> None:
        """Time the engines that are held, and let them go."""
        self._rounds()
        self._leave_out([label for label, held in self.held.items() if not held.entry.samples and not held.lost])
        release([held.engine for held in self.held.values()])
        self.held.clear()
        release([])

    def _rounds(self) -> None:
        """Rounds in which the engines take turns."""
        for round_ in range(ROUNDS):
            for label, held in self.held.items():
                if round_ >= rounds(held.entry.samples):
                    continue
                # one round has to do where the time of the graph is up
                last = self.deadline if held.entry.samples else self.bench.end + GRACE_S
                if held.lost or time.monotonic() > last:
                    continue
                found = guarded(lambda one=held: timed(one.engine, one.inputs, self.limit))
                if isinstance(found, str):
                    self._note(label, failed(found))
                    held.lost = True
                    continue
                held.entry.samples.append(found[0])
                held.entry.supersteps = found[1]

    def _tell(self, posed_in: float, took: float) -> None:
        row = self.bench.tables.row(self.k, self.name, self.graph)
        texts = [f"{label} {_shown(entry)}" for label, entry in row.items()]
        spent = f"[{self.bench.sheet.spent:.0f} s, {posed_in:.1f} + {took - posed_in:.1f}]"
        head = f"{self.graph} {self.name} k={self.k} {spent}"
        print(f"{head}: {', '.join(texts)}", flush=True)


def _shown(entry: Entry) -> str:
    """What is known before the check is."""
    return Entry(entry.samples, entry.supersteps).text() if entry.samples else entry.outcome


def prepared(column: EngineColumn, shared: Shared) -> Engine:
    """An engine at the start of a run. Raises Unsupported, MemoryError, CompilationFailed, CuPy's errors."""
    engine, program, device = column.engine(shared), shared.program, Device("cuda")
    graph: Graph = shared.graph if isinstance(engine, CudaEngine) else shared.graph.host
    answer = engine.supports(program, graph, shared.features, device)
    if isinstance(answer, No):
        raise Unsupported(answer.reason)
    try:
        with shared.memory():
            engine.prepare(program, graph, shared.features, device, Phases())
        engine.reset(shared.inputs)
    except BaseException:
        release([engine])
        raise
    return engine


def timed(engine: Engine, inputs: Inputs, limit: int) -> tuple[float, int]:
    """Milliseconds of a run from the start, and its supersteps."""
    import cupy

    engine.reset(inputs)  # the object of the reset before, so that nothing is uploaded
    cupy.cuda.Device().synchronize()
    took, done = milliseconds(lambda: engine.run(limit), stream_of(engine))
    return took, len(done.supersteps)


def rounds(samples: Sequence[float]) -> int:
    """How often an engine is timed, from its first times (ms), if there are any."""
    return min((most for ms, most in ROUNDS_OF_LONG if samples and samples[0] > ms), default=ROUNDS)


def stream_of(engine: Engine) -> Any:
    """The stream that an engine works on; None: the current one."""
    return engine.executor.stream if isinstance(engine, CudaEngine) else None

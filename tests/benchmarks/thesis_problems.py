"""The problems of the thesis's tables on a CUDA device: the graph, the inputs, and where answers are checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from harness.graph import Graph
from harness.language import Algorithm, Inputs, Program, trace
from harness.language.reference import reads_reverse
from harness.language.sampled import Sample, not_sampled, of_all_degrees
from harness.lowering.cuda.device_store import DeviceStore
from tests.benchmarks.cuda_cells import Cell, Unsupported, compile_ahead, release
from tests.benchmarks.cuda_checks import CLASS_ARCS, EACH, Checker, Verdict
from tests.benchmarks.cuda_shared import DeviceGraph, Shared, posed, taken
from tests.benchmarks.cuda_sheet import Budget, Sheet
from tests.benchmarks.thesis_pages import Entry, Tables
from tests.benchmarks.thesis_plan import EngineColumn, Preset

AHEAD = ("belief_propagation",)  # draws of 8 features for 24 M vertices take 10 s
CHECKING, UNCHECKED = "checking", "unchecked"


@dataclass
class Bench:
    """What all groups have in common; ``end``: the time (monotonic) by which measuring has to be done."""

    preset: Preset
    sheet: Sheet
    budget: Budget
    tables: Tables
    checker: Checker
    end: float
    pending: list[tuple[Entry, Future[Verdict]]] = field(default_factory=list)
    graph: DeviceGraph | None = None
    store: DeviceStore | None = None  # of the graph; engines share it
    vertices: NDArray[Any] | None = None
    samples: dict[bool, Sample] = field(default_factory=dict)
    ahead: dict[tuple[str, int], Future[list[Path]]] = field(default_factory=dict)

    def begin(self, graph: Graph, features: Sequence[int]) -> None:
        """A graph's turn: it goes to the device, vertices to check are drawn, and other processes begin to make inputs
        that take long and depend on the vertices alone."""
        self.ahead = {
            (algorithm.name, k): self.checker.inputs_ahead(algorithm, graph.num_vertices, k)
            for k in features
            for algorithm in self.preset.algorithms.values()
            if algorithm.name in AHEAD
        }
        self.vertices = of_all_degrees(graph, EACH, class_arcs=CLASS_ARCS)
        self.graph = DeviceGraph(graph)
        self.store = DeviceStore.of(self.graph)
        self.store.attach()  # its arrays remain when an engine is closed
        self.samples = {}

    def sample(self, program: Program) -> Sample:
        """The vertices drawn, with what a program has them hear."""
        assert self.graph is not None
        back = reads_reverse(program)
        if back not in self.samples:
            self.samples[back] = Sample.of(program, self.graph.host, self.vertices)
        return replace(self.samples[back], program=program)

    def done_with_graph(self) -> None:
        """Give its memory back."""
        self.graph, self.store, self.samples = None, None, {}
        release([])

    def settle(self, until: float | None = None) -> None:
        """Take over the checks that are done; ``until`` (monotonic): wait for the others, and give up then."""
        left = []
        for entry, future in self.pending:
            if until is None and not future.done():
                left.append((entry, future))
                continue
            try:
                verdict = future.result(max(0.0, until - time.monotonic()) if until is not None else None)
            except TimeoutError:
                entry.outcome, entry.reason = UNCHECKED, "the time was up before its answer was checked"
            except Exception as error:  # noqa: BLE001  whatever ended the check, the cell has no time then
                entry.outcome, entry.reason = UNCHECKED, f"the check failed: {type(error).__name__}: {error}"
            else:
                entry.outcome, entry.reason = ("", "") if verdict.ok else ("WRONG", verdict.told)
        self.pending = left

    def write(self) -> None:
        """Bring the page up to date."""
        self.settle()
        self.sheet.parts = self.tables.parts()
        self.sheet.write()


@dataclass(frozen=True, eq=False)
class ModuleCell(Cell):
    """A cell whose module is compiled ahead."""

    column: EngineColumn | None = None

    def engine(self) -> Any:
        """A new engine."""
        assert self.column is not None
        return self.column.engine()


def compile_modules(bench: Bench, features: Sequence[int]) -> None:
    """Have the modules of all groups on disk; on another graph they are the same, or compiled when they are needed."""
    assert bench.graph is not None
    cells = [
        ModuleCell(column.label, algorithm, k, column=column)
        for algorithm in bench.preset.algorithms.values()
        for k in features
        for column in bench.preset.columns
        if column.spec.name not in ("cusparse", "torch")
    ]
    compile_ahead(cells, bench.graph)
    print(f"{len(cells)} modules compiled [{bench.sheet.spent:.0f} s]", flush=True)


@dataclass
class Problem:
    """What the engines of a group are given, and where their answers are looked at."""

    algorithm: Algorithm
    shared: Shared
    sample: Sample
    kept: Path

    @classmethod
    def of(cls, bench: Bench, algorithm: Algorithm, k: int) -> Problem:
        """Of an algorithm on the present graph. Raises Unsupported where its answers cannot be checked."""
        assert bench.graph is not None
        program = trace(algorithm)
        reason = not_sampled(program)
        if reason:
            raise Unsupported(f"answers cannot be checked: {reason}")
        graph, inputs = posed(algorithm, bench.graph, k, bench.ahead.pop((algorithm.name, k), None))
        shared = Shared(program, graph, inputs, k)
        sample = bench.sample(program)
        parts = {}
        for name, values in inputs.properties.items():
            place = program.properties[name].place
            index = {"vertex": sample.near, "edge": sample.arcs}.get(place)
            parts[name] = taken(values if index is None else shared.given(name), index)
        release([])  # what making the inputs took
        return cls(algorithm, shared, sample, bench.checker.problem(sample, Inputs(parts, inputs.parameters)))

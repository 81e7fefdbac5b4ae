"""Whole runs on a CUDA device, cold and warm: what propagating changes gains."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import RunStatistics
from harness.graph import Graph
from harness.graph.changes import change_graph
from harness.language import Algorithm, Inputs, trace
from harness.language.warm import WarmStart, inputs_after, kept_properties, warm_start
from tests.benchmarks.cuda_cells import Cell, compile_ahead, milliseconds, prepared, release
from tests.benchmarks.cuda_groups import Table, guarded
from tests.benchmarks.cuda_shared import DeviceGraph, Shared, posed
from tests.benchmarks.cuda_sheet import Column, Ratio, Sheet

FEATURES = 8
CHANGED_SHARE = 1e-5  # of the edges, before a warm start
REPEATS, MOST_REPEATS = 3, 25
ENOUGH_MS = 100.0  # of runs so short that three say little, taken together
SCHEDULES: dict[str, dict[str, Any]] = {
    "push, full": {"direction": "push", "balance": "warp"},
    "push, change-driven": {"direction": "push", "balance": "warp", "change_driven": True},
    "push over tiles, full": {"direction": "push", "balance": "edge"},
    "push over tiles, change-driven": {"direction": "push", "balance": "edge", "change_driven": True},
    "pull, full": {},
    "pull, change-driven": {"change_driven": True},
}
COLUMNS = (
    Column("graph", 17, "<"), Column("algorithm", 18, "<"), Column("k", 3), Column("schedule", 37, "<"),
    Column("ms/run", 9), Column("supersteps", 10), Column("arcs/|E|", 9), Column("over full", 9),
)  # fmt: skip
# A cold change-driven push may take 10 % longer than the full one.
COLD_AT_LEAST = {"push": 1 / 1.1, "push over tiles": 1 / 1.1}


def algorithms() -> list[tuple[Algorithm, int]]:
    """Algorithms that settle, with numbers of features; those whose supersteps take longest last."""
    with_features = (
        BFS(), SSSP(), PageRank(), LabelPropagation(seeds="random"), ManifoldRanking(), Multimodal(), ALS(sides="all"),
        BeliefPropagation(vertices="drawn"),
    )  # fmt: skip
    return [(Components(), 1), (KCore(core=16), 1), *((algorithm, FEATURES) for algorithm in with_features)]


@dataclass(frozen=True)
class Run:
    """A whole run: the median time, and what it did."""

    ms: float
    done: RunStatistics


Found = Run | str  # a run, or why there is none


def whole(engine: Any, start: Callable[[], None], limit: int) -> Run:
    """Some runs from the same start."""
    taken: list[float] = []
    done = None
    while len(taken) < REPEATS or (sum(taken) < ENOUGH_MS and len(taken) < MOST_REPEATS):
        start()
        took, done = milliseconds(lambda: engine.run(limit), engine.executor.stream)
        taken.append(took)
        if took > 2000:
            break
    assert done is not None
    return Run(statistics.median(taken), done)


def line(sheet: Sheet, graph: Graph, algorithm: Algorithm, k: int, schedule: str, run: Found, full: Found) -> None:
    """A run, and how many times as fast it is as the ``full`` one beside it (itself, for a full one)."""
    start = [graph.name, algorithm.name, str(k), schedule]
    if isinstance(run, str):
        sheet.row(start, run)
        return
    steps, share = run.done.supersteps, run.done.edges / max(1, graph.num_edges)
    ratio = f"{full.ms / run.ms:.2f}x" if isinstance(full, Run) and full is not run else ""
    turns = sum(a.direction != b.direction for a, b in pairwise(steps))
    remarks = [f"{turns} changes of direction"] * (turns > 0) + ["not settled"] * (not run.done.settled)
    sheet.row([*start, f"{run.ms:.2f}", str(len(steps)), f"{share:.2f}", ratio], ", ".join(remarks))


def cold(table: Table, graph: Graph, limit: int) -> None:
    """Change-driven against full, from a cold start."""
    table.sheet.part(f"whole runs on {graph.name} from a cold start, at most {limit} supersteps", COLUMNS)
    on_device = DeviceGraph(graph)
    for algorithm, k in algorithms():
        if not table.budget.allows(f"whole runs on {graph.name}", algorithm.name, 12.0):
            continue
        shared = guarded(lambda a=algorithm, n=k: Shared(trace(a), *posed(a, on_device, n), n))
        if isinstance(shared, str):
            table.sheet.row([graph.name, algorithm.name, str(k), "the inputs"], shared)
            continue
        release([])  # what making the inputs took
        compile_ahead([Cell(name, algorithm, k, options) for name, options in SCHEDULES.items()], shared.graph)
        runs = _each(table.sheet, shared.graph, algorithm, k, "", lambda c, s=shared: _cold(c, s, limit))
        shared = None
        release([])
        for form, at_least in COLD_AT_LEAST.items():
            full, driven = runs[f"{form}, full"], runs[f"{form}, change-driven"]
            if isinstance(full, Run) and isinstance(driven, Run):
                words = f"{algorithm.name}, {form}: change-driven over full"
                table.sheet.ratio(Ratio(graph.name, k, words, full.ms / driven.ms, round(at_least, 2)))


def _each(
    sheet: Sheet, graph: Graph, algorithm: Algorithm, k: int, remark: str, run: Callable[[Cell], Run]
) -> dict[str, Found]:
    """The runs of an algorithm under every schedule, each full one before the change-driven one."""
    runs: dict[str, Found] = {}
    full: Found = ""
    for name, options in SCHEDULES.items():
        cell = Cell(name, algorithm, k, options)
        found = runs[name] = guarded(lambda c=cell: run(c))
        full = full if options.get("change_driven", False) else found
        line(sheet, graph, algorithm, k, f"{name}{remark}", found, full)
    return runs


def _posed(algorithm: Algorithm, graph: Graph, k: int) -> tuple[Graph, Inputs]:
    chosen = algorithm.prepare_graph(graph)
    return chosen, algorithm.inputs(chosen, k)


def _cold(cell: Cell, shared: Shared, limit: int) -> Run:
    with shared.memory():
        engine = prepared(cell, shared.graph, shared.inputs)
    try:
        return whole(engine, lambda: engine.reset(shared.inputs), min(limit, cell.program.max_supersteps))
    finally:
        release([engine])


def warm(table: Table, graph: Graph) -> None:
    """Runs that go on from the answer on a graph of which a few edges have changed since."""
    title = f"warm starts on {graph.name} after {CHANGED_SHARE:.0e} of the edges changed"
    table.sheet.part(title, COLUMNS)
    for algorithm, k in algorithms():
        if not table.budget.allows(f"warm runs on {graph.name}", algorithm.name, 12.0):
            continue
        posed = guarded(lambda a=algorithm, n=k: _changed(a, graph, n))
        if isinstance(posed, str):
            table.sheet.row([graph.name, algorithm.name, str(k), "the run before"], posed)
            continue
        changed, inputs, start = posed
        _each(table.sheet, changed, algorithm, k, ", warm", lambda c, g=changed, i=inputs, s=start: _warm(c, g, i, s))


def _changed(algorithm: Algorithm, graph: Graph, k: int) -> tuple[Graph, Inputs, WarmStart]:
    """The changed graph, its inputs, and the start from the answer on the old one."""
    old, before = _posed(algorithm, graph, k)
    cell = Cell("before", algorithm, k)
    engine = prepared(cell, old, before)
    try:
        done = engine.run(cell.program.max_supersteps)
        kept = {name: engine.values(name) for name in kept_properties(cell.program)}
    finally:
        release([engine])
    new = change_graph(old, CHANGED_SHARE)
    inputs = inputs_after(cell.program, before, algorithm.inputs(new, k))
    start = warm_start(
        cell.program, k, (old, before), (new, inputs), kept, fixed_points=algorithm.fixed_points(), settled=done.settled
    )
    return new, inputs, start


def _warm(cell: Cell, graph: Graph, inputs: Inputs, start: WarmStart) -> Run:
    engine = prepared(cell, graph, inputs)

    def begin() -> None:
        engine.reset(inputs, start.state)
        if start.stale is not None and start.senders is not None:
            engine.narrow(start.stale, start.senders)

    try:
        return whole(engine, begin, cell.program.max_supersteps)
    finally:
        release([engine])

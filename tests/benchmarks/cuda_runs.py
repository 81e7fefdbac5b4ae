"""Whole runs on a CUDA device, cold and warm: what propagating changes gains."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import RunStatistics
from harness.graph import Graph
from harness.graph.changes import change_graph
from harness.language import Algorithm, Inputs
from harness.language.warm import WarmStart, inputs_after, kept_properties, warm_start
from tests.benchmarks.cuda_cells import Budget, Cell, compile_ahead, milliseconds, prepared, release
from tests.benchmarks.cuda_groups import guarded

FEATURES = 8
CHANGED_SHARE = 1e-5  # of the edges, before a warm start
REPEATS = 3
SCHEDULES: dict[str, dict[str, Any]] = {
    "push, full": {"direction": "push", "balance": "warp"},
    "push, change-driven": {"direction": "push", "balance": "warp", "change_driven": True},
    "push over tiles, full": {"direction": "push", "balance": "edge"},
    "push over tiles, change-driven": {"direction": "push", "balance": "edge", "change_driven": True},
    "pull, full": {},
    "pull, change-driven": {"change_driven": True},
}
HEADER = f"{'graph':<17} {'algorithm':<18} {'k':>3} {'schedule':<31} {'ms/run':>9} {'supersteps':>10} {'arcs/|E|':>9}"


def algorithms() -> list[tuple[Algorithm, int]]:
    """Algorithms that settle, with numbers of features."""
    ranks, labels = PageRank(), LabelPropagation(seeds="random")
    return [(BFS(), 8), (SSSP(), 8), (Components(), 1), (KCore(core=16), 1), (ranks, FEATURES), (labels, FEATURES)]


@dataclass(frozen=True)
class Run:
    """A whole run: the median time, and what it did."""

    ms: float
    done: RunStatistics


def whole(engine: Any, start: Callable[[], None], limit: int) -> Run:
    """Some runs from the same start."""
    taken, done = [], None
    for _ in range(REPEATS):
        start()
        took, done = milliseconds(lambda: engine.run(limit), engine.stream)
        taken.append(took)
        if took > 2000:
            break
    assert done is not None
    return Run(statistics.median(taken), done)


def line(graph: Graph, algorithm: Algorithm, k: int, schedule: str, run: Run | str, beside: Run | str | None) -> None:
    """Print a run, and how many times as fast it is as the one ``beside`` it."""
    start = f"{graph.name:<17} {algorithm.name:<18} {k:>3} {schedule:<31}"
    if isinstance(run, str):
        print(f"{start} {run}", flush=True)
        return
    steps, share = run.done.supersteps, run.done.edges / max(1, graph.num_edges)
    ratio = f"  {beside.ms / run.ms:.2f}x as fast as full" if isinstance(beside, Run) else ""
    turns = sum(a.direction != b.direction for a, b in pairwise(steps))
    turned = f", {turns} changes of direction" if turns else ""
    ended = "" if run.done.settled else ", not settled"
    print(f"{start} {run.ms:>9.2f} {len(steps):>10} {share:>9.2f}{ratio}{turned}{ended}", flush=True)


def cold(budget: Budget, graph: Graph, limit: int) -> None:
    """Change-driven against full, from a cold start."""
    print(f"\n== whole runs from a cold start, at most {limit} supersteps [{budget.spent:.0f} s]\n{HEADER}", flush=True)
    for algorithm, k in algorithms():
        what = f"whole runs on {graph.name}"
        if not budget.allows(what, algorithm.name, 8.0):
            continue
        chosen = algorithm.prepare_graph(graph)
        inputs = algorithm.inputs(chosen, k)
        compile_ahead([Cell(name, algorithm, k, options) for name, options in SCHEDULES.items()], chosen)
        full: Run | str | None = None
        for name, options in SCHEDULES.items():
            if not budget.allows(what, f"{algorithm.name} ({name})", 4.0):
                continue
            cell = Cell(name, algorithm, k, options)
            run = guarded(lambda c=cell, g=chosen, i=inputs: _cold(c, g, i, limit))
            changes = options.get("change_driven", False)
            line(chosen, algorithm, k, name, run, full if changes else None)
            full = full if changes else run


def _cold(cell: Cell, graph: Graph, inputs: Inputs, limit: int) -> Run:
    engine = prepared(cell, graph, inputs)
    try:
        return whole(engine, lambda: engine.reset(inputs), min(limit, cell.program.max_supersteps))
    finally:
        release([engine])


def warm(budget: Budget, graph: Graph) -> None:
    """Runs that go on from the answer on a graph of which a few edges have changed since."""
    title = f"warm starts after {CHANGED_SHARE:.0e} of the edges changed"
    print(f"\n== {title} [{budget.spent:.0f} s]\n{HEADER}", flush=True)
    for algorithm, k in algorithms():
        if not budget.allows(f"warm runs on {graph.name}", algorithm.name, 12.0):
            continue
        posed = guarded(lambda a=algorithm, n=k: _changed(a, graph, n))
        if isinstance(posed, str):
            print(f"{graph.name:<17} {algorithm.name:<18} {k:>3} {posed}", flush=True)
            continue
        changed, inputs, start = posed
        full: Run | str | None = None
        for name, options in SCHEDULES.items():
            cell = Cell(name, algorithm, k, options)
            run = guarded(lambda c=cell, g=changed, i=inputs, s=start: _warm(c, g, i, s))
            changes = options.get("change_driven", False)
            line(changed, algorithm, k, f"{name}, warm", run, full if changes else None)
            full = full if changes else run


def _changed(algorithm: Algorithm, graph: Graph, k: int) -> tuple[Graph, Inputs, WarmStart]:
    """The changed graph, its inputs, and the start from the answer on the old one."""
    old = algorithm.prepare_graph(graph)
    before = algorithm.inputs(old, k)
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

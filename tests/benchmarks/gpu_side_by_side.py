"""Compare whole runs of schedules on a GPU, side by side in one run: ``python -m tests.benchmarks.gpu_side_by_side``.

Engines alternate within a round; a time is the median over the rounds, of a call of ``run`` that waits for the device.
The answers of Onyx are compared with the float64 reference on small graphs, and with those of its first schedule on
others; after a wrong answer the exit status is 1. Modules are compiled first, by all cores. ``--seconds`` limits the
measuring, ``--graphs`` and ``--algorithms`` choose some.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import Device, No, Phases
from harness.graph import Graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Algorithm, Inputs, Program, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.modules import headers
from tests.benchmarks.workloads import new_engine

DEVICE = Device("cuda", 0)
MOST = 10_000  # supersteps
SMALL = 1 << 17  # edges up to which answers are compared with the reference
GRAPHS: dict[str, Callable[[], Graph]] = {
    "rmat12": lambda: rmat(scale=12, edge_factor=12, symmetric=True, max_weight=4),
    "delaunay14": lambda: delaunay(1 << 14),
    "grid17": lambda: grid(rows=360, columns=360),
    "rmat18": lambda: rmat(scale=18, edge_factor=12, max_weight=4),
    "delaunay18": lambda: delaunay(1 << 18),
    "rmat20": lambda: rmat(scale=20, edge_factor=16, max_weight=4),
    "grid21": lambda: grid(rows=1500, columns=1500),
}
ALGORITHMS: dict[str, tuple[Algorithm, int]] = {
    "bfs": (BFS(), 1),
    "sssp": (SSSP(), 1),
    "components": (Components(), 1),
    "pagerank": (PageRank(), 1),
    "labels, k=2": (LabelPropagation(seeds="random"), 2),
    "labels, k=16": (LabelPropagation(seeds="random"), 16),
}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("onyx", {}),
    "launched": ("onyx", {"persistent": False}),
    "persistent": ("onyx", {"persistent": True}),
    "simdx": ("simdx", {}),
    "tigr": ("tigr", {}),
    "gunrock": ("gunrock", {}),
}


@dataclass(frozen=True)
class Problem:
    """An algorithm on a graph: ``program`` and ``inputs`` for ``features``."""

    graph: Graph
    program: Program
    inputs: Inputs
    features: int


@cache
def problem(graph_name: str, algorithm: str) -> Problem:
    """Return a problem; equal arguments give the same one."""
    chosen, features = ALGORITHMS[algorithm]
    graph = chosen.prepare_graph(made(graph_name))
    return Problem(graph, trace(chosen), chosen.inputs(graph, features), features)


@cache
def made(graph_name: str) -> Graph:
    """Return a graph."""
    return GRAPHS[graph_name]()


def engine_of(way: str) -> CudaEngine:
    """Return a new engine under a schedule of ``WAYS``."""
    name, options = WAYS[way]
    several = new_engine(name, **options)  # chooses its class by the device
    module, _, attribute = several.engines["cuda"].partition(":")  # type: ignore[attr-defined]
    engine = getattr(importlib.import_module(module), attribute)(several.schedule)
    assert isinstance(engine, CudaEngine)
    return engine


def compile_one(task: tuple[str, str, str, str]) -> None:
    """Compile the module of a cell into the cache on disk; what fails here fails again where it is used."""
    graph_name, algorithm, way, architecture = task
    from harness.device.compilation import compiled

    given = problem(graph_name, algorithm)
    plan = engine_of(way).plan(given.program, given.graph.facts, given.features)
    if not isinstance(plan, No):
        compiled(plan.source, headers(plan.templates), architecture)


def compile_all(cells: Sequence[tuple[str, str]], ways: Sequence[str]) -> None:
    """Compile the modules of all cells by processes forked before this process uses the device."""
    from harness.device.cuda import architecture

    for cell in cells:
        problem(*cell)
    target = architecture(DEVICE.index)
    tasks = [(*cell, way, target) for cell in cells for way in ways]
    with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
        pool.map(compile_one, tasks, chunksize=1)


def check(given: Problem, engine: CudaEngine, wanted: dict[str, np.ndarray[Any, Any]]) -> str:
    """Return why the answer of an engine is wrong; empty if it is right."""
    found = compare(given.program, {name: engine.values(name) for name in wanted}, wanted)
    return "" if found.ok else found.detail


def expected(given: Problem, first: CudaEngine) -> dict[str, np.ndarray[Any, Any]]:
    """Return the reference's answer on a small graph, otherwise that of the first engine, which has run."""
    source: Any = first
    if given.graph.num_edges <= SMALL:
        source = ReferenceRun(given.program, given.graph, given.features)
        source.reset(given.inputs)
        source.run(MOST)
    return {name: source.values(name) for name in given.program.outputs}


def measure(given: Problem, ways: Sequence[str], rounds: int) -> tuple[dict[str, float], dict[str, int], list[str]]:
    """Return the median milliseconds and the supersteps of every schedule that runs the problem, and wrong answers."""
    engines: dict[str, CudaEngine] = {}
    wrong: list[str] = []
    for way in ways:
        engine = engine_of(way)
        if isinstance(engine.plan(given.program, given.graph.facts, given.features), No):
            continue
        engine.prepare(given.program, given.graph, given.features, DEVICE, Phases())
        engines[way] = engine
    times: dict[str, list[float]] = {way: [] for way in engines}
    counts: dict[str, int] = {}
    for number in range(rounds + 1):  # the first one warms up
        for way, engine in engines.items():
            engine.reset(given.inputs)
            begin = time.perf_counter()
            counts[way] = len(engine.run(MOST).supersteps)
            if number:
                times[way].append(1e3 * (time.perf_counter() - begin))
    own = [way for way in engines if WAYS[way][0] == "onyx"]
    wanted = expected(given, engines[own[0]]) if own else {}
    for way in own:
        reason = check(given, engines[way], wanted)
        wrong += [f"{way}: {reason}"] if reason else []
    for engine in engines.values():
        engine.close()
    return {way: statistics.median(taken) for way, taken in times.items()}, counts, wrong


def main() -> int:
    """Print a row for every problem; return 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--algorithms", default=";".join(ALGORITHMS), help="separated by semicolons")
    parser.add_argument("--ways", default="launched,persistent,simdx,tigr")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=120, help="no problem begins later")
    options = parser.parse_args()
    ways = options.ways.split(",")
    cells = list(itertools.product(options.graphs.split(","), options.algorithms.split(";")))
    begin = time.perf_counter()
    compile_all(cells, ways)
    print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)
    print(
        f"{'graph':<11} {'problem':<13} {'edges':>9} {'steps':>6} " + " ".join(f"{way:>11}" for way in ways), flush=True
    )
    begin, failed = time.perf_counter(), False
    for graph_name, algorithm in cells:
        if time.perf_counter() - begin > options.seconds:
            print(f"not measured from {graph_name}, {algorithm} on")
            break
        given = problem(graph_name, algorithm)
        times, counts, wrong = measure(given, ways, options.rounds)
        row = " ".join(f"{times[way]:>11.3f}" if way in times else f"{'-':>11}" for way in ways)
        steps = max(counts.values(), default=0)
        print(f"{graph_name:<11} {algorithm:<13} {given.graph.num_edges:>9} {steps:>6} {row}", flush=True)
        for line in wrong:
            failed = True
            print(f"WRONG {graph_name}, {algorithm}, {line}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""The styles of Gunrock, Tigr and SIMD-X against their originals, on a CUDA device.

``python -m tests.benchmarks.cuda_originals`` runs PageRank (k = 1, 20 supersteps), PageRank as the originals have it
(neither a sum for vertices without out-edges nor a look at what has moved) and BFS from the largest hub on a symmetric
R-MAT graph of 2^20 vertices and on a grid of 2,000 x 2,000 with 40 % of its edges removed. A line for every style tells
the milliseconds of a whole run, between events on the engine's stream (median of several), those of its kernels alone,
one after another, and the original's on such graphs on an H100. With ``--kernels``: those of every kernel. Answers are
held against float64 beforehand. ``--scale`` and ``--side``: smaller graphs.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from harness.algorithms.bfs import BFS
from harness.algorithms.pagerank import PageRank
from harness.contract import Device, Phases, schedule_from_options
from harness.graph import Graph
from harness.language import Algorithm, Inputs, trace
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.launcher import Launcher
from harness.plugins import load_plugins
from tests.benchmarks.cuda_cells import milliseconds, release
from tests.benchmarks.cuda_graphs import rmat_graph, road_grid
from tests.benchmarks.workloads import PageRankOfOriginals
from tests.engines.cuda_schedules import loaded

SUPERSTEPS = 20  # of PageRank
REPEATS = 5
PATIENCE_MS = 1500.0  # no further repetition beyond
STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "tigr": ("tigr", {}),
    "gunrock, block": ("gunrock", {"balance": "block"}),
    "gunrock, merge path": ("gunrock", {"balance": "merge_path"}),
    "simdx": ("simdx", {}),
}
# Milliseconds on an H100: of Gunrock 1.2, Tigr and SIMD-X.
ORIGINALS = {
    ("rmat", "pagerank"): {"gunrock": 24.8, "tigr": 9.0, "simdx": 8.7},
    ("rmat", "bfs"): {"gunrock": 1.5, "tigr": 0.84, "simdx": 0.63},
    ("grid", "pagerank"): {"gunrock": 6.4, "tigr": 2.1, "simdx": 2.7},
    ("grid", "bfs"): {"gunrock": 385.0, "tigr": 157.0, "simdx": 65.0},
}
HEADER = (
    f"{'graph':<10} {'algorithm':<21} {'style':<20} {'ms/run':>8} {'kernels':>8} {'supersteps':>10} {'original':>8}"
)


def made(style: str, algorithm: Algorithm, graph: Graph, inputs: Inputs) -> CudaEngine:
    """The engine of a style, at the start of a run."""
    name, options = STYLES[style]
    spec = load_plugins().engine(name)
    engine: CudaEngine = loaded(loaded(spec.factory).engines["cuda"])(schedule_from_options(spec, options))
    engine.prepare(trace(algorithm), graph, 1, Device("cuda"), Phases())
    engine.reset(inputs)
    return engine


def whole_run(engine: CudaEngine, inputs: Inputs, limit: int) -> tuple[float, int]:
    """The median of some runs from the start, ms, and their supersteps."""
    taken: list[float] = []
    supersteps = 0
    while len(taken) < REPEATS and sum(taken) < PATIENCE_MS:
        engine.reset(inputs)
        took, done = milliseconds(lambda: engine.run(limit), engine.executor.stream)
        taken.append(took)
        supersteps = len(done.supersteps)
    return statistics.median(taken), supersteps


@contextmanager
def timed_launches(engine: CudaEngine, into: dict[str, list[float]]) -> Iterator[None]:
    """Every launch waits for the one before it, and its milliseconds are noted under the kernel's name."""
    names = {id(function): name for name, function in engine.executor.functions.items()}

    def timed(launcher: Launcher, number: int, past: Any, *, tracked: bool = False) -> None:
        for launch in launcher.launches(number, past, tracked=tracked):
            took, _ = milliseconds(launch.start)
            into[names[id(launch.function)]].append(took)

    with mock.patch.object(Launcher, "superstep", timed):
        yield


def by_kernel(engine: CudaEngine, inputs: Inputs, limit: int) -> dict[str, float]:
    """Milliseconds of a run by kernel, each on its own; empty where a single launch does the whole run."""
    found: dict[str, list[float]] = defaultdict(list)
    engine.reset(inputs)
    with timed_launches(engine, found):
        engine.run(limit)
    return {name: sum(taken) for name, taken in sorted(found.items(), key=lambda pair: -sum(pair[1]))}


# answers --------------------------------------------------------------------------------------------------------------
def expected(algorithm: Algorithm, graph: Graph, inputs: Inputs) -> NDArray[np.float64]:
    """The answer in float64, ``[V]``, by SciPy."""
    if isinstance(algorithm, BFS):
        return np.asarray(algorithm.settled_answer(graph, 1).values["level"][:, 0])
    ones, count = np.ones(graph.num_edges), graph.num_vertices
    matrix = csr_array((ones, graph.csc.neighbours, graph.csc.offsets), shape=(count, count))
    degree = graph.out_degrees.astype(np.float64)
    teleport = inputs.properties["teleport"][:, 0].astype(np.float64)
    rank, alpha = teleport.copy(), inputs.parameters["alpha"]
    for _ in range(SUPERSTEPS):
        share = np.where(degree > 0, rank / np.maximum(degree, 1), 0.0)
        leaked = 0.0 if isinstance(algorithm, PageRankOfOriginals) else rank[degree == 0].sum()
        rank = (1 - alpha + alpha * leaked) * teleport + alpha * (matrix @ share)
    return rank


def check(engine: CudaEngine, algorithm: Algorithm, wanted: NDArray[np.float64]) -> str:
    """How far an answer is off, and where that is too far, so in capitals."""
    (output,) = engine.planned.program.outputs
    values = engine.values(output)[:, 0].astype(np.float64)
    if isinstance(algorithm, BFS):
        wrong = np.count_nonzero(values != wanted)
        return f"WRONG: {wrong} levels" if wrong else "levels as in float64"
    error = np.abs(values - wanted) / wanted
    at, bound = int(error.argmax()), trace(algorithm).bound
    told = f"relative error {error[at]:.1e} (90 %: {np.quantile(error, 0.9):.1e}), sum {values.sum():.7f}"
    where = f"beyond {bound:.1e} at a vertex of {engine.executor.store.graph.in_degrees[at]} in-arcs"
    return told if error[at] <= bound else f"WRONG, {where}: {told}"


# the table ------------------------------------------------------------------------------------------------------------
def lines(kind: str, graph: Graph, styles: Sequence[str], *, kernels: bool) -> Iterator[str]:
    """Of every style on a graph, both algorithms."""
    hub = int(np.argmax(graph.out_degrees))
    ranks, plain = PageRank(), PageRankOfOriginals(supersteps=SUPERSTEPS)
    problems: list[tuple[Algorithm, int]] = [
        (ranks, SUPERSTEPS), (plain, SUPERSTEPS), (BFS(sources=str(hub)), 1_000_000),
    ]  # fmt: skip
    for algorithm, limit in problems:
        inputs = algorithm.inputs(graph, 1)
        wanted = expected(algorithm, graph, inputs)
        for style in styles:
            engine = made(style, algorithm, graph, inputs)
            engine.run(limit)
            told = check(engine, algorithm, wanted)
            ms, supersteps = whole_run(engine, inputs, limit)
            alone = by_kernel(engine, inputs, limit)
            original = ORIGINALS[kind, "bfs" if isinstance(algorithm, BFS) else "pagerank"][STYLES[style][0]]
            kernels_ms = f"{sum(alone.values()):.2f}" if alone else "fused"
            yield (
                f"{graph.name:<10} {algorithm.name:<21} {style:<20} {ms:>8.2f} {kernels_ms:>8} "
                f"{supersteps:>10} {original:>8.2f} {ms / original:.2f}x  {told}"
            )
            if kernels:
                each = ", ".join(f"{name} {took:.2f}" for name, took in alone.items())
                yield f"    {each or 'one launch for the whole run'}"
            release([engine])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="R-MAT: the logarithm of the number of vertices")
    parser.add_argument("--side", type=int, default=2000, help="grid: vertices on a side")
    parser.add_argument("--styles", default=";".join(STYLES), help="which, with semicolons between")
    parser.add_argument("--kernels", action="store_true", help="the milliseconds of every kernel as well")
    options = parser.parse_args()
    makers: dict[str, Callable[[], Graph]] = {
        "rmat": lambda: rmat_graph(options.scale, 30 << options.scale),
        "grid": lambda: road_grid(options.side),
    }
    print(HEADER)
    for kind, make in makers.items():
        for line in lines(kind, make(), options.styles.split(";"), kernels=options.kernels):
            print(line, flush=True)


if __name__ == "__main__":
    main()

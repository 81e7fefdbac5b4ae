"""SIMD-X's own ablations on a CUDA device (its figs. 11 and 12, table 2): ``python -m tests.benchmarks.cuda_simdx``.

Filters (ballot, online, just in time) and fusion (none, push-pull, all) for BFS from the largest hub, SSSP, k-core
(core = 16) and connected components, on a symmetric R-MAT graph of 2^20 vertices and on a grid of 2,000 x 2,000 with
40 % of its edges removed. Milliseconds of a whole run between events on the engine's stream (medians; cells take
turns), with its supersteps by direction and filter, and the registers and resident blocks of fused kernels (eq. 1).
All cells of an algorithm on a graph must agree; BFS and k-core are held against other methods besides.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.cuda_engine import SimdxCudaEngine
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.sssp import SSSP
from harness.contract import Device, EngineFailure, Phases
from harness.graph import Graph
from harness.language import Algorithm, trace
from tests.benchmarks.cuda_cells import milliseconds, release
from tests.benchmarks.cuda_graphs import rmat_graph, road_grid

REPEATS = 5
PATIENCE_MS = 1200.0  # no further repetition of a cell beyond
CELLS: dict[str, dict[str, Any]] = {
    "filter=jit fusion=push_pull": {},
    "filter=ballot fusion=push_pull": {"filter": "ballot"},
    "filter=online fusion=push_pull": {"filter": "online"},
    "filter=jit fusion=none": {"fusion": "none"},
    "filter=jit fusion=all": {"fusion": "all"},
}
HEADER = f"| graph | algorithm | {' | '.join(CELLS)} | supersteps (of the first) |"


def algorithms(graph: Graph) -> list[Algorithm]:
    """The paper's traversals, from the largest hub."""
    hub = str(int(np.argmax(graph.out_degrees)))
    return [BFS(sources=hub), SSSP(sources=hub), KCore(core=16), Components()]


def cell(algorithm: Algorithm, graph: Graph, options: dict[str, Any]) -> tuple[str, Any, SimdxCudaEngine]:
    """The median of some runs, as text; the answer, None where there is none; the engine."""
    engine = SimdxCudaEngine(SimdxSchedule(**options))
    engine.prepare(trace(algorithm), graph, 1, Device("cuda"), Phases())
    inputs = algorithm.inputs(graph, 1)
    taken: list[float] = []
    try:
        while len(taken) <= REPEATS and sum(taken) < PATIENCE_MS:
            engine.reset(inputs)
            taken.append(milliseconds(lambda: engine.run(1_000_000), engine.stream)[0])
    except EngineFailure:
        return "overflow", None, engine
    (output,) = engine.program.outputs
    return f"{statistics.median(taken[1:] or taken):.2f}", engine.values(output), engine


def lines(graph: Graph) -> Iterator[str]:
    """A line of the table for every algorithm."""
    for algorithm in algorithms(graph):
        chosen, answers, texts, told = algorithm.prepare_graph(graph), [], [], ""
        for options in CELLS.values():
            text, answer, engine = cell(algorithm, chosen, options)
            texts.append(text)
            answers += [] if answer is None else [answer]
            told = told or steps(engine)
            blocks = ", ".join(
                f"{name} {engine.resident[name].registers_of_thread} registers, {count} blocks"
                for name, count in engine.blocks_of.items()
            )
            print(f"    {algorithm.name} {options} {text} ms; {blocks}; {steps(engine)}", flush=True)
            release([engine])
        assert all(np.array_equal(answers[0], answer) for answer in answers), f"{algorithm.name}: answers differ"
        yield f"| {graph.name} | {algorithm.name} | {' | '.join(texts)} | {told} |"


def steps(engine: SimdxCudaEngine) -> str:
    """How many supersteps the last run took, by filter."""
    found = Counter(engine.filters)
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cuda_simdx", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="R-MAT: the logarithm of the number of vertices")
    parser.add_argument("--side", type=int, default=2000, help="grid: vertices on a side")
    given = parser.parse_args()
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    versions = f"CuPy {cupy.__version__}, NVRTC {'.'.join(map(str, cupy.cuda.nvrtc.getVersion()))}"
    driver = f"driver for CUDA {cupy.cuda.runtime.driverGetVersion()}"
    print(f"{name}, {driver}, {versions}, Python {platform.python_version()}")
    table = []
    for graph in (rmat_graph(given.scale, 30 << given.scale), road_grid(given.side)):
        table += list(lines(graph))
    print("\n".join([HEADER, "|---" * (3 + len(CELLS)) + "|", *table]))


if __name__ == "__main__":
    main()

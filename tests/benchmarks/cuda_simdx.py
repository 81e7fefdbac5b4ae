"""SIMD-X's own ablations on a CUDA device (its figs. 11 and 12, table 2): ``python -m tests.benchmarks.cuda_simdx``.

Filters (just in time, ballot, online) and fusion (none, push-pull, all) for BFS and SSSP from the largest hub, k-core
(core = 16), connected components and PageRank (20 supersteps; no filters, and one direction), on a symmetric R-MAT
graph of 2^20 vertices and on a grid of 2,000 x 2,000 with 40 % of its edges removed. Milliseconds of a whole run
between events on the engine's stream (medians), then the registers and resident blocks of fused kernels (eq. 1) and how
many supersteps each filter served. BFS and PageRank are held against float64; all cells of an algorithm must agree.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.cuda_engine import SimdxCudaEngine
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import Device, EngineFailure, No, Phases
from harness.device.compilation import compiled
from harness.graph import Graph
from harness.language import Algorithm, trace
from harness.lowering.cuda.modules import headers
from tests.benchmarks.cuda_cells import milliseconds, release
from tests.benchmarks.cuda_graphs import rmat_graph, road_grid
from tests.benchmarks.cuda_originals import SUPERSTEPS, check, expected

REPEATS = 5  # after a first one that does not count
PATIENCE_MS = 800.0  # no further repetition of a cell beyond
CELLS: dict[str, dict[str, Any]] = {
    "jit, push-pull": {"fusion": "push_pull"},
    "ballot, push-pull": {"fusion": "push_pull", "filter": "ballot"},
    "online, push-pull": {"fusion": "push_pull", "filter": "online"},
    "jit, none": {"fusion": "none"},
    "jit, all": {"fusion": "all"},
}


def algorithms(graph: Graph) -> list[Algorithm]:
    """The paper's, traversals from the largest hub."""
    hub = str(int(np.argmax(graph.out_degrees)))
    return [BFS(sources=hub), SSSP(sources=hub), KCore(core=16), Components(), PageRank(tolerance=0.0)]


def engine_of(algorithm: Algorithm, graph: Graph, cell: str) -> SimdxCudaEngine | None:
    """The engine of a cell, planned; None where the program refuses its options."""
    engine = SimdxCudaEngine(SimdxSchedule(**CELLS[cell]))
    program, device = trace(algorithm), Device("cuda")
    if isinstance(engine.supports(program, graph, 1, device), No):
        return None
    engine.generate(program, graph, 1, device)
    return engine


def compile_all(graph: Graph) -> None:
    """Have every module on disk, many at once."""
    import cupy

    chip = f"sm_{cupy.cuda.Device().compute_capability}"

    def one(pair: tuple[Algorithm, str]) -> None:
        engine = engine_of(pair[0], graph, pair[1])
        if engine is not None:
            compiled(engine.planned.source, headers(engine.planned.templates), chip)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, [(algorithm, cell) for algorithm in algorithms(graph) for cell in CELLS]))


def timed(engine: SimdxCudaEngine, algorithm: Algorithm, graph: Graph) -> str:
    """The median of some runs in milliseconds, or that a bin has overflowed."""
    engine.prepare(trace(algorithm), graph, 1, Device("cuda"), Phases())
    inputs, limit = algorithm.inputs(graph, 1), SUPERSTEPS if isinstance(algorithm, PageRank) else 1_000_000
    taken: list[float] = []
    try:
        while len(taken) <= REPEATS and sum(taken) < PATIENCE_MS:
            engine.reset(inputs)
            taken.append(milliseconds(lambda: engine.run(limit), engine.executor.stream)[0])
    except EngineFailure:
        return "overflow"
    return f"{statistics.median(taken[1:] or taken):.2f}"


def line(algorithm: Algorithm, given: Graph) -> Iterator[str]:
    """Notes on every cell of an algorithm on a graph, and in the end its line of the table."""
    graph = algorithm.prepare_graph(given)
    exact = isinstance(algorithm, (BFS, PageRank))
    wanted = expected(algorithm, graph, algorithm.inputs(graph, 1)) if exact else None
    answer: NDArray[np.generic] | None = None
    texts = []
    for cell in CELLS:
        engine = engine_of(algorithm, graph, cell)
        texts.append("-" if engine is None else timed(engine, algorithm, graph))
        if engine is None:
            continue
        if texts[-1] != "overflow":
            found = engine.values(engine.planned.program.outputs[0])
            answer = found if answer is None else answer
            same = np.array_equal(answer, found) or isinstance(algorithm, PageRank)
            told = check(engine, algorithm, wanted) if wanted is not None else "as the first" if same else "WRONG"
            yield f"    {algorithm.name}, {cell}: {told if same else 'WRONG: other than the first'}; {notes(engine)}"
        release([engine])
    yield f"| {graph.name} | {algorithm.name} | {' | '.join(texts)} |"


def notes(engine: SimdxCudaEngine) -> str:
    """Residency of the fused kernels, and the filters of the last run."""
    threads, resident = engine.planned.threads, engine.executor.resident
    kernels = [
        f"{name} {resident[name].registers_of_thread} registers, {blocks} blocks of {threads}"
        for name, blocks in engine.blocks_of.items()
    ]
    filters = Counter(getattr(engine, "filters", ()))
    return ", ".join([*kernels, *(f"{count} {name}" for name, count in sorted(filters.items()))])


def main() -> None:
    """Print the notes, then the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cuda_simdx", description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="R-MAT: the logarithm of the number of vertices")
    parser.add_argument("--side", type=int, default=2000, help="grid: vertices on a side")
    given = parser.parse_args()
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    versions = f"CuPy {cupy.__version__}, NVRTC {'.'.join(map(str, cupy.cuda.nvrtc.getVersion()))}"
    driver = f"driver for CUDA {cupy.cuda.runtime.driverGetVersion()}"
    print(f"{name}, {driver}, {versions}, Python {platform.python_version()}", flush=True)
    table = [f"| graph | algorithm | {' | '.join(CELLS)} |", "|---" * (2 + len(CELLS)) + "|"]
    for graph in (rmat_graph(given.scale, 30 << given.scale), road_grid(given.side)):
        compile_all(graph)
        for algorithm in algorithms(graph):
            *told, row = line(algorithm, graph)
            print("\n".join(told), flush=True)
            table.append(row)
    print("\n".join(table))


if __name__ == "__main__":
    main()

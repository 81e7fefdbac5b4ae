"""Measure C++ kernels of the CUDA renderer against Numba's: ``python -m tests.benchmarks.one_renderer``.

One superstep with full propagation on one thread. The kernels take turns in every round and read the same arrays. Times
are processor time of the thread, because other processes use the machine; a ratio is the median over the rounds of the
ratio within a round. The C++ compiler is that of the wheel ``ziglang``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distribution, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from harness.algorithms.als import ALS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.device.figures import cpu_model
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Algorithm
from harness.records.statistics import Interval, median_interval
from tests.benchmarks.one_renderer.compile_times import compile_times
from tests.benchmarks.one_renderer.measure import error, operations, rounds
from tests.benchmarks.one_renderer.superstep import Superstep, compiled, wheel_compiler
from tests.benchmarks.workloads import rmat

ALGORITHMS: dict[str, Algorithm] = {
    "PageRank": PageRank(),
    "label propagation": LabelPropagation(seeds="random"),
    "ALS": ALS(sides="all", ratings="drawn"),
}
FEATURES = (1, 8, 32)
CONTRACTION = {"C++": "off", "C++, fused": "fast"}  # off: the rounding of Numba's kernels


def graphs(scale: int) -> dict[str, Graph]:
    """Return a graph of hubs and a graph of equal degrees."""
    side = 1 << scale // 2
    lattice = grid(rows=side, columns=side, removed=0.0)
    weights = np.random.default_rng(0).random(lattice.num_edges, np.float32) + np.float32(0.1)
    return {f"R-MAT {scale}": rmat(scale), f"grid {side}": lattice.with_weights(weights)}


def row(algorithm: str, graph: tuple[str, Graph], features: int, count: int, compiler: list[str]) -> str:
    """Measure one cell; return its line of the table. Raises AssertionError if a kernel is wrong."""
    superstep = Superstep(ALGORITHMS[algorithm], graph[1], features)
    expected, work, errors = superstep.expected(), operations(superstep), []
    works: list[Callable[[], object]] = [superstep.numba]
    with tempfile.TemporaryDirectory() as folder:
        for mode in CONTRACTION.values():
            (place := Path(folder) / mode).mkdir()
            library = compiled(superstep.rendered.source, place, [*compiler, f"-ffp-contract={mode}"])
            works.append(superstep.load(library))
    for run in works:
        superstep.result()
        run()
        errors.append(error(superstep.result(), expected))
    assert max(errors) < 1e-5, f"{algorithm}, {graph[0]}, k = {features}: errors {errors}"
    table = rounds(works, count)
    seconds = [statistics.median(column) for column in zip(*table, strict=True)]
    speed = " | ".join(f"{work / one / 1e9:.2f}" for one in seconds)
    ratios = " | ".join(interval_text(median_interval([r[0] / r[i] for r in table])) for i in (1, 2))
    return (
        f"| {algorithm} | {graph[0]} | {features} | {seconds[0] * 1e3:.2f} | {speed} | {ratios} | {max(errors):.0e} |"
    )


def interval_text(ratio: Interval) -> str:
    """Return a ratio with its interval."""
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def installed(name: str) -> str:
    """Return the version of a package and the MB of its files."""
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec else None
    assert places is not None, f"{name} is not an installed package"
    files = (path for place in places for path in Path(place).rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    return f"| {name} {version(name)} | {size / 1e6:.0f} | {', '.join(distribution(name).requires or ()) or '-'} |"


def main() -> None:
    """Read the arguments, measure, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.one_renderer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--scale", type=int, default=16, help="of the graphs: 2^SCALE vertices; two less for ALS")
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=[*ALGORITHMS])
    parser.add_argument("--features", nargs="+", type=int, default=FEATURES, help="powers of two")
    given = parser.parse_args()
    compiler = wheel_compiler()
    if compiler is None:
        parser.error("the compiler's wheel is not installed; run: pip install ziglang")
    print(
        f"{cpu_model()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}; load {os.getloadavg()[0]:.1f}"
    )
    print("\n| package | MB | requires |\n| --- | ---: | --- |")
    print("\n".join(map(installed, ("ziglang", "llvmlite", "numba"))))
    print("\n| algorithm | k | Numba, s | C++, s |\n| --- | ---: | ---: | ---: |")
    cells = [(name, features) for name in given.algorithms for features in given.features]
    warm_up, *_ = Superstep(ALGORITHMS["PageRank"], rmat(8), 4).executor.plan.kernels  # not one of those below
    supersteps = [Superstep(ALGORITHMS[name], rmat(8), features) for name, features in cells]
    times = compile_times(warm_up, supersteps, compiler)
    for (name, features), (numba, cpp) in zip(cells, times, strict=True):
        print(f"| {name} | {features} | {numba:.2f} | {cpp:.2f} |", flush=True)
    speeds, ratios = (f"{name}, GFLOP/s" for name in ("Numba", *CONTRACTION)), (f"{n} over Numba" for n in CONTRACTION)
    heads = ["algorithm", "graph", "k", "Numba, ms", *speeds, *ratios, "error"]
    print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * 2 + " ---: |" * (len(heads) - 2))
    for algorithm in given.algorithms:
        for graph in graphs(given.scale - 2 if algorithm == "ALS" else given.scale).items():
            for features in given.features:
                print(row(algorithm, graph, features, given.rounds, compiler), flush=True)


if __name__ == "__main__":
    main()

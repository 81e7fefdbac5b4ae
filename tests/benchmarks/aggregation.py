"""Time one aggregation of SciPy and of Onyx on one thread of a CPU: ``python -m tests.benchmarks.aggregation``.

Supersteps of feature diffusion, each one product of a sparse matrix and k columns, in alternating runs. Graphs are
*rmat*, *grid*, or files. The ratio is the median time of SciPy over that of Onyx; above 1, Onyx is faster.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from pathlib import Path

from harness.algorithms.feature_diffusion import FeatureDiffusion
from harness.contract import Engine
from harness.device.figures import cpu_model
from harness.graph import Graph, load_graph
from harness.graph.generators import grid
from tests.benchmarks.workloads import prepared, rmat

ENGINES = ("scipy", "onyx")


def opened(name: str, size: int) -> Graph:
    """Return a graph: *rmat* of 2^size vertices, *grid* of about as many, or a file."""
    if name == "rmat":
        return rmat(size)
    if name == "grid":
        side = int(2 ** (size / 2))
        return grid(rows=side, columns=side)
    return load_graph(Path(name))


def seconds(engine: Engine, supersteps: int) -> float:
    """Return the processor's seconds of a superstep of a run from the start."""
    engine.restart()  # type: ignore[attr-defined]
    began = time.process_time()
    engine.run(supersteps)
    return (time.process_time() - began) / supersteps


def medians(engines: list[Engine], supersteps: int, rounds: int) -> list[float]:
    """Return the median seconds of a superstep of each engine over alternating runs, after one that is not timed."""
    for engine in engines:
        seconds(engine, supersteps)
    table = [[seconds(engine, supersteps) for engine in engines] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*table, strict=True)]


def main() -> None:
    """Read the arguments, run, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.aggregation", description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=["rmat", "grid"])
    parser.add_argument("--size", type=int, default=18)
    parser.add_argument("--features", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--supersteps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"{cpu_model()}, Python {platform.python_version()}, one thread; {given.supersteps} supersteps")
    print("| graph | edges | k | SciPy, ns per edge | Onyx, ns per edge | ratio |")
    print("|---|---|---|---|---|---|")
    for name in given.graphs:
        graph = opened(name, given.size)
        for features in given.features:
            engines = [prepared(one, FeatureDiffusion(), graph, features, 1) for one in ENGINES]
            scipy, onyx = medians(engines, given.supersteps, given.rounds)
            edges = [f"{1e9 * one / graph.num_edges:.2f}" for one in (scipy, onyx)]
            row = [graph.name, f"{graph.num_edges:,}", str(features), *edges, f"{scipy / onyx:.2f}"]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

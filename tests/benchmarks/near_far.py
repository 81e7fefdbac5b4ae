"""Measure near-far by its width: ``python -m tests.benchmarks.near_far --device cuda --widths 1 4 16 64``.

Shortest paths on a grid whose edges are partly removed, as roads, from k random vertices. A width is delta as a
multiple of the mean length of an edge. The time of a run is the median of ``--runs``; it includes what the device does
until it is done. On a GPU ``--block`` gives the threads of a block, and ``--lanes`` those that share the edges of a
vertex.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import time
from collections.abc import Sequence

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.sssp import SSSP
from harness.contract import Device, Phases
from harness.facts import GraphFacts
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.lowering.cuda import near_far


def measured(graph: Graph, features: int, device: Device, delta: float | None, runs: int) -> str:
    """Return the milliseconds of a run, and what it did."""
    algorithm = SSSP()
    engine = OnyxEngine(OnyxSchedule(order="near_far", delta=delta))
    engine.prepare(trace(algorithm), graph, features, device, Phases())
    inputs, seconds = algorithm.inputs(graph, features), []
    for _ in range(runs + 1):
        engine.reset(inputs)
        began = time.perf_counter()
        engine.run(1)
        seconds.append(time.perf_counter() - began)
    done = engine.resolved_options()
    engine.close()
    counts = ", ".join(f"{value:,} {name}" for name, value in done["solved"])
    return f"delta {done['delta']:9.3g}: {1e3 * statistics.median(seconds[1:]):8.3f} ms, {counts}"


def _same(lanes: int, _: GraphFacts) -> int:
    return lanes


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of features, block, lanes and width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--side", type=int, default=1414, help="rows and columns of the grid")
    parser.add_argument("--rmat", type=int, default=0, help="measure an R-MAT graph of this scale instead")
    parser.add_argument("--features", type=int, nargs="+", default=[1])
    parser.add_argument("--widths", type=float, nargs="*", default=[])
    parser.add_argument("--block", type=int, nargs="+", default=[near_far.BLOCK])
    parser.add_argument("--lanes", type=int, nargs="+", default=[0], help="0: by the degree")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    graph = grid(chosen.side, chosen.side, removed=0.3)
    if chosen.rmat:
        skewed = rmat(chosen.rmat, symmetric=True)
        graph = skewed.with_weights(1 + skewed.csr.neighbours % 97 / 32)
    print(f"{graph.name}: {graph.num_vertices:,} vertices, {graph.num_edges:,} edges")
    by_degree = near_far.lanes_of_group
    for features, block, lanes in itertools.product(chosen.features, chosen.block, chosen.lanes):
        near_far.BLOCK = block
        near_far.lanes_of_group = functools.partial(_same, lanes) if lanes else by_degree
        for width in [*chosen.widths, None]:
            assert graph.weights is not None
            delta = None if width is None else width * float(graph.weights.mean(dtype=float))
            found = measured(graph, features, Device(chosen.device, threads=2), delta, chosen.runs)
            print(f"k {features}, block {block}, lanes {lanes}: {found}", flush=True)


if __name__ == "__main__":
    main()

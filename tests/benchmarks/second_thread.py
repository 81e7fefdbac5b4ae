"""Measure the gain of a second thread by the number of active vertices: ``python -m tests.benchmarks.second_thread``.

One traversal on the world's highways with one thread and with two, in alternating runs; for each superstep the
median over the runs. Supersteps are grouped by the number of vertices that were active before them. The table also
shows the time of a launch without work on one and on two threads.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from numba import int64, njit

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.sssp import SSSP
from harness.contract import Engine
from harness.device.figures import cpu_model
from harness.graph import Graph, open_graph
from harness.lowering.cpu.parallel_for import launch
from harness.lowering.cpu.partition import owner_bounds
from tests.benchmarks.workloads import prepared

ALGORITHMS = {"bfs": BFS, "sssp": SSSP, "components": Components}
EDGES = (0, 100, 300, 1_000, 3_000, 10_000, 10**9)
LAUNCHES = 20_000


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _nothing(t, worker, bounds):  # type: ignore[no-untyped-def]
    if bounds[t] < 0:
        bounds[t] = worker


@njit(int64(int64, int64, int64[::1]), nogil=True)  # type: ignore[untyped-decorator]
def _launched(parts, threads, bounds):  # type: ignore[no-untyped-def]
    return launch(_nothing, parts, threads, (bounds,))


def launch_us(threads: int) -> float:
    """Return the microseconds of a launch without work, from Python, as kernels are launched."""
    bounds = np.zeros(threads, np.int64)

    def one() -> float:
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            _launched(threads, threads, bounds)
        return (time.perf_counter() - start) / LAUNCHES * 1e6

    return statistics.median(one() for _ in range(5))


def whole_run(engine: Engine) -> tuple[list[float], list[int]]:
    """Return the seconds and the active vertices of every superstep."""
    engine.restart()  # type: ignore[attr-defined]
    seconds, active = [], []
    while True:
        start = time.perf_counter()
        done = engine.run(1)
        seconds.append(time.perf_counter() - start)
        active += [step.active for step in done.supersteps]
        if done.settled or not done.supersteps:
            return seconds[: len(active)], active


def medians(engines: list[Engine], rounds: int) -> tuple[list[list[float]], list[int]]:
    """Return for each engine the median seconds of every superstep over alternating runs, and the active vertices,
    which are equal for all engines."""
    for engine in engines:
        whole_run(engine)
    table = [[whole_run(engine) for engine in engines] for _ in range(rounds)]
    columns = range(len(engines))
    steps = [[statistics.median(times) for times in zip(*(row[i][0] for row in table), strict=True)] for i in columns]
    return steps, table[0][0][1]


def shares_of_one_owner(engine: Engine, graph: Graph) -> list[float]:
    """Return for each superstep the larger of two owners' shares of the out-edges of active vertices."""
    _, half, _ = owner_bounds(graph.csc.offsets, 2)
    edges = graph.out_degrees
    first = np.bincount(graph.csr.row_of_edge[graph.csr.neighbours < half], minlength=graph.num_vertices)
    arrays = engine.prepared.executor.memory.arrays  # type: ignore[attr-defined]
    [flags] = [name for name in arrays if name.startswith("active_") and not name.endswith("_blocks")]
    engine.restart()  # type: ignore[attr-defined]
    shares, active = [], np.arange(graph.num_vertices)  # all are active before the first superstep
    while True:
        one = first[active].sum() / max(1, edges[active].sum())
        shares.append(max(one, 1 - one))
        if engine.run(1).settled:
            return shares
        active = np.flatnonzero(arrays[flags])


def print_table(one: list[float], two: list[float], active: list[int], shares: list[float]) -> None:
    """Print a line for the supersteps with a range of active vertices, with the seconds of each on one thread and on
    two."""
    print("   active vertices  supersteps  1 thread, ms  2 threads, ms   gain     us/superstep  one owner")
    for low, high in (*itertools.pairwise(EDGES), (0, EDGES[-1])):
        steps = [i for i, count in enumerate(active) if low <= count < high]
        if steps:
            single, double = (sum(times[i] for i in steps) * 1e3 for times in (one, two))
            upto = f"< {high:,}" if high < EDGES[-1] else f">= {low:,}"
            cost = f"{single / len(steps) * 1e3:,.0f} -> {double / len(steps) * 1e3:,.0f}"
            owner = f"{statistics.mean(shares[i] for i in steps):.2f}" if shares else "-"
            print(
                f"{upto:>18}  {len(steps):>10}  {single:>12.1f}  {double:>13.1f}  {single / double:>5.2f} {cost:>16}"
                f"  {owner:>9}"
            )


def main() -> None:
    """Read the arguments, run, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.second_thread", description=__doc__)
    parser.add_argument("--algorithm", default="bfs", choices=sorted(ALGORITHMS))
    parser.add_argument("--direction", default="push", choices=("push", "pull"))
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    graph = open_graph("harness.graph.catalogue:highways")
    make: Callable[[], BFS | SSSP | Components] = ALGORITHMS[given.algorithm]
    features = 1 if given.algorithm == "components" else 8
    engines = [prepared("onyx", make(), graph, features, threads, direction=given.direction) for threads in (1, 2)]
    (one, two), active = medians(engines, given.rounds)
    shares = shares_of_one_owner(engines[0], graph) if given.direction == "push" else []
    print(f"{cpu_model()}, Python {platform.python_version()}; {given.algorithm}, {given.direction}, k = {features}")
    print(f"an empty launch: {launch_us(1):.1f} us on one thread, {launch_us(2):.1f} us on two")
    print_table(one, two, active, shares)


if __name__ == "__main__":
    main()

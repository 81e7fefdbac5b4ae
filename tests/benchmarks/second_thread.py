"""What a second thread gains, by how many vertices are active: ``python -m tests.benchmarks.second_thread``.

One traversal on the world's highways, superstep by superstep, with one thread and with two, run by run in turns; of
every superstep the median over the runs. Supersteps are gathered by the vertices that were active before them. A launch
on one and on two threads that finds nothing to do stands beside them: all that threads cost each other on a quiet
machine, several times a superstep.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from numba import int64, njit

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.sssp import SSSP
from harness.campaign.environment import cpu_model
from harness.contract import Engine
from harness.graph import open_graph
from harness.lowering.cpu.launch import launch
from tests.benchmarks.peers import SPIN_COUNT
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
    """Microseconds of a launch that finds nothing to do, from Python, as kernels are launched."""
    bounds = np.zeros(threads, np.int64)

    def one() -> float:
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            _launched(threads, threads, bounds)
        return (time.perf_counter() - start) / LAUNCHES * 1e6

    return statistics.median(one() for _ in range(5))


def whole_run(engine: Engine) -> tuple[list[float], list[int]]:
    """Seconds and active vertices of every superstep."""
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
    """Of each engine the seconds of every superstep, medians over runs in turns; active vertices, alike for all."""
    for engine in engines:
        whole_run(engine)
    table = [[whole_run(engine) for engine in engines] for _ in range(rounds)]
    columns = range(len(engines))
    steps = [[statistics.median(times) for times in zip(*(row[i][0] for row in table), strict=True)] for i in columns]
    return steps, table[0][0][1]


def main() -> None:
    """Read the arguments, run, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.second_thread", description=__doc__)
    parser.add_argument("--algorithm", default="bfs", choices=sorted(ALGORITHMS))
    parser.add_argument("--direction", default="push", choices=("push", "pull"))
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    graph = open_graph("harness.graph.catalogue:highways")
    make: Callable[[], BFS | SSSP | Components] = ALGORITHMS[given.algorithm]
    features = 1 if given.algorithm == "components" else 8
    engines = [prepared("onyx", make(), graph, features, threads, direction=given.direction) for threads in (1, 2)]
    (one, two), active = medians(engines, given.rounds)
    print(f"{cpu_model()}, Python {platform.python_version()}; {given.algorithm}, {given.direction}, k = {features}")
    print(f"an empty launch: {launch_us(1):.1f} us on one thread, {launch_us(2):.1f} us on two")
    print(f"{'active vertices':>18} {'supersteps':>10} {'1 thread, ms':>13} {'2 threads, ms':>14} {'gain':>6} us/step")
    for low, high in itertools.pairwise(EDGES):
        steps = [i for i, count in enumerate(active) if low <= count < high]
        single, double = (sum(times[i] for i in steps) * 1e3 for times in (one, two))
        if steps:
            told = f"{single / len(steps) * 1e3:,.0f} -> {double / len(steps) * 1e3:,.0f}"
            upto = f"< {high:,}" if high < EDGES[-1] else f">= {low:,}"
            print(f"{upto:>18} {len(steps):>10} {single:>13.1f} {double:>14.1f} {single / double:>6.2f} {told}")
    print(f"{'all':>18} {len(active):>10} {sum(one) * 1e3:>13.1f} {sum(two) * 1e3:>14.1f} {sum(one) / sum(two):>6.2f}")


if __name__ == "__main__":
    main()

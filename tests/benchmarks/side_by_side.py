"""Measure ratios between engines side by side in one run: ``python -m tests.benchmarks.side_by_side``.

Engines alternate within a round, so that disturbances affect all of them; a ratio is the median over the rounds of
the ratio within a round.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

from harness.contract import Engine
from tests.benchmarks.workloads import FEATURES, WHOLE_RUNS, Aggregation, prepared, rmat

ROUNDS = 9


def rounds(works: Sequence[Callable[[], object]], count: int) -> list[list[float]]:
    """Return the seconds of every work in every round."""
    table = []
    for _ in range(count):
        row = []
        for work in works:
            start = time.perf_counter()
            work()
            row.append(time.perf_counter() - start)
        table.append(row)
    return table


def ratio(table: list[list[float]], slow: int, fast: int) -> float:
    """Return the median of the ratio within a round."""
    return statistics.median(row[slow] / row[fast] for row in table)


def aggregation() -> None:
    """Measure one superstep of a weighted aggregation with normalisation."""
    print("\nOne superstep of a weighted aggregation with normalisation, R-MAT scale 18 (ms; ratios)")
    print(f"{'k':>4} {'scipy@1':>9} {'onyx@1':>9} {'onyx@2':>9} {'onyx@1 / scipy':>15} {'onyx@2 / onyx@1':>16}")
    for features in FEATURES:
        engines = [
            prepared("scipy", Aggregation(), rmat(), features, 1),
            prepared("onyx", Aggregation(), rmat(), features, 1, change_driven=False),
            prepared("onyx", Aggregation(), rmat(), features, 2, change_driven=False),
        ]
        steps = [1, 5, 5]
        works = [lambda e=e, n=n: e.run(n) for e, n in zip(engines, steps, strict=True)]
        rounds(works, 1)
        table = [[t / n for t, n in zip(row, steps, strict=True)] for row in rounds(works, ROUNDS)]
        scipy, one, two = (statistics.median(row[i] for row in table) * 1e3 for i in range(3))
        ratios = f"{ratio(table, 0, 1):>14.2f}x {ratio(table, 1, 2):>15.2f}x"
        print(f"{features:>4} {scipy:>9.1f} {one:>9.1f} {two:>9.1f} {ratios}", flush=True)
        close(engines)


def whole_runs() -> None:
    """Measure whole runs to convergence."""
    names = ["scipy", "onyx", "gunrock", "tigr", "simdx"]
    print("\nWhole runs to convergence, R-MAT scale 18, k = 8, two threads (ms; supersteps; times SciPy's speed)")
    for title, algorithm in WHOLE_RUNS.items():
        labels = [*names, "onyx change_driven=False"]
        engines = [prepared(name, algorithm, rmat(), 8, 2) for name in names]
        engines.append(prepared("onyx", algorithm, rmat(), 8, 2, change_driven=False))
        counts = [len(engine.run(1000).supersteps) for engine in engines]

        def again(engine: Engine) -> None:
            engine.restart()  # type: ignore[attr-defined]
            engine.run(1000)

        table = rounds([lambda e=e: again(e) for e in engines], 5)
        print(f"  {title}")
        for i, label in enumerate(labels):
            median = statistics.median(row[i] for row in table) * 1e3
            print(f"    {label:<26} {median:>8.0f} {counts[i]:>5} {ratio(table, 0, i):>8.2f}x", flush=True)
        close(engines)


def close(engines: Sequence[Engine]) -> None:
    """Release what the engines hold."""
    for engine in engines:
        engine.close()


def main() -> None:
    """Read the arguments, measure, print the tables."""
    argparse.ArgumentParser(prog="python -m tests.benchmarks.side_by_side", description=__doc__).parse_args()
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}")
    aggregation()
    whole_runs()


if __name__ == "__main__":
    main()

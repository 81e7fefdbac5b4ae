"""Compare all engines under all schedules with the oracle on real graphs: ``python -m tests.oracle``.

HARNESS_DATA names the folder of the graphs. Options: ``--graphs wiki-Vote,cora``, ``--algorithms pagerank``,
``--schedules onyx`` (part of a name), ``--whole`` (all 16 schedules of Onyx, not 8), ``--threads 2``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from tests.oracle.answers import ORACLES
from tests.oracle.comparison import verdicts
from tests.oracle.graphs import CASES
from tests.oracle.schedules import all_runs


def main() -> int:
    """Print a line for each graph and algorithm, then the disagreements; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    for name in ("graphs", "algorithms", "schedules"):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=None)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    if not os.environ.get("HARNESS_DATA"):
        parser.error("HARNESS_DATA names no folder of real graphs; set it")
    runs = [r for r in all_runs(given.whole) if given.schedules is None or any(s in r.label for s in given.schedules)]
    refusals: Counter[str] = Counter()
    wrong = []
    print("| graph | algorithm | k | schedules run | unsupported | fixed length | iterate | settled | s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    chosen = [case for case in CASES if given.graphs is None or case.name in given.graphs]
    tasks = [(case, *task) for case in chosen for task in case.tasks]
    names = given.algorithms or list(ORACLES)
    # All graphs of an algorithm together, so that kernels are compiled once.
    for case, algorithm, features in sorted(
        (task for task in tasks if task[1].name in names), key=lambda task: names.index(task[1].name)
    ):
        begun = time.perf_counter()
        found = list(verdicts(algorithm, case.graph(), features, runs, given.threads))
        refused = [v for v in found if v.kind == "unsupported"]
        refusals.update(f"{v.schedule}, {algorithm.name}: {v.text}" for v in refused)
        wrong += [(case.name, algorithm, features, v) for v in found if not v.agrees]
        count = len({v.schedule for v in found}) - len(refused)
        worst = " | ".join(_worst(found, kind) for kind in ("fixed length", "iterate", "settled"))
        print(
            f"| {case.name} | {_named(algorithm)} | {features} | {count} | {len(refused)} | {worst} "
            f"| {time.perf_counter() - begun:.0f} |",
            flush=True,
        )
        for v in found:
            if not v.agrees:
                where = f"{case.name}, {_named(algorithm)}, k = {features}, {v.schedule}, {v.kind}"
                print(f"DISAGREES: {where}: {v.ratio:.3g} x the bound; {v.text}", file=sys.stderr, flush=True)
    print("\nUnsupported:\n")
    for text, count in sorted(refusals.items()):
        print(f"- {text} ({count}x)")
    print(f"\n{len(wrong)} answers disagree.")
    return 1 if wrong else 0


def _named(algorithm) -> str:
    """Return the algorithm and its parameters that differ from the default."""
    changed = [f"{k}={v}" for k, v in vars(algorithm).items() if v != getattr(type(algorithm)(), k)]
    return " ".join([algorithm.name, *changed])


def _worst(found, kind: str) -> str:
    ratios = [v.ratio for v in found if v.kind == kind]
    return f"{max(ratios):.3f}" if ratios else "-"


if __name__ == "__main__":
    sys.exit(main())

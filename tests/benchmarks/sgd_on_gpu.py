"""Measure schedules of SGD on a GPU: ``python -m tests.benchmarks.sgd_on_gpu [netflix|roads ...]``.

Milliseconds of a sweep, updates a second and passes, on a tenth of the ratings of Netflix, and on the double cover of a
road network of the size of CAL.
"""

from __future__ import annotations

import argparse
import copy
import time

from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.schedule import LonestarSchedule
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, Phases
from harness.graph import Graph
from harness.graph.generators import grid, random_ratings
from harness.language import trace

LOCKED = tuple({"order": order} for order in ("el", "nl", "hybrid", "owner"))
ADDED, STORED = {"order": "hogwild", "writes": "add"}, {"order": "hogwild", "writes": "store"}
CASES = {  # of a graph: features and schedules
    "netflix": ((16, (*LOCKED, {"order": "grid"}, ADDED)), *((k, (ADDED, STORED)) for k in (32, 64, 128))),
    "roads": tuple((k, (*LOCKED, {"order": "agm_e"}, {"order": "agm_n", "nodes": 65536})) for k in (16, 64)),
}
SWEEPS = 6


def problem(name: str) -> tuple[SGDMatrixFactorisation, Graph]:
    """Return the algorithm and the graph of a case."""
    if name == "netflix":
        algorithm = SGDMatrixFactorisation(epochs=1000, conflicts="lossy")
        given = random_ratings(users=480_189, items=17_770, num_ratings=9_907_211, exponent=0.438)
    else:
        algorithm = SGDMatrixFactorisation(epochs=1000, conflicts="lossy", sides="double", ratings="drawn")
        given = grid(rows=1375, columns=1375, removed=0.4)
    return algorithm, algorithm.prepare_graph(given)


def main() -> None:
    """Print a line for each graph, number of features and schedule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    for name in parser.parse_args().graph or CASES:
        algorithm, graph = problem(name)
        program = trace(algorithm)
        for features, schedules in CASES[name]:
            inputs = algorithm.inputs(graph, features)
            for options in schedules:
                engine = LonestarCudaEngine(LonestarSchedule(**options))
                engine.prepare(program, copy.copy(graph), features, Device("cuda"), Phases())
                engine.reset(inputs)
                engine.run(1)
                times = []
                for _ in range(SWEEPS):
                    began = time.perf_counter()
                    engine.run(1)
                    times.append(time.perf_counter() - began)
                label = ", ".join(f"{option}={value}" for option, value in options.items())
                rate, passes = graph.num_edges / min(times) / 1e6, engine.lonestar.passes["step"]
                print(f"{name} k={features} {label}: {1e3 * min(times):.2f} ms, {rate:.0f} M/s, {passes} passes")
                engine.close()


if __name__ == "__main__":
    main()

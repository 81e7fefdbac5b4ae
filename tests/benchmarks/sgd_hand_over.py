"""Measure edge-locked schedules with and without hand-over on a GPU: ``python -m tests.benchmarks.sgd_hand_over``.

Milliseconds of a sweep and its passes, on ratings whose most popular item has a share of the edges from 0.2 % to 20 %.
"""

from __future__ import annotations

import argparse
import copy
import time

from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.schedule import LonestarSchedule
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, Phases
from harness.graph.generators import random_ratings
from harness.language import trace

EXPONENTS = (0.474, 0.8, 1.2)  # of the popularity of items
VARIANTS = (("el", None), ("el", False), ("hybrid", None), ("hybrid", False), ("owner", None), ("owner", False))
RUNS = 5


def main() -> None:
    """Print a line for each graph and schedule."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    algorithm = SGDMatrixFactorisation(epochs=1)
    for exponent in EXPONENTS:
        given = random_ratings(users=400_000, items=15_000, num_ratings=2_000_000, exponent=exponent)
        graph = algorithm.prepare_graph(given)
        program, inputs = trace(algorithm), algorithm.inputs(graph, 16)
        for order, hand_over in VARIANTS:
            engine = LonestarCudaEngine(LonestarSchedule(order=order, hand_over=hand_over))
            engine.prepare(program, copy.copy(graph), 16, Device("cuda"), Phases())
            engine.reset(inputs)
            engine.run(1)
            times = []
            for _ in range(RUNS):
                began = time.perf_counter()
                engine.run(1)
                times.append(time.perf_counter() - began)
            passes = engine.lonestar.passes["step"]
            label = f"{order}{'' if hand_over is None else ', hand_over=false'}"
            share = graph.facts.in_degrees.largest / graph.num_edges
            print(f"hub {share:.2%} {label}: {1e3 * min(times):.2f} ms, {passes} passes", flush=True)
            engine.close()


if __name__ == "__main__":
    main()

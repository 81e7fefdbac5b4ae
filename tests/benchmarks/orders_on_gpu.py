"""Time the orders of searches on a GPU, side by side: ``python -m tests.benchmarks.orders_on_gpu``.

One line for each graph, algorithm and number of features: the order that the default takes, and milliseconds of whole
runs by the default, by each order that is given, and by other styles, with their steps. Medians of runs in turns, after
one that is not timed. All answers must be bitwise equal, and the first one right by an independent solver. The line
ends with the time of supersteps, and of the fastest style that counts supersteps, over that of the default.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.sssp import SSSP
from harness.contract import Device, Engine
from harness.graph import Graph, load_graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Algorithm, trace
from tests.benchmarks.workloads import ready

ALGORITHMS: dict[str, type[Algorithm]] = {"bfs": BFS, "sssp": SSSP, "components": Components}
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("onyx", {}),
    "supersteps": ("onyx", {"order": "supersteps"}),
    "near_far": ("onyx", {"order": "near_far"}),
    "hooking": ("onyx", {"hooking": True}),
    "gunrock": ("gunrock", {}),
    "gunrock near_far": ("gunrock", {"order": "near_far"}),
    "simdx": ("simdx", {}),
    "simdx near_far": ("simdx", {"order": "near_far"}),
    "tigr": ("tigr", {}),
}
STYLES = ("gunrock", "simdx", "tigr")
TRIAL_S, MOST_RUNS = 0.2, 9  # a plan runs in each of so many rounds, or until it has taken this long


def opened(text: str) -> Graph:
    """Return a graph: ``rmat:SCALE``, ``random:SCALE`` (degrees of about 6), ``grid:SIDE``, ``roads:SIDE`` (a grid
    without 30 % of its edges), ``delaunay:POINTS``, or ``file:PATH``."""
    name, _, size = text.partition(":")
    if name == "file":
        return load_graph(size, duplicates="min")
    if name == "rmat":
        return rmat(int(size), edge_factor=16, symmetric=True, max_weight=10, seed=21)
    if name == "random":
        return rmat(int(size), edge_factor=3, a=0.25, b=0.25, c=0.25, d=0.25, symmetric=True, max_weight=10, seed=21)
    if name in ("grid", "roads"):
        return grid(int(size), int(size), removed=0.3 if name == "roads" else 0.0)
    return delaunay(int(size))


def steps_of(engine: Engine, supersteps: int) -> str:
    """Return the steps of a run, and the edges that near-far has visited, in millions."""
    solved = dict(engine.resolved_options().get("solved", ()))
    return f"{solved['supersteps']}, {solved['edges'] / 1e6:.3g} M" if "edges" in solved else str(supersteps)


def compare(algorithm: Algorithm, graph: Graph, features: int, device: Device, plans: list[str]) -> str:
    """Return the line of a problem. Raises AssertionError for a wrong answer."""
    graph = algorithm.prepare_graph(graph)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    (output,) = program.outputs
    found = {plan: ready(PLANS[plan], algorithm, graph, features, device) for plan in plans}
    engines = {plan: engine for plan, engine in found.items() if isinstance(engine, Engine)}
    seconds: dict[str, list[float]] = {plan: [] for plan in engines}
    steps, answers = {}, {}
    for _ in range(1 + MOST_RUNS):
        for plan, engine in engines.items():
            if sum(seconds[plan][1:]) > TRIAL_S:
                continue
            engine.reset(inputs)
            began = time.perf_counter()
            done = engine.run(program.max_supersteps)
            seconds[plan].append(time.perf_counter() - began)
            steps[plan], answers[plan] = steps_of(engine, len(done.supersteps)), engine.values(output)
    chosen = engines["default"].resolved_options()
    for engine in engines.values():
        engine.close()
    first = answers["default"]
    assert all(np.array_equal(first, other) for other in answers.values()), "answers differ"
    settled = algorithm.settled_answer(graph, features)
    assert settled is not None
    np.testing.assert_allclose(first, settled.values[output], rtol=1e-4)
    ms = {plan: 1e3 * statistics.median(taken[1:]) for plan, taken in seconds.items()}
    texts = [f"{plan} {ms[plan]:.3g} ({steps[plan]})" for plan in ms]
    best = min((ms[plan] for plan in STYLES if plan in ms), default=float("nan"))
    ratios = f"{ms['supersteps'] / ms['default']:.2f} and {best / ms['default']:.2f}" if "supersteps" in ms else ""
    where = f"{algorithm.name} k={features} {graph.name} {graph.num_edges:,}"
    guessed = dict(chosen.get("order_estimates", ()))
    estimated = ", ".join(f"{1e3 * value:.3g}" for value in guessed.values()) or "none"
    return f"{where}: {chosen.get('order', 'supersteps')} (estimates {estimated}): {'; '.join(texts)}: {ratios}"


def main() -> None:
    """Read the arguments, run, print the lines."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.orders_on_gpu", description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=["roads:1414", "rmat:19"])
    parser.add_argument("--algorithms", nargs="+", default=["bfs", "sssp"], choices=sorted(ALGORITHMS))
    parser.add_argument("--features", nargs="+", type=int, default=[1])
    parser.add_argument("--plans", nargs="+", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=55.0, help="after which no further problem is begun")
    given = parser.parse_args()
    began, device = time.perf_counter(), Device(given.device)
    plans = list(dict.fromkeys(["default", *given.plans]))
    for text in given.graphs:
        graph = opened(text)
        for name in given.algorithms:
            for features in given.features:
                if time.perf_counter() - began > given.seconds:
                    print(f"{name} k={features} {text}: no time left", flush=True)
                    continue
                print(compare(ALGORITHMS[name](), graph, features, device, plans), flush=True)


if __name__ == "__main__":
    main()

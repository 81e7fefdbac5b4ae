"""Time plans of Onyx and the default plans of other styles on a GPU: ``python -m tests.benchmarks.plans_on_gpu``.

One line for each plan: microseconds of a whole run and of a superstep, supersteps, and how many of them pushed, pulled
and so on; of hooking, which has no supersteps, only the first. Medians of runs after one that is not timed, plans in
turn; the clock includes the launches and the test for the end. Plans that are refused are named with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from typing import Any

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import Device
from harness.graph import Graph, open_graph
from harness.language import trace
from tests.benchmarks.workloads import ready

ALGORITHMS: dict[str, Any] = {
    "bfs": BFS, "sssp": SSSP, "components": Components, "kcore": KCore, "pagerank": PageRank,
    "label_propagation": lambda: LabelPropagation(seeds="random"), "manifold_ranking": ManifoldRanking,
}  # fmt: skip
ALL_EDGES: dict[str, Any] = {"direction": "pull", "change_driven": False, "persistent": True}
ADAPTIVE: dict[str, Any] = {"direction": "adaptive", "change_driven": True, "balance": "edge", "persistent": True}
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "onyx": ("onyx", {}),
    "gunrock": ("gunrock", {}),
    "tigr": ("tigr", {}),
    "simdx": ("simdx", {}),
    "onyx all edges, warp": ("onyx", {**ALL_EDGES, "balance": "warp"}),
    "onyx all edges, edge": ("onyx", {**ALL_EDGES, "balance": "edge"}),
    "onyx all edges, launches": ("onyx", {**ALL_EDGES, "balance": "warp", "persistent": False}),
    "onyx changes, pull": ("onyx", {"direction": "pull", "change_driven": True, "persistent": True}),
    "onyx changes, push": ("onyx", {**ADAPTIVE, "direction": "push"}),
    "onyx changes, push, warp": ("onyx", {**ADAPTIVE, "direction": "push", "balance": "warp"}),
    "onyx adaptive": ("onyx", ADAPTIVE),
    "onyx adaptive, parts": ("onyx", {**ADAPTIVE, "balance": "parts"}),
    "onyx adaptive, parts, 0.3": ("onyx", {**ADAPTIVE, "balance": "parts", "dense_share": 0.3}),
    "onyx adaptive, warp": ("onyx", {**ADAPTIVE, "balance": "warp"}),
    "onyx adaptive, launches": ("onyx", {**ADAPTIVE, "persistent": False}),
    "onyx adaptive, 0.03": ("onyx", {**ADAPTIVE, "dense_share": 0.03}),
    "onyx adaptive, warp, 0.03": ("onyx", {**ADAPTIVE, "balance": "warp", "dense_share": 0.03}),
    "onyx adaptive, warp, 0.1": ("onyx", {**ADAPTIVE, "balance": "warp", "dense_share": 0.1}),
    "onyx adaptive, warp, 0.6": ("onyx", {**ADAPTIVE, "balance": "warp", "dense_share": 0.6}),
    "onyx adaptive, warp, all read": ("onyx", {**ADAPTIVE, "balance": "warp", "bottom_up": False}),
    "onyx hooking": ("onyx", {"hooking": True}),
}


def opened(text: str) -> Graph:
    """Return a graph: ``rmat:18``, ``grid:1000`` (rows and columns), ``delaunay:200000`` (points)."""
    name, _, size = text.partition(":")
    factory = f"harness.graph.catalogue:{name}"
    if name == "rmat":
        options = {"scale": int(size), "edge_factor": 16, "symmetric": True, "max_weight": 10, "seed": 21}
        return open_graph(factory, options)
    if name == "grid":
        return open_graph(factory, {"rows": int(size), "columns": int(size)})
    return open_graph(factory, {"num_vertices": int(size)})


def main() -> None:
    """Read the arguments, run, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.plans_on_gpu", description=__doc__)
    parser.add_argument("--graph", default="rmat:18")
    parser.add_argument("--algorithm", default="components", choices=sorted(ALGORITHMS))
    parser.add_argument("--features", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=50.0, help="after which no further plan is prepared")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--plans", nargs="+", default=list(PLANS), choices=list(PLANS))
    given = parser.parse_args()
    began, graph, device = time.perf_counter(), opened(given.graph), Device(given.device)
    algorithm = ALGORITHMS[given.algorithm]()
    graph = algorithm.prepare_graph(graph)
    inputs, limit = algorithm.inputs(graph, given.features), trace(algorithm).max_supersteps
    print(f"{given.algorithm}, k = {given.features}, {graph.name}, {graph.num_edges:,} edges", flush=True)
    for plan in given.plans:
        if time.perf_counter() - began > given.seconds:
            print(f"{plan}: no time left")
            continue
        engine = ready(PLANS[plan], algorithm, graph, given.features, device)
        if isinstance(engine, str):
            print(f"{plan}: {engine[:90]}")
            continue
        seconds = []
        for _ in range(1 + given.rounds):
            engine.reset(inputs)
            start = time.perf_counter()
            done = engine.run(limit)
            seconds.append(time.perf_counter() - start)
        us, steps = 1e6 * statistics.median(seconds[1:]), len(done.supersteps)
        ways = ", ".join(f"{way} {count}" for way, count in Counter(one.direction for one in done.supersteps).items())
        each = f"{us / steps:8.1f} us/superstep, {steps}: {ways}" if steps else ""
        print(f"{plan:30} {us:9.0f} us {each}", flush=True)
        engine.close()


if __name__ == "__main__":
    main()

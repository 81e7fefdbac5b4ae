"""Time variants of Onyx beside other styles on a GPU: ``python -m tests.benchmarks.choices_on_gpu GRAPH PROBLEM...``.

A line for each plan: the median of whole runs in microseconds, how many times as fast as the first plan, and the
supersteps. ``--profile`` adds the microseconds of each superstep: the difference of runs that end one apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from engines.onyx.policy import DEFAULT
from harness.contract import Device, Engine, EngineFailure, Phases, ScheduleError, Yes
from harness.graph import Graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import trace
from tests.benchmarks.plans_on_gpu import ALGORITHMS
from tests.benchmarks.workloads import new_engine

STEEP = {"a": 0.65, "b": 0.15, "c": 0.15, "d": 0.05}
FLAT = {"a": 0.45, "b": 0.22, "c": 0.22, "d": 0.11}
RMAT = {"symmetric": True, "max_weight": 10}


def communities(vertices: int, seed: int) -> Graph:
    """Return a graph of communities of 64 vertices: 12 random edges of each within it, and one anywhere."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(vertices), 13)
    inside = source // 64 * 64 + rng.integers(0, 64, len(source))
    target = np.where(np.arange(len(source)) % 13 == 12, rng.integers(0, vertices, len(source)), inside)
    kept = source != target
    pairs = np.unique(np.concatenate([source[kept] * vertices + target[kept], target[kept] * vertices + source[kept]]))
    made = Graph.from_edges(
        pairs // vertices, pairs % vertices, num_vertices=vertices, name="communities", directed=False
    )
    return made.with_weights(rng.integers(1, 11, made.num_edges).astype(np.float32))


GRAPHS: dict[str, Any] = {
    "rmat_18": lambda: rmat(scale=18, edge_factor=24, seed=104, **STEEP, **RMAT),
    "rmat_19": lambda: rmat(scale=19, edge_factor=10, seed=109, **RMAT),
    "rmat_20": lambda: rmat(scale=20, edge_factor=12, seed=105, **RMAT),
    "rmat_21": lambda: rmat(scale=21, edge_factor=7, seed=107, **FLAT, **RMAT),
    "published_18": lambda: rmat(scale=18, edge_factor=24, seed=4, **STEEP, **RMAT),
    "published_19": lambda: rmat(scale=19, edge_factor=10, seed=9, **RMAT),
    "published_21": lambda: rmat(scale=21, edge_factor=7, seed=7, **FLAT, **RMAT),
    "small": lambda: rmat(scale=12, edge_factor=8, seed=3, **RMAT),
    "grid": lambda: grid(rows=1200, columns=1200),
    "delaunay": lambda: delaunay(num_vertices=1_000_000),
    "communities": lambda: communities(1 << 18, 3),
}


def parsed(text: str) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return name, engine, options and changes of the policy: ``name=engine:option=value,policy.constant=value``."""
    name, _, rest = text.partition("=")
    engine, _, given = rest.partition(":")
    options: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for one in filter(None, given.split(",")):
        key, _, value = one.partition("=")
        target, key = (policy, key[7:]) if key.startswith("policy.") else (options, key)
        target[key] = {"true": True, "false": False}.get(value, value)
        if isinstance(target[key], str) and target[key].lstrip("-").replace(".", "").isdigit():
            target[key] = float(value) if "." in value else int(value)
    return name, engine, options, policy


def made(plan: str) -> Engine | str:
    """Return the engine of a plan, or why its options are refused."""
    _, name, options, policy = parsed(plan)
    try:
        engine = new_engine(name, **options)
        if policy:
            engine = engine.on(Device("cuda"))
            engine.policy = replace(DEFAULT, **policy)  # type: ignore[attr-defined]
    except ScheduleError as error:
        return str(error)
    return engine


def run_problem(graph: Graph, name: str, features: int, plans: list[str], given: argparse.Namespace) -> None:
    """Time all plans of a problem in turn, and print the lines."""
    device, phases = Device(given.device), Phases()
    algorithm = ALGORITHMS[name]()
    graph = algorithm.prepare_graph(graph)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    print(f"## {name} k={features} {graph.name} {graph.num_edges:,} edges", flush=True)
    engines = {plan: made(plan) for plan in plans}

    def build(engine: Engine | str) -> None:
        if not isinstance(engine, str) and isinstance(engine.supports(program, graph, features, device), Yes):
            engine.build(program, graph, features, device, Phases())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(build, engines.values()))
    ready = {}
    for plan, engine in engines.items():
        try:
            if isinstance(engine, str):
                raise EngineFailure(engine)
            answer = engine.supports(program, graph, features, device)
            if not isinstance(answer, Yes):
                raise EngineFailure(answer.reason)
            engine.prepare(program, graph, features, device, phases)
            ready[plan] = engine
        except (ScheduleError, EngineFailure) as error:
            print(f"{plan}: {str(error)[:100]}")
    limit, wanted, base = program.max_supersteps, None, 0.0
    seconds: dict[str, list[float]] = {plan: [] for plan in ready}
    done = {}
    for turn in range(given.rounds + 2):
        for plan, engine in ready.items():
            engine.reset(inputs)
            start = time.perf_counter()
            done[plan] = engine.run(limit)
            if turn > 1:
                seconds[plan].append(time.perf_counter() - start)
    for plan, engine in ready.items():
        found = {output: engine.values(output) for output in program.outputs}
        wanted = wanted or found
        same = all(np.allclose(found[one], wanted[one], rtol=1e-3, atol=1e-5) for one in found)
        us, steps = 1e6 * statistics.median(seconds[plan]), done[plan].supersteps
        base = base or us
        ways = "".join("P" if one.direction == "push" else "L" if one.direction == "pull" else "D" for one in steps)
        line = f"{plan.partition('=')[0]:22}{us:9.0f} us {base / us:5.2f} {ways if len(ways) < 25 else len(ways)}"
        if given.profile and len(steps) < 25:
            ends = []
            for count in range(1, len(steps) + 1):
                taken = []
                for _ in range(5):
                    engine.reset(inputs)
                    start = time.perf_counter()
                    engine.run(count)
                    taken.append(time.perf_counter() - start)
                ends.append(1e6 * statistics.median(taken))
            line += " " + " ".join(f"{after - before:.0f}" for before, after in zip([0.0, *ends], ends, strict=False))
        print(line + ("" if same else "  OTHER ANSWER"), flush=True)
        engine.close()


def main() -> None:
    """Read the arguments, run, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", choices=sorted(GRAPHS))
    parser.add_argument("problems", nargs="+", help="algorithm:features")
    parser.add_argument("--plans", nargs="+", default=["onyx=onyx", "simdx=simdx", "tigr=tigr", "gunrock=gunrock"])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=52.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    given = parser.parse_args()
    began = time.perf_counter()
    graph = GRAPHS[given.graph]()
    print(f"# {given.graph}: {time.perf_counter() - began:.1f} s", flush=True)
    for problem in given.problems:
        if time.perf_counter() - began > given.seconds:
            print(f"{problem}: no time left")
            continue
        name, _, features = problem.partition(":")
        run_problem(graph, name, int(features or 1), given.plans, given)


if __name__ == "__main__":
    main()

"""Onyx against libraries that do the same job: ``python -m tests.benchmarks.peers``.

Whole runs on the CPU, with as many threads as are asked for, on an R-MAT graph and on the world's highways. Onyx has
the fastest of its legal schedules, found by a trial run and named; every peer its fastest path. All answers are held
against the true one in float64; who is wrong is not timed. Then all take turns, round by round, so that what disturbs
the machine disturbs all of them: a ratio is the median over the rounds of the ratio within a round. Times are
wall-clock and, in brackets, processor seconds of all threads, for a machine that other work shares.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.campaign.environment import cpu_model
from harness.contract import Device, Engine, No, Phases, schedule_from_options
from harness.graph import Graph, open_graph
from harness.language import trace
from harness.plugins import load_plugins
from tests.benchmarks.workloads import rmat

if TYPE_CHECKING:
    from tests.benchmarks.peer_jobs import Job

LIBRARIES = ("numpy", "scipy", "networkx", "scikit-network", "networkit", "numba")
SCHEDULES: tuple[dict[str, Any], ...] = (
    {}, {"change_driven": False}, {"direction": "push"}, {"direction": "push", "change_driven": False},
)  # fmt: skip
POOLS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
FEATURES = 8
JOBS = (
    "pagerank", "bfs", "sssp", "components", "kcore", "label_propagation", "als", "belief_propagation",
    "manifold_ranking", "multimodal",
)  # fmt: skip
TRIAL_S = 0.5  # of trial runs for each, at least one
LONG_S = 2.0  # a run that takes longer is trial enough, though it was the first
HOPELESS = 5.0  # times as long as the best peer, in trial runs: such a peer does not take turns
SPIN_COUNT = "3000"  # as in the process of a cell: full speed on a quiet machine, and not lost on a busy one


@dataclass(frozen=True)
class Contender:
    """Something that solves a job: ``solve`` is timed, after ``ready``; ``answer`` is for checking."""

    name: str
    ready: Callable[[], object]
    solve: Callable[[], Any]
    answer: Callable[[Any], Any]


def onyx_schedules(job: Job, threads: int) -> Iterator[Contender]:
    """Onyx under every schedule that may run the job."""
    spec = load_plugins().engine("onyx")
    program, device = trace(job.algorithm), Device(threads=threads)
    module, _, name = spec.factory.partition(":")
    for options in SCHEDULES:
        engine: Engine = getattr(importlib.import_module(module), name)(schedule_from_options(spec, options))
        answer = engine.supports(program, job.graph, job.features, device)
        told = ", ".join(f"{key}={value}" for key, value in options.items()) or "default schedule"
        if isinstance(answer, No):
            print(f"    (onyx with {told} cannot run this: {answer.reason})")
            continue
        engine.prepare(program, job.graph, job.features, device, Phases())
        yield Contender(
            f"onyx, {told}", lambda e=engine: e.reset(job.inputs),
            lambda e=engine: (e, e.run(job.supersteps or program.max_supersteps)),
            lambda done: done[0].values(job.output),
        )  # fmt: skip


def timed(contender: Contender) -> tuple[float, float, Any]:
    """Wall-clock and processor seconds of one run, and what it gave."""
    contender.ready()
    wall, processor = time.perf_counter(), time.process_time()
    result = contender.solve()
    return time.perf_counter() - wall, time.process_time() - processor, result


def right_ones(job: Job, contenders: list[Contender]) -> dict[str, float]:
    """Wall-clock seconds of the fastest trial run of each contender whose answer is true; the others are told."""
    truth = job.truth()
    seconds = {}
    for contender in contenders:
        first, _, result = timed(contender)  # compiled, mapped and warm
        walls = [first] if first > LONG_S else []
        while not walls or sum(walls) < TRIAL_S:
            wall, _, result = timed(contender)
            walls.append(wall)
        error = job.error(np.asarray(contender.answer(result), np.float64), truth)
        if error <= job.bound:
            seconds[contender.name] = min(walls)
        else:
            print(f"    (left out, its answer being off by {error:.2g}, more than {job.bound:.2g}: {contender.name})")
    return seconds


def compare(job: Job, threads: int, rounds: int) -> None:
    """One job: trial runs, checks, rounds, a line each."""
    print(f"  {job.title}{f' ({job.note})' if job.note else ''}", flush=True)
    ours = list(onyx_schedules(job, threads))
    peers = [Contender(peer.name, lambda: None, peer.solve, peer.answer) for peer in job.peers]
    right = right_ones(job, [*ours, *peers])
    onyx = min((c for c in ours if c.name in right), key=lambda c: right[c.name], default=None)
    if onyx is None:
        print("    no schedule of onyx gives the true answer", flush=True)
        return
    peers = [peer for peer in peers if peer.name in right]
    enough = HOPELESS * min((right[peer.name] for peer in peers), default=0.0)
    for peer in peers:
        if right[peer.name] > enough:
            print(f"    ({peer.name}: {right[peer.name] * 1e3:,.1f} ms in a trial run, too slow to take turns)")
    contenders = [onyx, *(peer for peer in peers if right[peer.name] <= enough)]
    table = [[timed(contender)[:2] for contender in contenders] for _ in range(rounds)]
    best = min(range(1, len(contenders)), key=lambda i: statistics.median(row[i][0] for row in table), default=None)
    for i, contender in enumerate(contenders):
        wall, processor = (statistics.median(row[i][kind] for row in table) for kind in (0, 1))
        faster, cheaper = (statistics.median(row[i][kind] / row[0][kind] for row in table) for kind in (0, 1))
        ratio = f"{faster:>8.2f}x [{cheaper:.2f}x]" if i else ""
        mark = "  <- best peer" if i == best else ""
        print(f"    {contender.name:<58} {wall * 1e3:>9.1f} ms [{processor * 1e3:>9.1f}] {ratio}{mark}", flush=True)
    print(f"    {work_of(onyx, job)}", flush=True)


def work_of(onyx: Contender, job: Job) -> str:
    """What a run of Onyx goes through, for the reason of a time."""
    steps = timed(onyx)[2][1].supersteps
    visited, arcs = sum(step.edges for step in steps), job.graph.num_edges
    active = sum(step.active for step in steps) / max(len(steps), 1)
    return (
        f"(onyx: {len(steps)} supersteps, {visited:,} arcs visited, {visited / arcs:.1f} times all {arcs:,} with the "
        f"{job.features} features of each at once; {active:,.0f} active vertices on the average)"
    )


def main() -> None:
    """Read the arguments, describe machine and versions, compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="of the R-MAT graph, edge factor 16 (default 18)")
    parser.add_argument("--graphs", default="rmat,highways", help="rmat, highways or both (the default)")
    parser.add_argument("--jobs", default="", help=f"some of {', '.join(JOBS)} (default: all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    wanted = {name for name in given.jobs.split(",") if name}
    if wanted - set(JOBS):
        parser.error(f"there is no job {', '.join(sorted(wanted - set(JOBS)))}; choose of {', '.join(JOBS)}")
    for pool in POOLS:
        os.environ[f"{pool}_NUM_THREADS"] = str(given.threads)  # before any library makes its pool
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    import networkit

    networkit.setNumberOfThreads(given.threads)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    print(f"{cpu_model()}, {len(os.sched_getaffinity(0))} cores, {given.threads} threads, Python", end=" ")
    print(f"{platform.python_version()}, {versions}")
    print("milliseconds wall-clock [processor]; how many times onyx is as fast; networkx only below 100,000 arcs")
    for asked in given.graphs.split(","):
        graph, core = graph_named(asked, given.scale)
        print(f"\n{graph.name}: {graph.num_vertices:,} vertices, {graph.num_edges:,} arcs")
        for name, job in jobs(graph, core):
            if name in wanted or not wanted:
                compare(job(), given.threads, given.rounds)


def jobs(graph: Graph, core: int) -> Iterator[tuple[str, Callable[[], Job]]]:
    """Every job on a weighted graph, by name, made when it is wanted. Libraries are loaded with their threads set."""
    from tests.benchmarks import peer_factors, peer_products, peer_systems, peer_traversals

    yield "pagerank", lambda: peer_products.pagerank(graph, FEATURES)
    yield "bfs", lambda: peer_traversals.levels(graph, FEATURES)
    yield "sssp", lambda: peer_traversals.distances(graph, FEATURES)
    yield "components", lambda: peer_traversals.components(graph)
    yield "kcore", lambda: peer_traversals.core(graph, core)
    yield "label_propagation", lambda: peer_products.label_propagation(graph, FEATURES)
    yield "als", lambda: peer_factors.als(graph, FEATURES)
    yield "belief_propagation", lambda: peer_factors.belief_propagation(graph, FEATURES)
    yield "manifold_ranking", lambda: peer_systems.manifold_ranking(graph, FEATURES)
    yield "multimodal", lambda: peer_systems.multimodal(graph, FEATURES)


def graph_named(name: str, scale: int) -> tuple[Graph, int]:
    """The graph, and a core that takes several rounds of peeling and is not empty."""
    if name == "rmat":
        return rmat(scale), 16
    if name == "highways":
        return open_graph("harness.graph.catalogue:highways"), 2
    raise SystemExit(f"there is no graph {name!r} here; choose rmat, highways or both")


if __name__ == "__main__":
    main()

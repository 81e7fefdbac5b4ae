"""Whole runs of every algorithm on every engine for several k, named as in a sweep: see docs/regressions.md.

``pytest tests/benchmarks -m benchmark -k "solve and pagerank and onyx"``. Each run begins at the initial state,
which is set outside the timed part. On a CUDA device the timed part ends when the device has completed its work.
"""

from __future__ import annotations

import functools
import importlib.util
import os

import pytest

from harness.conformance.matrix import built_in
from harness.contract import Device, No, Phases
from harness.device.driver import cuda_unavailable, synchronize
from harness.graph import Graph, open_graph
from harness.language import InvalidInput, trace
from harness.plugins import load_plugins
from harness.records.benchmarks import benchmark_name, group_name, rates
from tests.benchmarks.workloads import new_engine, picture

pytestmark = pytest.mark.benchmark
THREADS = min(2, len(os.sched_getaffinity(0)))
FEATURES = (1, 8, 32)
# Registered graphs are those of a sweep with the same name. All are small: the matrix of all engines and algorithms
# takes minutes.
GRAPHS = ("rmat", "ratings_random", "picture", "grid")


def devices():
    """Return every engine whose libraries are installed, on each of its available devices."""
    for spec in load_plugins().engines.values():
        if all(importlib.util.find_spec(name) for name in spec.requires):
            for kind in spec.devices:
                if kind == "cpu" or not cuda_unavailable(0):
                    yield spec, Device(kind, threads=THREADS)


ENGINES = list(devices())


@functools.cache
def graph_named(name: str) -> Graph:
    """Return a graph of the catalogue with default parameters, or the photograph of noise."""
    return picture(128) if name == "picture" else open_graph(load_plugins().graph(name))


@functools.cache
def problem(label, features) -> tuple[str, Graph, object]:
    """Return the first of the graphs that an algorithm accepts, prepared for it, and its inputs."""
    algorithm = built_in()[label]
    for name in GRAPHS:
        try:
            graph = algorithm.prepare_graph(graph_named(name))
            return name, graph, algorithm.inputs(graph, features)
        except InvalidInput:
            continue
    pytest.skip(f"{label} accepts none of {', '.join(GRAPHS)} for k={features}")


def title(spec, device):
    """Return the engine's name with its device."""
    return spec.name if device.kind == "cpu" else f"{spec.name}@{device.kind}"


@pytest.mark.parametrize("features", FEATURES, ids=lambda k: f"k{k}")
@pytest.mark.parametrize("algorithm", built_in())
@pytest.mark.parametrize(("spec", "device"), ENGINES, ids=[title(*one) for one in ENGINES])
def test_solve(benchmark, spec, device, algorithm, features):
    graph_name, graph, inputs = problem(algorithm, features)
    program, engine = trace(built_in()[algorithm]), new_engine(spec.name)
    answer = engine.supports(program, graph, features, device)
    if isinstance(answer, No):
        pytest.skip(f"unsupported: {answer.reason}")
    engine.prepare(program, graph, features, device, Phases())

    def solve():
        statistics = engine.run(program.max_supersteps)
        if device.kind == "cuda":
            synchronize(device.index)
        return statistics

    benchmark.group = group_name(algorithm, graph_name, features)
    benchmark.name = benchmark.fullname = benchmark_name(title(spec, device), algorithm, graph_name, features)
    statistics = benchmark.pedantic(solve, setup=lambda: engine.reset(inputs), rounds=7, warmup_rounds=1)
    engine.close()
    assert statistics.supersteps
    if benchmark.stats is not None:  # None under --benchmark-disable
        benchmark.extra_info |= rates(statistics.edges, features, benchmark.stats.stats.median)
    benchmark.extra_info |= {"supersteps": len(statistics.supersteps), "settled": statistics.settled}

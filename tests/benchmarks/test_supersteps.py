"""One superstep of an aggregation on each engine: ``pytest tests/benchmarks -m benchmark``."""

from __future__ import annotations

import os

import pytest

from tests.benchmarks.workloads import FEATURES, Aggregation, prepared, rmat

pytestmark = pytest.mark.benchmark
THREADS = min(2, len(os.sched_getaffinity(0)))
SETTINGS = [("scipy", 1), ("onyx", 1), ("onyx", THREADS), ("simdx", THREADS), ("tigr", THREADS)]


@pytest.mark.parametrize("features", FEATURES, ids=lambda k: f"k{k}")
@pytest.mark.parametrize(("name", "threads"), SETTINGS, ids=lambda value: str(value))
def test_aggregation_superstep(benchmark, name, threads, features):
    graph = rmat()
    options = {"change_driven": False} if name == "onyx" else {}
    engine = prepared(name, Aggregation(), graph, features, threads, **options)
    benchmark.group = f"aggregation superstep, R-MAT 18, k={features}"
    benchmark.pedantic(lambda: engine.run(1), rounds=7, warmup_rounds=2)
    seconds = benchmark.stats.stats.median
    row = 4 * features
    benchmark.extra_info["edges_per_s"] = graph.num_edges / seconds
    benchmark.extra_info["gb_per_s"] = (graph.num_edges * (8 + row) + 2 * graph.num_vertices * row) / seconds / 1e9
    engine.close()

"""The first of mapped edges in the memory of a CUDA device: every superstep against float64, and the requests left."""

from __future__ import annotations

import pytest

from harness.contract import Phases
from harness.device.pools import Pool
from harness.graph.generators import rmat
from harness.language import trace
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.fresh import SEED
from tests.engines.test_cuda import algorithms, check_every_superstep

pytestmark = pytest.mark.gpu
CASES = {
    "emogi": ("emogi", {}), "naive": ("emogi", {"access": "naive"}), "tiled": ("emogi", {"access": "tiled"}),
    "onyx pull": ("onyx", {"edges": "mapped", "change_driven": False, "direction": "pull"}),
    "onyx push": ("onyx", {"edges": "mapped", "change_driven": False, "direction": "push"}),
    "onyx changes": ("onyx", {"edges": "mapped", "change_driven": True, "direction": "pull"}),
}  # fmt: skip


def fresh_graph(scale):
    print(f"HARNESS_SEED={SEED} repeats the draws")
    return rmat(scale=scale, edge_factor=8, seed=SEED % (1 << 31), max_weight=4)


@pytest.mark.parametrize("cache_mb", [0.004, 0.008, 10.0])  # few edges, some, all
@pytest.mark.parametrize("name", ["bfs", "sssp", "pagerank", "label_propagation", "hits"])
@pytest.mark.parametrize("case", CASES)
def test_every_superstep_with_cached_edges_is_right(case, name, cache_mb, device, monkeypatch):
    kind, options = CASES[case]
    monkeypatch.setitem(SCHEDULES, "cached", (kind, {**options, "cache_mb": cache_mb}))
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(fresh_graph(9))
    check_every_superstep("cached", trace(algorithm), graph, algorithm.inputs(graph, 3), 3, device, 6)


def test_cached_edges_are_not_requested_and_take_the_stated_memory(device, monkeypatch):
    algorithm, graph = algorithms()["pagerank"], fresh_graph(14)
    program, inputs, moved = trace(algorithm), algorithm.inputs(graph, 1), []
    for cache_mb in (None, 0.25, 10.0):
        monkeypatch.setitem(SCHEDULES, "cached", ("emogi", {"cache_mb": cache_mb, "counters": True}))
        engine = cuda_engine("cached")
        with Pool(0, None) as pool:
            engine.prepare(program, graph, 1, device, Phases())
            engine.reset(inputs)
            transfers = engine.run(4).transfers
            plan = engine.planned
            print(cache_mb, plan.bytes_needed, pool.peak, transfers)
            assert plan.prefix.nbytes <= pool.peak <= plan.bytes_needed + (1 << 20)
        moved.append((transfers.visited, transfers.moved["zero_copy"]))
        engine.close()
    assert moved[0][0] == moved[1][0] == moved[2][0]
    assert moved[0][1] > moved[1][1] > moved[2][1] == 0

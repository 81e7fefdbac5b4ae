"""The EMOGI style on a CUDA device: every schedule and place against float64 on fresh graphs, and its requests.

A failing test reports ``HARNESS_SEED=...``, which repeats its draws.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from harness.contract import Phases
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.emogi import ACCESS, OPTIONS, requests_of
from tests.engines.fresh import SEED
from tests.engines.link_bytes import link_bytes
from tests.engines.test_cuda import algorithms, check_every_superstep, random_network

pytestmark = pytest.mark.gpu
BLOCK = 256  # threads
PLACES = (
    {}, {"edges": "managed"}, {"edges": "managed", "advice": "accessed_by"}, {"edges": "managed", "advice": "prefetch"},
    {"edges": "managed", "advice": "none"}, {"edges": "resident"}, {"edges": "managed", "kept_share": 0.25},
    {"edges": "managed", "advice": "none", "kept_share": 0.0},
)  # fmt: skip
NAMES = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits", "belief_propagation")


def fresh_graph(scale, edge_factor):
    print(f"HARNESS_SEED={SEED} repeats the draws")
    return rmat(scale=scale, edge_factor=edge_factor, seed=SEED % (1 << 31), max_weight=4)


def check(options, name, features, device, monkeypatch):
    """Compare every superstep of an algorithm on a fresh graph with the reference."""
    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", options))
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(fresh_graph(9, 8))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    check_every_superstep("emogi", trace(algorithm), graph, inputs, features, device, 6)


@pytest.mark.parametrize("features", [1, 3, 32])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_access_pattern_is_right(options, name, features, device, monkeypatch):
    check(options, name, features, device, monkeypatch)


@pytest.mark.parametrize("name", ["bfs", "sssp", "pagerank"])
@pytest.mark.parametrize("access", ["aligned", "tiled"])
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_every_place_is_right(place, access, name, device, monkeypatch):
    check({**place, "access": access}, name, 3, device, monkeypatch)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_requests_are_those_of_the_frontiers(options, device, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", {**options, "counters": True}))
    algorithm, graph = algorithms()["bfs"], fresh_graph(12, 8)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 1)
    engine, reference = cuda_engine("emogi"), ReferenceRun(program, graph, 1)
    engine.prepare(program, graph, 1, device, Phases())
    for one in (engine, reference):
        one.reset(inputs)
    frontier = np.isfinite(reference.values(program.outputs[0])).ravel()  # the source
    for _ in range(4):
        found, before = engine.run(1).transfers, reference.values(program.outputs[0])
        wanted = requests_of(graph.csr.offsets, frontier, options["access"], BLOCK)
        assert Counter(found.requests) == wanted
        assert found.visited == 4 * int(np.diff(graph.csr.offsets)[frontier].sum())
        reference.run(1)
        frontier = reference.values(program.outputs[0]).ravel() != before.ravel()
    engine.close()


@pytest.mark.parametrize("access", ACCESS)
def test_a_hub_and_short_rows(access, device, monkeypatch):
    """A row of many lines beside rows that share lines, on a graph whose blocks have many lines."""
    from harness.graph import Graph

    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", {"access": access}))
    rng, count = np.random.default_rng(SEED), 5000
    sources = np.concatenate([np.zeros(100_000, int), rng.integers(1, count, 12_000)])
    targets = rng.integers(0, count, len(sources))
    weights = rng.uniform(0.5, 2.0, len(sources)).astype(np.float32)
    graph = Graph.from_edges(
        sources, targets, num_vertices=count, weights=weights, name="hub and rows", duplicates="keep"
    )  # fmt: skip
    algorithm = algorithms()["sssp"]
    check_every_superstep("emogi", trace(algorithm), graph, algorithm.inputs(graph, 3), 3, device, 6)


@pytest.mark.parametrize("advice", ["read_mostly", "none"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_superstep_moves_the_managed_edges_that_are_not_kept(share, advice, device, monkeypatch):
    """Pages are moved to the host at the end of a superstep, which is a run here."""
    options = {"edges": "managed", "advice": advice, "kept_share": share}
    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", options))
    algorithm, graph = algorithms()["pagerank"], rmat(scale=20, edge_factor=32, seed=3)
    program, inputs, engine = trace(algorithm), algorithm.inputs(graph, 1), cuda_engine("emogi")
    engine.prepare(program, graph, 1, device, Phases())
    nbytes = sum(buffer.nbytes for buffer in engine.planned.buffers if buffer.of_edges)
    engine.reset(inputs)
    assert link_bytes(device.index, lambda: engine.run(1)) > 0.8 * nbytes
    for _ in range(2):
        moved = link_bytes(device.index, lambda: engine.run(1))
        assert abs(moved - (1 - share) * nbytes) < 0.15 * nbytes
    engine.close()

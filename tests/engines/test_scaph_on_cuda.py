"""The Scaph style on a CUDA device: answers against float64 on fresh graphs, bytes, and memory.

A failing test reports ``HARNESS_SEED=...``, which repeats its draws.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from engines.outofmemory.scaph import cuda_executor
from engines.outofmemory.scaph.cuda_engine import ScaphCudaEngine
from engines.outofmemory.scaph.cuda_undecided import SAMPLES
from engines.outofmemory.scaph.values import Rates
from engines.outofmemory.schedules import ScaphSchedule
from harness.contract import Device, Phases
from harness.device.compilation import compiled
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.modules import headers
from tests.engines.cuda_modules import CHIPS
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.fresh import SEED
from tests.engines.problems import prepared, problem
from tests.engines.scaph import check_values_on_both
from tests.engines.test_cuda import algorithms, check_every_superstep

NAMES = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits")
MEANS = [
    {}, {"values": "low"}, {"values": "high"}, {"values": "low", "low": "stream"}, {"rule": "chosen"},
    {"values": "low", "extract_threads": 3}, {"low": "zero_copy", "access": "aligned"}, {"slots": 2},
    {"values": "low", "low": "zero_copy"}, {"rule": "chosen", "low": "zero_copy"},
    {"order": "zigzag", "values": "high"}, {"order": "zigzag", "slots": 2}, {"order": "value", "alpha": 0.3},
]  # fmt: skip
QUEUED = [
    {"rounds": 2},
    {"rounds": 4, "values": "high"},
    {"rounds": 3, "low": "zero_copy"},
    {"rounds": 2, "alpha": 0.8},
    {"rounds": 3, "order": "zigzag"},
    {"rounds": 2, "values": "high", "order": "value"},
    {"low_rounds": 1000, "values": "low"},
    {"rounds": 3, "low_rounds": 4},
]


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
@pytest.mark.parametrize(
    ("options", "name", "chip"),
    [({"rounds": 2}, "sssp", "sm_80"), ({"low": "zero_copy", "access": "aligned"}, "pagerank", "sm_90"),
     ({"rounds": 3, "access": "chunk"}, "components", "sm_100"),
     ({"rule": "chosen", "low": "zero_copy"}, "bfs", "sm_90")],
)  # fmt: skip
def test_queues_and_accesses_compile(options, name, chip):
    assert chip in CHIPS
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(7, 12))
    plan = ScaphCudaEngine(ScaphSchedule(**options)).plan(trace(algorithm), graph.facts, 8)
    made = compiled(plan.source, headers(plan.templates), chip)
    packs = options.get("low", "extract") == "extract"
    assert ("PlaceRows" in made.resources(), "HoldLate" in made.resources()) == (packs, packs)


def fresh_graph(scale, edge_factor):
    print(f"HARNESS_SEED={SEED} repeats the draws")
    return rmat(scale=scale, edge_factor=edge_factor, seed=SEED % (1 << 31), max_weight=4)


@pytest.mark.gpu
@pytest.mark.parametrize("features", [1, 3, 32])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", MEANS, ids=str)
def test_every_superstep_is_right(options, name, features, device, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", {"window_mb": 0.02, **options}))
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(fresh_graph(10, 12))
    inputs = algorithm.inputs(graph, features)
    check_every_superstep("scaph", trace(algorithm), graph, inputs, features, device, 8)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "features"), [("bfs", 1), ("sssp", 3), ("components", 32)])
@pytest.mark.parametrize("mesh", [False, True])
@pytest.mark.parametrize("options", QUEUED, ids=str)
def test_queued_subgraphs_settle_at_the_answer(options, mesh, name, features, device, monkeypatch):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(grid(rows=60, columns=70) if mesh else fresh_graph(13, 12))
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", {"window_mb": 0.02 if mesh else 0.1, **options}))
    engine, run = cuda_engine("scaph"), ReferenceRun(program, graph, features)
    engine.prepare(program, graph, features, device, Phases())
    run.reset(inputs)
    assert run.run(1000).settled
    wanted = {name: run.values(name) for name in program.outputs}
    for _ in range(3):
        engine.reset(inputs)
        assert engine.run(1000).settled
        found = compare(program, {name: engine.values(name) for name in program.outputs}, wanted)
        assert found.ok, found.detail
    engine.close()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options",
    [{}, {"alpha": 0.3, "beta": 0.2}, {"values": "low", "low": "stream"}, {"values": "high", "order": "zigzag"},
     {"counters": True, "order": "value"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", ["bfs", "sssp"])
def test_values_are_those_of_the_cpu(name, options, device, monkeypatch):
    graph, inputs = problem(name, "rmat", 1)
    given = {"window_mb": 0.004, **options}
    engines = [prepared("scaph", given, trace(algorithms()[name]), graph, 1)]
    engines.append(ScaphCudaEngine(ScaphSchedule(**given)))
    engines[1].prepare(trace(algorithms()[name]), graph, 1, Device("cuda", device.index), Phases())
    for cpu, _ in check_values_on_both(engines, inputs, 6, given, monkeypatch):
        assert bool(cpu.data) == ("counters" in options)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["bfs", "sssp", "components"])
def test_supersteps_without_decisions_are_those_with_decisions(name, device, monkeypatch):
    monkeypatch.setattr(cuda_executor, "measured_rates", lambda *_: Rates(1.0, 100.0))  # nothing is copied
    algorithm, found = algorithms()[name], []
    graph = algorithm.prepare_graph(fresh_graph(16, 16))
    inputs = algorithm.inputs(graph, 1)
    for seconds in (-1e9, 1e9):  # decisions that are always made, and never
        engine = ScaphCudaEngine(ScaphSchedule(window_mb=0.3, rule="chosen", low="zero_copy"))
        engine.prepare(trace(algorithm), graph, 1, Device("cuda", device.index), Phases())
        decisions = engine.executor.streamer.decisions
        decisions.seconds, decisions.samples = seconds, SAMPLES
        engine.reset(inputs)
        steps = [engine.run(1) for _ in range(8)]
        engine.reset(inputs)
        whole = engine.run(1000)
        outputs = [engine.values(output) for output in engine.planned.program.outputs]
        found.append(([(one.supersteps, one.transfers) for one in (*steps, whole)], outputs))
        engine.close()
    (decided, wanted), (omitted, values) = found
    assert all(np.array_equal(one, other) for one, other in zip(wanted, values, strict=True))
    assert sum(transfers.moved.get("zero_copy", 0) for _, transfers in decided) > 0
    for (steps, one), (others, other) in zip(decided, omitted, strict=True):
        assert (steps, one.visited) == (others, other.visited)
        assert not other.moved or not other.visited, "supersteps without decisions count nothing"


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"values": "low"}, {"values": "high"}, {"low": "zero_copy"}], ids=str)
def test_a_hub_and_short_rows(options, device, monkeypatch):
    """A row as large as a subgraph beside short and empty ones; rows are packed on several threads."""
    rng, count = np.random.default_rng(SEED), 5000
    sources = np.concatenate([np.zeros(100_000, int), rng.integers(1, count, 120_000)])
    targets = rng.integers(0, count, len(sources))
    weights = rng.uniform(0.5, 2.0, len(sources)).astype(np.float32)
    graph = Graph.from_edges(
        sources, targets, num_vertices=count, weights=weights, name="hub and rows", duplicates="keep"
    )  # fmt: skip
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", {"window_mb": 100_064 * 8e-6, **options}))
    algorithm = algorithms()["sssp"]
    check_every_superstep("scaph", trace(algorithm), graph, algorithm.inputs(graph, 3), 3, device, 6)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"values": "low"}, {"rounds": 3}, {"values": "high", "rounds": 3}], ids=str)
def test_parts_of_the_time_are_less_than_the_run(options, device):
    """Seconds of the device and of the host's parts are counted apart from the work between them."""
    graph, algorithm = fresh_graph(16, 16), algorithms()["sssp"]
    engine = ScaphCudaEngine(ScaphSchedule(window_mb=1.0, **options))
    engine.prepare(trace(algorithm), graph, 1, Device("cuda", device.index), Phases())
    inputs = algorithm.inputs(graph, 1)
    for _ in range(2):  # the first run compiles the functions that pack rows
        engine.reset(inputs)
        begin = time.perf_counter()
        seconds = engine.run(1000).transfers.seconds
        whole = time.perf_counter() - begin
        packs = options.get("values") != "high"
        wanted = {"values", *(["flags", "packing"] if packs else []), *(["queue"] if "rounds" in options else [])}
        assert seconds.keys() <= wanted
        assert {"values", *(["queue"] if "rounds" in options else [])} <= seconds.keys()
        assert all(0 < one < whole for one in seconds.values())
        assert sum(seconds.values()) < whole
    engine.close()

"""The EMOGI style without a device: its options, what it refuses, its code, and runs on the CPU from files."""

from __future__ import annotations

import numpy as np
import pytest

from engines.outofmemory.emogi.cuda_engine import EmogiCudaEngine
from engines.outofmemory.emogi.resolve import resolve
from engines.outofmemory.schedules import EmogiSchedule
from harness.contract import Device, No, ScheduleError
from harness.device.compilation import compiled
from harness.facts import DeviceFacts
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.modules import headers
from tests.engines.cuda_modules import CHIPS, problem
from tests.engines.problems import ALGORITHMS, new_engine, prepared
from tests.engines.programs import traced
from tests.engines.test_cuda import random_network

CPU, CUDA = DeviceFacts("cpu", 2), DeviceFacts("cuda")


def test_resolving_fills_in_every_option_of_the_device():
    assert resolve(EmogiSchedule(), CUDA) == EmogiSchedule(
        edges="mapped", access="aligned", frontier="flags", counters=False
    )
    assert resolve(EmogiSchedule(), CPU) == EmogiSchedule(edges="mapped")
    managed = resolve(EmogiSchedule(edges="managed", access="naive"), CUDA)
    assert (managed.edges, managed.advice, managed.access) == ("managed", "read_mostly", "naive")
    for given in (EmogiSchedule(edges="resident", frontier="list"), managed):
        assert resolve(resolve(given, CUDA), CUDA) == resolve(given, CUDA)


def test_counters_of_edges_that_are_not_mapped_are_refused():
    for edges in ("managed", "resident"):
        with pytest.raises(ScheduleError, match=f"host link, and edges={edges} makes none"):
            EmogiSchedule(edges=edges, counters=True)
    EmogiSchedule(counters=True)


def test_a_kept_share_is_of_managed_edges_that_are_not_prefetched():
    with pytest.raises(ScheduleError, match=r"kept_share=0\.5 applies only to edges=managed; omit it"):
        EmogiSchedule(kept_share=0.5)
    with pytest.raises(ScheduleError, match=r"kept_share=0\.5 keeps a part; omit one"):
        EmogiSchedule(edges="managed", advice="prefetch", kept_share=0.5)
    assert resolve(EmogiSchedule(edges="managed", kept_share=0.0), CUDA).kept_share == 0.0
    answer = new_engine("emogi", {"edges": "managed", "kept_share": 0.5}).supports(
        *problem("pagerank"), 1, Device(threads=1)
    )
    assert isinstance(answer, No)
    assert "kept_share has no meaning on the CPU" in answer.reason


def test_a_list_of_tiles_is_refused():
    program, graph = problem("pagerank")
    answer = EmogiCudaEngine(EmogiSchedule(access="tiled", frontier="list")).plan(program, graph.facts, 1)
    assert isinstance(answer, No)
    assert "give frontier=flags" in answer.reason


def test_counters_of_several_numbers_of_an_edge_are_refused():
    for name, refused in (("multimodal", True), ("label_propagation", False)):
        program, graph = problem(name)
        answer = EmogiCudaEngine(EmogiSchedule(counters=True)).plan(program, graph.facts, 3)
        assert isinstance(answer, No) == refused
        assert not refused or "omit counters" in answer.reason


@pytest.mark.parametrize("reverse", [False, True])
def test_counters_of_a_number_of_reverse_edges_are_refused(reverse):
    def build(p, self):
        p.edge("weight")
        p.vertex("x", start=1.0)

        @p.over_edges(into="heard", reduce="sum")
        def hear(src, edge):
            return src.x * (edge.reverse.weight if reverse else edge.weight)

        @p.over_vertices
        def step(v):
            return {"x": v.heard}

        p.repeat(3)
        p.output("x", bound=1e-4)

    program = traced(build, "hears")
    graph = rmat(scale=4, edge_factor=4, symmetric=True, max_weight=4).with_reverse_edges()
    assert not isinstance(EmogiCudaEngine(EmogiSchedule()).plan(program, graph.facts, 1), No)
    answer = EmogiCudaEngine(EmogiSchedule(counters=True)).plan(program, graph.facts, 1)
    assert isinstance(answer, No) == reverse
    if reverse:
        assert "hear reads other numbers of 'weight'; omit counters" in answer.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"access": "merged"}, "access has no meaning on the CPU"), ({"frontier": "list"}, "frontier has no meaning"),
        ({"counters": True}, "counters has no meaning on the CPU"),
        ({"edges": "managed"}, "edges=managed has no meaning on the CPU"),
        ({"edges": "managed", "advice": "none"}, "advice has no meaning on the CPU"),
    ],
)  # fmt: skip
def test_options_of_a_gpu_are_refused_on_the_cpu(options, reason):
    program, graph = problem("pagerank")
    answer = new_engine("emogi", options).supports(program, graph, 1, Device(threads=1))
    assert isinstance(answer, No)
    assert reason in answer.reason


def test_the_edges_are_priced_in_the_memory_where_they_are():
    program, graph = problem("sssp")
    plans = {
        edges: EmogiCudaEngine(EmogiSchedule(edges=edges)).plan(program, graph.facts, 4)
        for edges in ("resident", "mapped", "managed")
    }
    mapped, resident = plans["mapped"], plans["resident"]
    assert mapped.host_bytes >= 8 * graph.num_edges, "ids and weights"
    assert mapped.bytes_needed + mapped.host_bytes == resident.bytes_needed == plans["managed"].bytes_needed
    assert resident.host_bytes == plans["managed"].host_bytes == 0
    assert mapped.bytes_needed < 200 * graph.num_vertices, "no array with a row for every edge is on the device"


@pytest.mark.parametrize(
    ("chip", "name", "options"),
    list(
        zip(
            CHIPS, ("sssp", "pagerank", "belief_propagation"),
            ({"frontier": "list", "counters": True}, {"access": "tiled", "counters": True}, {"frontier": "list"}),
            strict=True,
        )
    ),
)  # fmt: skip
def test_lists_and_counters_compile(options, name, chip):
    program, graph = problem(name)
    plan = EmogiCudaEngine(EmogiSchedule(**options)).plan(program, graph.facts, 8)
    made = compiled(plan.source, headers(plan.templates), chip)
    assert made.code
    names = {kernel.name for kernel in plan.kernels}
    tracked = plan.change_driven
    assert tracked == (name != "belief_propagation")
    assert any(one.startswith("count_") for one in names) == bool(options.get("counters"))
    assert any(one.startswith("list_") for one in names) == (options.get("frontier") == "list" and tracked)


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("bfs", 1), ("pagerank", 3), ("sssp", 32), *(
            pytest.param(name, k, marks=pytest.mark.full)
            for name, k in (("components", 1), ("label_propagation", 32), ("belief_propagation", 3))
        ),
    ],
)  # fmt: skip
def test_runs_on_the_cpu_from_files(name, features):
    algorithm = ALGORITHMS[name]
    program = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=7, edge_factor=6, seed=features, max_weight=4))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    engine, run = prepared("emogi", {}, program, graph, features), ReferenceRun(program, graph, features)
    for one in (engine, run):
        one.reset(inputs)
        one.run(6)
    outputs = program.outputs
    found = compare(program, {n: engine.values(n) for n in outputs}, {n: run.values(n) for n in outputs})
    assert found.ok, found.detail
    options = engine.resolved_options()
    assert options["edges"] == "mapped"
    assert "degree_bound" not in options
    engine.close()


def test_mapped_edges_take_no_memory_of_the_process():
    algorithm = ALGORITHMS["sssp"]
    program, graph = trace(algorithm), rmat(scale=10, edge_factor=16, seed=2, max_weight=4)
    needed = {
        edges: new_engine("emogi", {"edges": edges}).supports(program, graph, 1, Device(threads=2)).bytes_needed
        for edges in ("mapped", "resident")
    }
    assert needed["resident"] - needed["mapped"] == 4 * graph.num_edges, "weights; ids are the graph's own"
    engine = prepared("emogi", {}, program, graph, 1)
    arrays = engine.prepared.executor
    assert arrays is not None
    engine.reset(algorithm.inputs(graph, 1))
    engine.run(3)
    assert np.isfinite(engine.values(program.outputs[0])).any()
    engine.close()

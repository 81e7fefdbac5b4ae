"""Onyx's ``balance=parts`` on an emulated device: the edges of vertices of many are pushed in parts."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_parts import PartsOfSources
from engines.onyx.cuda_plan import FOLDER
from engines.onyx.schedule import OnyxSchedule
from harness.contract import No
from harness.emulation.compiler import unavailable
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.emulation.device import THREADS
from tests.emulation.kernels import Kernels, headers, heading
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, prepared

WAYS = {
    "all edges": {"direction": "push", "change_driven": False},
    "changes": {"direction": "push", "change_driven": True, "rebuild": 2},
    "adaptive": {"direction": "adaptive", "change_driven": True},
}
TODAY = [
    ("bfs", "changes", 3, True), ("pagerank", "all edges", 1, False), ("hits", "changes", 3, False),
    ("components", "adaptive", 1, True),
]  # fmt: skip
ROWS = [
    (name, way, features, persistent)
    for name in ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits")
    for way in WAYS
    for features in ((1,) if name in ("components", "kcore") else (1, 3, 40))
    for persistent in (False, True)
]


def network():
    """Return a small skewed graph; some of its vertices have no part, others several."""
    return rmat(scale=7, edge_factor=5, seed=4, max_weight=4)


@pytest.mark.parametrize(
    ("name", "way", "features", "persistent"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in ROWS],
)
def test_answers_are_those_of_the_reference(name, way, features, persistent, monkeypatch, emulated):
    algorithm = algorithms()[name]
    program, graph = trace(algorithm), algorithm.prepare_graph(network())
    options = {"balance": "parts", "persistent": persistent, "block_size": THREADS, **WAYS[way]}
    monkeypatch.setitem(SCHEDULES, "parts", ("onyx", options))
    engine = prepared("parts", program, graph, features, emulated)
    assert "edgemap_parts<4, " in engine.planned.source
    inputs, run = algorithm.inputs(graph, features), ReferenceRun(program, graph, features)
    for supersteps in (2, program.max_supersteps):
        for one in (engine, run):
            one.reset(inputs)
            found = one.run(supersteps)
        wanted = {result: run.values(result) for result in program.outputs}
        compared = compare(program, {result: engine.values(result) for result in program.outputs}, wanted)
        assert compared.ok, compared.detail
    engine.reset(inputs)
    found = engine.run(1)
    if way == "all edges":
        reductions = sum(len(group.edge_stages) for group in engine.planned.tracking.groups)
        assert found.supersteps[0].edges in (reductions * graph.num_edges, reductions * graph.num_edges // 2)
    engine.close()


def test_a_vertex_of_many_edges_is_split_and_others_are_not():
    graph = network()
    degrees, half = graph.out_degrees, graph.num_vertices // 2
    parts = PartsOfSources(least=10, size=4, sides=((0, graph.num_vertices),))
    listed = parts.of(graph)
    sources, numbers = (listed.arrays[name].tolist() for name in ("part_sources", "part_numbers"))
    expected = [
        (u, number) for u, degree in enumerate(degrees) if degree >= 10 for number in range(-(-int(degree) // 4))
    ]
    assert list(zip(sources, numbers, strict=True)) == expected
    assert parts.count(graph.facts) == len(expected)
    assert parts.nbytes(graph.facts) == 8 * len(expected)
    assert listed.sides == [(0, len(expected))]
    halves = PartsOfSources(10, 4, ((0, half), (half, graph.num_vertices))).of(graph).sides
    border = sum(u < half for u, _ in expected)
    assert halves == [(border, len(expected)), (0, border)], "sources of a side are on the other one"


def test_a_graph_without_vertices_of_many_edges_has_no_parts(emulated, monkeypatch):
    graph, algorithm = grid(rows=8, columns=8), algorithms()["bfs"]
    monkeypatch.setitem(SCHEDULES, "parts", ("onyx", {"balance": "parts", "block_size": THREADS, **WAYS["changes"]}))
    engine = prepared("parts", trace(algorithm), graph, 1, emulated)
    assert "edgemap_parts<" not in engine.planned.source
    engine.close()


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("bfs", {"direction": "pull"}, "splits the out-edges of pushes"),
        ("bfs", {"direction": "push", "edges": "streamed", "window_mb": 1}, "not all in memory"),
        ("belief_propagation", {"direction": "push"}, "does not track edges that change"),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_reason(name, options, reason):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=5, edge_factor=4, seed=1, symmetric=True))
    found = OnyxCudaEngine(OnyxSchedule(balance="parts", **options)).plan(trace(algorithm), graph.facts, 2)
    assert isinstance(found, No)
    assert reason in found.reason


SOURCE = """
extern "C" __global__ void pushed(
    const Id* offsets, const Id* neighbours, const Id* rows, const Id* numbers, const bool* wanted, Id vertices,
    Id parts, Id* sources, Id* targets, int* visits, int* split)
{
    const LaneGroup group;
    const auto fetch = [&](Id row, Id other, EdgeId at) { return at + row + other; };
    const auto visit = [&](Id got, Id row, Id other, EdgeId at) {
        atomicAdd(visits + at, got == at + row + other ? 1 : 1000);
        sources[at] = row;
        targets[at] = other;
    };
    edgemap<true, 2, 10>(group, offsets, neighbours, 0, vertices, Flagged{wanted, false}, fetch, visit);
    edgemap_parts<4, 2>(
        group, rows, numbers, offsets, neighbours, 0, parts, Flagged{wanted, false}, fetch,
        [&](Id got, Id row, Id other, EdgeId at) {
            visit(got, row, other, at);
            atomicAdd(split + at, 1);
        });
}
extern "C" __global__ void either(const bool* flags, const bool* others, bool every, Id first, Id last, int* visits)
{
    const LaneGroup group;
    vertexmap(group, first, last, FlaggedEither{flags, others, every}, [&](Id v) { atomicAdd(visits + v, 1); });
}
"""


@pytest.fixture(scope="module", params=[1, 4, 5])
def kernels(request):
    made = Kernels(
        heading("matrices.cuh", "changes.cuh", "parts.cuh", lanes=request.param, block=64) + SOURCE, headers(FOLDER), 64
    )
    made.lanes = request.param
    return made


@pytest.mark.skipif(bool(unavailable()), reason=unavailable())
@pytest.mark.parametrize("blocks", [1, 3])
def test_edges_of_wanted_vertices_are_pushed_once_in_parts_or_by_warps(kernels, blocks):
    graph = network()
    offsets, neighbours = (np.asarray(a, np.uint32) for a in (graph.csr.offsets, graph.csr.neighbours))
    listed = PartsOfSources(least=10, size=4, sides=((0, graph.num_vertices),)).of(graph)
    rows, numbers = (listed.arrays[name] for name in ("part_sources", "part_numbers"))
    wanted = np.random.default_rng(1).random(graph.num_vertices) < 0.6
    edges, owner = graph.num_edges, graph.csr.row_of_edge
    none = np.zeros(edges, np.int32)
    *_, sources, targets, visits, split = kernels(
        "pushed", blocks, offsets, neighbours, rows, numbers, wanted, np.uint32(graph.num_vertices),
        np.uint32(len(rows)), none.astype(np.uint32), none.astype(np.uint32), none, none,
    )  # fmt: skip
    chosen = wanted[owner]
    assert np.array_equal(visits, kernels.lanes * chosen)
    assert np.array_equal(split, kernels.lanes * (chosen & (graph.out_degrees[owner] >= 10)))
    assert np.array_equal(sources[chosen], owner[chosen])
    assert np.array_equal(targets[chosen], neighbours[chosen])


@pytest.mark.skipif(bool(unavailable()), reason=unavailable())
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 31), (5, 645), (0, 640), (32, 700)])
def test_vertices_with_either_flag_are_visited_once(kernels, first, last):
    flags, others = (np.random.default_rng(seed).random(700) < 0.01 for seed in (1, 2))
    bounds, places = (np.uint32(first), np.uint32(last)), np.arange(700)
    inside = (places >= first) & (places < last)
    for every in (False, True):
        *_, visits = kernels("either", 1, flags, others, np.bool_(every), *bounds, np.zeros(700, np.int32))
        assert np.array_equal(visits, kernels.lanes * ((flags | others | every) & inside))

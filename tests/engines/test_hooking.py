"""Components by hooking give the fixed point of the program's supersteps, bit for bit, on every device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from engines.onyx import hooking_kernels as kernels
from engines.onyx.cpu_hooking import HookingCpuEngine
from engines.onyx.cuda_hooking import NAMES, HookingCudaEngine
from engines.onyx.engine import OnyxEngine
from engines.onyx.hooking import SAMPLES, UNLIMITED, Flood
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.contract import Device, EngineFailure, No, Phases, ScheduleError, Yes
from harness.device.compilation import compiled
from harness.graph import Graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, K, maximum, minimum, trace
from tests.engines.cuda_modules import CHIPS
from tests.engines.programs import traced

HOOKED = OnyxSchedule(hooking=True)


def flood(reducer, other=None, at_most=1_000_000):
    """Return a program that passes the least or the largest of k values on; ``other`` changes its vertex step."""
    better = {"min": minimum, "max": maximum}[reducer]

    def build(p, _):
        p.vertex("own", K)
        p.vertex("x", K, start="own")

        @p.over_edges(into="best", reduce=reducer)
        def tell(src):
            return src.x

        @p.over_vertices
        def take(v):
            return {"x": better(v.x, v.best) if other is None else other(v)}

        p.until_settled(at_most=at_most)
        p.output("x", bound=0.0)

    return traced(build, "flood")


def scattered(seed, vertices=300, edges=200):
    """Return an undirected graph of many small components, with loops, parallel edges, and vertices without edges."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, vertices, (2, edges))
    return Graph.from_edges(*ends, num_vertices=vertices, name="scattered", duplicates="keep").with_reverse_edges()


def star_of_paths(paths=40, length=9):
    """Return a hub with long paths, beside another hub: the second has more edges than a warp hooks alone."""
    hub = [(0, 1 + i * length) for i in range(paths)]
    links = [(1 + i * length + j, 2 + i * length + j) for i in range(paths) for j in range(length - 1)]
    first = 1 + paths * length
    second = [(first, first + 1 + j) for j in range(150)]
    ends = np.array(hub + links + second).T
    return Graph.from_edges(*ends, num_vertices=first + 160, name="star").with_reverse_edges()


GRAPHS = {
    "scattered": lambda: scattered(1),
    "sparser": lambda: scattered(2, edges=90),
    "hubs": lambda: rmat(9, edge_factor=3, symmetric=True),
    "grid": lambda: grid(20, 21, removed=0.55).with_reverse_edges(),
    "mesh": lambda: delaunay(300).with_reverse_edges(),
    "star of paths": star_of_paths,
    "no edges": lambda: Graph.from_edges([], [], num_vertices=5, name="bare"),
    "nothing": lambda: Graph.from_edges([], [], num_vertices=0, name="nothing"),
}


def expected(graph, values, reducer):
    """Return the least or largest value of each vertex's component, by SciPy."""
    ends = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    matrix = coo_matrix((np.ones(graph.num_edges), ends), shape=(graph.num_vertices,) * 2).tocsr()
    count, component = connected_components(matrix, directed=False) if graph.num_vertices else (0, [])
    found = np.full((count, *values.shape[1:]), {"min": np.inf, "max": -np.inf}[reducer], values.dtype)
    {"min": np.minimum, "max": np.maximum}[reducer].at(found, component, values)
    return found[component]


def check(graph, reducer, features, device, seed=0):
    """Compare two runs, from different values, with SciPy. A run finds the trees itself: all vertices are in one before
    it. The reset waits for what the device has been told to write."""
    program = flood(reducer, at_most=UNLIMITED)
    engine = OnyxEngine(HOOKED)
    assert isinstance(engine.supports(program, graph, features, device), Yes)
    assert not engine.stepwise
    engine.prepare(program, graph, features, device, Phases())
    rng = np.random.default_rng(seed)
    for _ in range(2):
        own = rng.integers(-50, 50, (graph.num_vertices, features)).astype(np.float32)
        engine.prepared._parent[:] = 0
        engine.reset(Inputs({"own": own}))
        assert np.array_equal(engine.values("x"), own)
        statistics = engine.run(1)
        assert statistics.settled
        assert not statistics.supersteps
        assert np.array_equal(engine.values("x"), expected(graph, own, reducer))
    engine.close()


@pytest.mark.parametrize("reducer", ["min", "max"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("features", "threads"), [(1, 1), (3, 2)])
def test_the_values_are_those_of_components(name, reducer, features, threads, monkeypatch):
    monkeypatch.setattr("engines.onyx.cpu_hooking.LEAST_EDGES", 64)
    check(GRAPHS[name](), reducer, features, Device(threads=threads))


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed, monkeypatch):
    monkeypatch.setattr("engines.onyx.cpu_hooking.LEAST_EDGES", 16)
    edges = np.random.default_rng(seed).integers(1, 700)
    check(scattered(seed, edges=edges), "min", 2, Device(threads=1 + seed % 4), seed)


@pytest.mark.gpu
@pytest.mark.parametrize("reducer", ["min", "max"])
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernels_give_the_same(name, features, reducer):
    check(GRAPHS[name](), reducer, features, Device("cuda", 0))


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [lambda: rmat(17, symmetric=True), lambda: delaunay(1 << 16), lambda: grid(400, 400)])
def test_larger_graphs_on_a_device(graph):
    check(graph().with_reverse_edges(), "min", 2, Device("cuda", 0))


def test_components_are_found_with_the_labels_of_the_program():
    algorithm = Components()
    graph = algorithm.prepare_graph(rmat(8, edge_factor=1))
    engine = OnyxEngine(HOOKED)
    engine.prepare(trace(algorithm), graph, 1, Device(threads=1), Phases())
    engine.reset(algorithm.inputs(graph, 1))
    engine.run(1)
    assert np.array_equal(engine.values("label"), expected(graph, np.arange(256, dtype=np.float32), "min"))
    with pytest.raises(EngineFailure, match="gives 'label' and no other property"):
        engine.values("least")
    assert "the least label in it" in engine.explain()
    engine.close()


@pytest.mark.parametrize("chip", CHIPS)
def test_the_kernels_compile_without_spills(chip):
    engine = HookingCudaEngine(HOOKED)
    engine.generate(flood("max"), GRAPHS["hubs"](), 3, Device("cuda", 0))
    found = compiled(engine.source(), {}, chip).resources()
    assert found.keys() == set(NAMES)
    assert all(one["spills"] == one["stack"] == 0 for one in found.values())


@pytest.mark.parametrize("algorithm", [BFS(), PageRank(), KCore()])
def test_other_programs_are_refused(algorithm):
    graph = algorithm.prepare_graph(rmat(6, symmetric=True))
    answer = OnyxEngine(HOOKED).supports(trace(algorithm), graph, 1, Device())
    assert isinstance(answer, No)
    assert answer.reason.startswith("hooking: ")


def test_a_step_that_does_more_is_no_flood():
    assert isinstance(Flood.of(flood("min")), Flood)
    assert "does more than to compare" in Flood.of(flood("min", lambda v: minimum(v.x, minimum(v.best, v.own))))
    assert "does not only pass" in Flood.of(flood("min", lambda v: v.best + 0 * v.x))


def test_a_program_that_may_end_before_its_fixed_point_is_refused():
    path = np.arange(1001)
    graph = Graph.from_edges(path, path + 1, num_vertices=1002, name="path").with_reverse_edges()
    answer = OnyxEngine(HOOKED).supports(flood("min", at_most=1000), graph, 1, Device())
    assert answer == No("hooking gives the fixed point, and flood may end before it, after 1000 supersteps")
    assert isinstance(OnyxEngine(HOOKED).supports(flood("min", at_most=1001), graph, 1, Device()), Yes)
    facts = replace(graph.facts, num_vertices=UNLIMITED + 2)
    many = SimpleNamespace(facts=facts, num_vertices=facts.num_vertices, num_edges=graph.num_edges)
    for limit, runs in ((UNLIMITED - 1, False), (UNLIMITED, True)):
        answer = HookingCpuEngine(HOOKED).supports(flood("min", at_most=limit), many, 1, Device())
        assert isinstance(answer, Yes) is runs, answer


def test_flattening_writes_only_the_vertices_of_its_range():
    parent = np.array([0, 0, 1, 2, 3, 4, 5], np.int32)
    kernels.flatten(1, 0, np.array([0, 5, 7]), parent)
    assert parent.tolist() == [0, 0, 1, 2, 3, 0, 0]


def test_edges_without_a_reverse_edge_are_refused():
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="path")
    answer = OnyxEngine(HOOKED).supports(flood("min", at_most=1000), graph, 1, Device())
    assert answer == No("hooking finds components of graphs in which every edge has a reverse edge")


@pytest.mark.parametrize("options", [{"direction": "pull"}, {"fold": False}, {"tune": True}, {"edges": "mapped"}])
def test_options_of_supersteps_are_refused(options):
    (name,) = options
    with pytest.raises(ScheduleError, match=f"hooking=true has no supersteps, and {name}="):
        OnyxSchedule(hooking=True, **options)


def test_two_threads_hook_a_root_once():
    parent = np.arange(3, dtype=np.int32)
    kernels.hook(parent, 2, 1)
    kernels.hook(parent, 2, 0)
    assert parent.tolist() == [0, 0, 1]
    kernels.flatten(0, 0, np.array([0, 3]), parent)
    assert parent.tolist() == [0, 0, 0]


def test_a_root_that_another_thread_has_hooked_meanwhile_is_looked_for_again(monkeypatch):
    """Even vertices are connected, and odd ones; a thread before hooks some roots to another vertex of a component."""

    def late(parent, at, wanted, value):
        if at > 1 and at % 3 == 0 and parent[at] == wanted:
            parent[at] = at - 2
        same = parent[at] == wanted
        if same:
            parent[at] = value
        return same

    monkeypatch.setattr(kernels, "exchange_if", late)
    monkeypatch.setattr(kernels, "published", lambda parent, v: parent[v])
    monkeypatch.setattr(kernels, "publish", np.ndarray.__setitem__)
    monkeypatch.setattr(kernels, "root_of", kernels.root_of.py_func)
    parent, rng = np.arange(90, dtype=np.int32), np.random.default_rng(1)
    for u in rng.permutation(np.arange(2, 90)):
        kernels.hook.py_func(parent, u, u % 2 + 2 * rng.integers(u // 2))
    kernels.flatten(0, 0, np.array([0, 90]), parent)
    assert np.array_equal(parent, np.arange(90) % 2)


def test_the_largest_tree_is_found_by_a_sample():
    assert kernels.most_frequent(np.array([4] * 3000 + [0] * 2000, np.int32), SAMPLES) == 4
    assert kernels.most_frequent(np.array([7, 2, 7, 2, 9], np.int32), SAMPLES) == 2, "the least of several"
    assert kernels.most_frequent(np.array([1, 8, 1, 8, 8, 1], np.int32), 3) == 1, "every second vertex"
    assert kernels.most_frequent(np.empty(0, np.int32), SAMPLES) == -1


def test_the_preparation_has_its_parts():
    phases, graph = Phases(), GRAPHS["grid"]()
    OnyxEngine(HOOKED).prepare(flood("min"), graph, 1, Device(threads=1), phases)
    assert phases.seconds.keys() == {"transform", "compile"}
    assert all(seconds > 0 for seconds in phases.seconds.values())

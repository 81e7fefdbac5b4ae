"""Engines on a CUDA device, compared with the float64 reference after every superstep; arrays are poisoned
beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_plan import OnyxPlanner
from harness.contract import No, Phases
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.ranges import Over, WorkList
from tests.engines import device_functions, test_warm
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, drives_changes, pausing_of_plan, plan_of
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named, two_sides

pytestmark = pytest.mark.gpu
FEATURES = (1, 3, 4, 5, 8, 17, 32, 33)
SUPERSTEPS = 4


def prepared(schedule, program, graph, features, device):
    engine = cuda_engine(schedule)
    answer = engine.supports(program, graph, features, device)
    if isinstance(answer, No):
        assert "matrices" in answer.reason or drives_changes(engine), answer.reason
        pytest.skip(answer.reason)
    engine.prepare(program, graph, features, device, Phases())
    return engine


def check_every_superstep(schedule, program, graph, inputs, features, device, supersteps, *, repeatable=False):
    """Compare superstep by superstep with the reference.

    ``repeatable``: the emulated device. It turns the order of threads around with every launch, so that of two runs one
    adds in the order of the parts, and has their statistics.
    """
    engine = prepared(schedule, program, graph, features, device)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    engine.reset(inputs)
    parts = None
    for superstep in range(supersteps):
        expected = run.run(1)
        taken = engine.run(1)
        parts = parts.followed_by(taken) if parts else taken
        wanted = {name: run.values(name) for name in program.outputs}
        found = compare(program, {name: engine.values(name) for name in program.outputs}, wanted)
        assert found.ok, f"after superstep {superstep}: {found.detail}"
        if expected.settled or taken.settled:
            break
        assert len(taken.supersteps) == 1
    if repeatable:
        whole = []
        for _ in range(2):
            engine.reset(inputs)
            whole.append(engine.run(superstep + 1))
        assert parts in whole
    engine.close()


PAIRED = [
    (schedule, name, FEATURES[(3 * i + j + i // 8) % len(FEATURES)])
    for i, schedule in enumerate(SCHEDULES)
    for j, name in enumerate(PROGRAMS)
]


GATHERED = [row for row in PAIRED if "pull" in row[0] and not row[0].startswith("pull-edges")]


@pytest.mark.parametrize(("schedule", "name", "features"), PAIRED)
def test_operations(schedule, name, features, device):
    program = program_named(name)
    graph = graph_for(name)
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, device, SUPERSTEPS)


def check_lists(listed, schedule, name, features, device, monkeypatch):
    """Check vertices of many edges, which warps (the list *middle*) or blocks (*hubs*) own, on either side.

    They have three edges or more, and are more than half of all vertices. With *middle*, hubs have six or more.
    """
    monkeypatch.setattr(OnyxPlanner, "hub", 3 if listed == "hubs" else 6)
    if listed == "middle":
        policy = replace(OnyxCudaEngine.policy, edges_of_lane_group=99, middle_edges=3, fewest_owners=1, middle_share=0)
        monkeypatch.setattr(OnyxCudaEngine, "policy", policy)
    program, graph = program_named(name), graph_for(name)
    engine = cuda_engine(schedule)
    plan = engine.plan(program, graph.facts, features)
    if not isinstance(plan, No):
        gathers = [launch for launch in plan.launches if "gather<" in launch.kernel.source]
        lists = [launch for launch in plan.launches if f"gather_{listed}<" in launch.kernel.source]
        assert len(lists) == sum(", 3>(group" in launch.kernel.source for launch in gathers)
        assert lists or not gathers or features > 20 or not engine.schedule.feature_aware
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, device, SUPERSTEPS)


@pytest.mark.parametrize("listed", ["hubs", "middle"])
@pytest.mark.parametrize(("schedule", "name", "features"), GATHERED)
def test_vertices_of_many_edges(schedule, name, features, listed, device, monkeypatch):
    check_lists(listed, schedule, name, features, device, monkeypatch)


# Seven, 13 and 20 lanes per lane group leave spare lanes, which have no matrices of their own.
LEFT_OVER = [(schedule, k) for schedule in ("pull", "changes-pull", "changes-pull-edges-sparse") for k in (7, 13, 20)]


@pytest.mark.parametrize("listed", ["hubs", "middle"])
@pytest.mark.parametrize(("schedule", "features"), LEFT_OVER)
def test_many_edges_and_left_over_lanes(schedule, features, listed, device, monkeypatch):
    check_lists(listed, schedule, "inverse_of_a_destination", features, device, monkeypatch)


def test_minima_maxima_and_logarithms(device):
    import cupy

    a, b = device_functions.arguments()
    found = cupy.zeros((device_functions.FOUND, len(a)), cupy.float32)
    module = cupy.cuda.function.Module()
    module.load(device_functions.module(f"sm_{cupy.cuda.Device(device.index).compute_capability}").code)
    blocks = -(-len(a) // device_functions.BLOCK)
    given = (cupy.asarray(a), cupy.asarray(b), found, np.uint32(len(a)))
    module.get_function("functions")((blocks,), (device_functions.BLOCK,), given)
    device_functions.check(a, b, found.get())


def algorithms():
    from harness.algorithms.als import ALS
    from harness.algorithms.belief_propagation import BeliefPropagation
    from harness.algorithms.bfs import BFS
    from harness.algorithms.components import Components
    from harness.algorithms.hits import HITS
    from harness.algorithms.kcore import KCore
    from harness.algorithms.label_propagation import LabelPropagation
    from harness.algorithms.manifold_ranking import ManifoldRanking
    from harness.algorithms.multimodal import Multimodal
    from harness.algorithms.pagerank import PageRank
    from harness.algorithms.sssp import SSSP

    return {
        "label_propagation": LabelPropagation(seeds="random"), "pagerank": PageRank(), "als": ALS(sides="all"),
        "bfs": BFS(), "sssp": SSSP(), "components": Components(), "kcore": KCore(core=6),
        "belief_propagation": BeliefPropagation(damping=0.3), "manifold_ranking": ManifoldRanking(),
        "multimodal": Multimodal(), "hits": HITS(),
    }  # fmt: skip


def random_network(graph, features):
    rng = np.random.default_rng(7)
    phi, psi = (rng.uniform(0.1, 1.0, (rows, features)) for rows in (graph.num_vertices, features))
    properties = {"phi": phi.astype(np.float32), "psi": psi.astype(np.float32)}
    return Inputs(properties, algorithms()["belief_propagation"].parameter_values())


ALGORITHM_SCHEDULES = (
    "pull", "pull-unfolded", "pull-edges", "push", "push-edges", "push-loops", "changes-pull", "changes-pull-sparse",
    "changes-pull-edges", "changes-push", "changes-push-edges", "gunrock", "gunrock-merge-path",
    "tigr", "simdx", "simdx-lists",
)  # fmt: skip


@pytest.mark.parametrize("features", [1, 8, 32, 100])
@pytest.mark.parametrize("schedule", ALGORITHM_SCHEDULES)
@pytest.mark.parametrize("name", list(algorithms()))
def test_algorithms(name, schedule, features, device):
    from harness.graph.generators import rmat

    algorithm = algorithms()[name]
    program = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=9, edge_factor=8, seed=4, max_weight=4))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    engine = prepared(schedule, program, graph, features, device)
    run = ReferenceRun(program, graph, features)
    supersteps = 10 if name in ("als", "belief_propagation") else 60
    run.reset(inputs)
    engine.reset(inputs)
    expected, taken = run.run(supersteps), engine.run(supersteps)
    found = compare(
        program, {n: engine.values(n) for n in program.outputs}, {n: run.values(n) for n in program.outputs}
    )
    assert found.ok, found.detail
    exact = name in ("bfs", "sssp", "components", "kcore")  # the others may settle a superstep apart
    assert taken.settled == expected.settled or not exact
    engine.close()


def check_owners_of_few_edges(schedule, features, device):
    """Check owners: so many that a device cannot run all at once, with long gathers, or with rows so long that an
    owner processes several vertices one by one; of all vertices, and of a side."""
    from harness.graph.generators import grid

    spread, sides = algorithms()["label_propagation"], program_named("sides")
    cases = [(trace(spread), grid(rows=19, columns=23)), (sides, two_sides())]
    for program, graph in cases:
        engine = cuda_engine(schedule)
        plan = plan_of(engine, program, graph, features)
        most = "resident" if plan.change_driven or features < 48 else "some" if features <= 64 else "all"
        assert most in {launch.most for launch in plan.launches if "gather<" in launch.kernel.source}
        inputs = inputs_for(program, graph, features, seed=features)
        check_every_superstep(schedule, program, graph, inputs, features, device, SUPERSTEPS)


@pytest.mark.parametrize("features", [2, 8, 64, 66, 128])
@pytest.mark.parametrize("schedule", ["pull", "pull-unfolded", "changes-pull"])
def test_owners_of_few_edges(schedule, features, device):
    check_owners_of_few_edges(schedule, features, device)


def with_a_hub():
    """Return a graph with a vertex that has edges from all others, which have ten on average."""
    rng, count = np.random.default_rng(3), 1100
    spokes = np.stack([np.zeros(count - 1, int), np.arange(1, count)])
    others = rng.integers(0, count, (2, 4 * count))
    pairs = np.concatenate([spokes, others], axis=1)
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    weights = rng.uniform(0.5, 1.5, pairs.shape[1]).astype(np.float32)
    return Graph.from_edges(*pairs, num_vertices=count, name="with a hub", symmetrize=True, weights=weights)


def check_hub_of_matrices(schedule, features, device):
    """Check a hub with matrix sums: a block owns it, and as many lane groups as the average degree requires own the
    others."""
    algorithm, graph = algorithms()["als"], with_a_hub()
    program = trace(algorithm)
    engine = cuda_engine(schedule)
    plan = plan_of(engine, program, graph, features)
    gathered_over = [launch.over for launch in plan.launches if "gather" in launch.kernel.source]
    hubs, others = gathered_over[:2]
    assert isinstance(hubs, WorkList)
    assert others is Over.VERTICES
    assert gathered_over == [hubs, others] * (1 + (pausing_of_plan(plan) is not None))
    assert plan.tables == (hubs,)
    assert list(hubs.of(graph).arrays["hubs"]) == [0]
    inputs = algorithm.inputs(graph, features)
    check_every_superstep(schedule, program, graph, inputs, features, device, 2)


@pytest.mark.parametrize("features", [2, 3, 4, 8])
@pytest.mark.parametrize("schedule", ["pull", "changes-pull"])
def test_a_hub_of_matrices(schedule, features, device):
    check_hub_of_matrices(schedule, features, device)


@pytest.mark.parametrize("kind", ["insert", "lighter"])
@pytest.mark.parametrize("name", ["label_propagation", "pagerank", "sssp", "components", "manifold_ranking"])
@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push", "pull"])
def test_warm_starts(schedule, name, kind, device, monkeypatch):
    monkeypatch.setitem(test_warm.ALL, schedule, SCHEDULES[schedule])
    start, cold, warm = test_warm.runs(schedule, name, kind, device)
    if name in ("sssp", "components") and schedule.startswith("changes-") and start.stale is not None:
        assert warm.edges < cold.edges


def test_an_index_that_does_not_exist(device):
    from harness.device.cuda import open_device
    from harness.device.errors import DeviceUnavailable

    with pytest.raises(DeviceUnavailable, match=r"no CUDA device 99: .* set device.index to one of 0"):
        open_device(99)

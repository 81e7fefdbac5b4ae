"""Near-far gives the fixed point of the program's supersteps, bit for bit, on every device."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.engine import SimdxEngine
from engines.pushbaseline.gunrock.engine import GunrockEngine
from engines.pushbaseline.schedules import GunrockSchedule
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import Device, EngineFailure, No, Phases, ScheduleError, Unsupported
from harness.device.compilation import compiled
from harness.graph import Graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, minimum, trace
from harness.language.priority_order import PriorityOrder, priority_order
from harness.lowering.cuda.near_far import NearFarCudaEngine
from harness.lowering.cuda.near_far_launches import LaunchOfEachStep, OneLaunch, OneLaunchWithShortLists
from harness.lowering.near_far import UNBOUNDED
from tests.engines.cuda_modules import CHIPS
from tests.engines.near_far import (
    GRAPHS,
    PROGRAMS,
    SERIAL,
    by_supersteps,
    check,
    paths,
    run,
    scattered,
    starts,
    weighted,
)

NEAR_FAR = OnyxSchedule(order="near_far")


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("features", "threads"), [(1, 1), (3, 2)])
def test_the_values_are_those_of_supersteps(name, program, features, threads):
    check(OnyxEngine(NEAR_FAR), program, GRAPHS[name](), features, Device(threads=threads))


@given(
    seed=st.integers(0, 1000),
    vertices=st.integers(1, 40),
    edges=st.integers(0, 160),
    lengths=st.lists(st.floats(0, 1e4, width=32), min_size=1, max_size=5),
    delta=st.sampled_from([None, 1e-6, 0.5, 7.0, 1e30]),
)
@settings(max_examples=60, deadline=None)
def test_random_graphs_with_any_delta(seed, vertices, edges, lengths, delta):
    graph = scattered(seed, vertices, edges, lengths)
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", graph, 2, SERIAL, seed)


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ("lengths", "hops")])
@given(seed=st.integers(0, 1000), lengths=st.lists(st.floats(0, 50, width=32), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_random_graphs_with_other_messages(program, seed, lengths):
    check(OnyxEngine(NEAR_FAR), program, scattered(seed, 40, 120, lengths), 2, SERIAL, seed)


def test_a_small_delta_visits_fewer_edges_and_sets_more_thresholds():
    roads = GRAPHS["roads"]()
    narrow, default, wide = (
        check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", roads, 1, SERIAL)
        for delta in (0.2, None, UNBOUNDED)
    )
    assert narrow["edges"] < default["edges"] < wide["edges"]
    assert narrow["thresholds"] > default["thresholds"] > wide["thresholds"] == 1
    assert narrow["edges"] < 1.3 * roads.num_edges  # nearly the order of Dijkstra's method
    assert narrow["supersteps"] > wide["supersteps"]


def test_each_reached_vertex_sends_once_if_all_lengths_are_equal():
    graph = GRAPHS["equal lengths"]()
    inputs = Inputs({"own": starts(graph, 1, "min", seed=1)})
    values, options = run(OnyxEngine(NEAR_FAR), PROGRAMS["lengths"], graph, 1, SERIAL, inputs)
    reached = np.isfinite(values[:, 0])
    assert 1 < reached.sum() < graph.num_vertices
    assert options["delta"] == UNBOUNDED
    assert dict(options["solved"])["edges"] == np.diff(graph.csr.offsets)[reached].sum()


def counts_of(graph, values, delta):
    """Return supersteps, thresholds and visited edges of lists that have each vertex once; change the values."""
    offsets, neighbours, lengths = graph.csr.offsets, graph.csr.neighbours, graph.weights
    far, threshold, counts = list(np.flatnonzero(np.isfinite(values))), np.float32(-np.inf), np.zeros(3, np.int64)
    while far := [v for v in far if values[v] > threshold]:
        least = values[far].min()
        threshold = max(least, least + np.float32(delta))
        near = [v for v in far if values[v] <= threshold]
        far = [v for v in far if values[v] > threshold]
        counts[1] += 1
        while near:
            following = []
            for i, u in enumerate(near):
                for e in range(offsets[u], offsets[u + 1]):
                    v, sent = neighbours[e], values[u] + lengths[e]
                    if sent < values[v]:
                        values[v] = sent
                        entered = far if sent > threshold else following
                        if v not in entered and (entered is far or v not in near[i + 1 :]):
                            entered.append(v)
            counts += 1, 0, sum(offsets[u + 1] - offsets[u] for u in near)
            near = following
    return counts.tolist()


@pytest.mark.parametrize("delta", [0.0, 2.0, 7.0])
@pytest.mark.parametrize("name", ["scattered", "roads", "loops"])
def test_vertices_are_once_in_each_list(name, delta):
    graph = GRAPHS[name]()
    own = starts(graph, 1, "min", seed=2)
    engine = OnyxEngine(OnyxSchedule(order="near_far", delta=delta))
    values, options = run(engine, PROGRAMS["lengths"], graph, 1, SERIAL, Inputs({"own": own}))
    wanted = own[:, 0].copy()
    solved = dict(options["solved"])
    assert [solved[one] for one in ("supersteps", "thresholds", "edges")] == counts_of(graph, wanted, delta)
    assert np.array_equal(values[:, 0], wanted)


def test_the_default_of_delta_is_a_multiple_of_the_mean_length():
    graph = GRAPHS["roads"]()
    engine = OnyxEngine(NEAR_FAR)
    _, options = run(engine, PROGRAMS["lengths"], graph, 1, SERIAL, Inputs({"own": starts(graph, 1, "min")}))
    assert options["delta"] == pytest.approx(2 * graph.weights.mean(dtype=np.float64))
    assert options["order"] == "near_far"
    json.dumps(options, allow_nan=False)


STYLES = {
    GunrockEngine: GunrockSchedule(order="near_far", delta=3.0),
    SimdxEngine: SimdxSchedule(order="near_far"),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["scattered", "roads", "nothing"])
def test_other_styles_give_the_values_of_supersteps(style, name):
    check(style(STYLES[style]), "lengths", GRAPHS[name](), 2, Device(threads=2))


@pytest.mark.parametrize("schedule", [OnyxSchedule, GunrockSchedule, SimdxSchedule])
def test_options_without_a_meaning_are_refused_in_every_style(schedule):
    with pytest.raises(ScheduleError, match="delta has no meaning without order=near_far"):
        schedule(delta=2.0)
    with pytest.raises(ScheduleError, match="schedule option solved is set by"):
        schedule(solved=(("edges", 1),))
    with pytest.raises(ScheduleError, match="order=near_far has no such supersteps, and edges='mapped'"):
        schedule(order="near_far", edges="mapped")


@pytest.mark.parametrize("algorithm", [SSSP(), BFS(), Components()])
def test_algorithms_run_unchanged(algorithm):
    graph = algorithm.prepare_graph(grid(12, 15, removed=0.2))
    program = trace(algorithm)
    expected = algorithm.settled_answer(graph, 2)
    engine = OnyxEngine(NEAR_FAR)
    engine.prepare(program, graph, 2, SERIAL, Phases())
    engine.reset(algorithm.inputs(graph, 2))
    engine.run(1)
    (state,) = program.outputs
    np.testing.assert_allclose(engine.values(state), expected.values[state], rtol=1e-5)
    with pytest.raises(EngineFailure, match="and no other property"):
        engine.values("nothing")
    engine.close()


def test_a_run_may_begin_at_any_values():
    graph, program = GRAPHS["roads"](), PROGRAMS["lengths"]
    inputs = Inputs({"own": starts(graph, 2, "min")})
    before = by_supersteps(program, graph, 2, inputs) + np.float32(5)
    before[::7] = -np.inf
    engine = OnyxEngine(NEAR_FAR)
    engine.prepare(program, graph, 2, SERIAL, Phases())
    engine.reset(inputs, {"x": before})
    engine.run(1)
    found = engine.values("x")
    engine.close()
    assert np.array_equal(found, by_supersteps(program, graph, 2, Inputs({"own": before})))


# what is derived ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (trace(PageRank()), "pagerank reduces by sum, of which every message counts"),
        (trace(KCore()), "reduces by sum"),
        (paths(lambda x, w, _: x - 1.0, weighted=False), "may be better than the value of its source"),
        (paths(lambda x, w, _: x + 1.0, "max", weighted=False), "may be better than the value of its source"),
        (paths(lambda x, w, _: minimum(x, w)), "may be better than the value of its source"),
        (paths(lambda x, w, _: x - w), "does not increase with all that it reads"),
        (paths(lambda x, w, _: 2.0 * x, weighted=False), "may be better than the value of its source"),
        (paths(lambda x, w, _: x + w, better=lambda a, b: minimum(minimum(a, b), 5.0)), "does more than to compare"),
        (paths(lambda x, w, _: x + w, repeat=3), "paths gives more than the values of its fixed point"),
        (paths(lambda x, w, _: x + w, also=True), "stages that run before its supersteps"),
    ],
)
def test_programs_without_the_order_are_refused(program, reason):
    assert reason in priority_order(program)
    answer = OnyxEngine(NEAR_FAR).supports(program, rmat(5), 1, Device())
    assert isinstance(answer, No)
    assert answer.reason.startswith("order=near_far: ")


def test_lengths_below_zero_are_refused_when_they_are_given():
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, weights=[1, -2], name="negative")
    engine, program = OnyxEngine(NEAR_FAR), PROGRAMS["lengths"]
    engine.prepare(program, graph, 1, SERIAL, Phases())
    inputs = Inputs({"own": starts(graph, 1, "min")})
    with pytest.raises(Unsupported, match="'weight' from -2 to 1 a message of send may be better"):
        engine.reset(inputs)
    engine.reset(Inputs({**inputs.properties, "weight": np.array([1, 2], np.float32)}))
    engine.close()


@pytest.mark.parametrize("length", [np.inf, 1.0])
@pytest.mark.parametrize("start", [-np.inf, -7.0])
def test_an_infinite_length_and_a_start_of_the_other_sign_are_refused(start, length):
    """Their sum is no number, which supersteps keep."""
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="path")
    engine = OnyxEngine(NEAR_FAR)
    engine.prepare(PROGRAMS["lengths"], graph, 1, SERIAL, Phases())
    own, weight = np.array([[start], [np.inf], [np.inf]], np.float32), np.array([1, length], np.float32)
    inputs = Inputs({"own": own, "weight": weight})
    both = np.isinf(start) and np.isinf(length)
    with pytest.raises(Unsupported, match="a start of -inf and an infinite input") if both else nullcontext():
        engine.reset(inputs)
    engine.close()


def test_lengths_that_change_in_place_are_checked_again():
    graph, lengths = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="path"), np.ones(2, np.float32)
    engine = OnyxEngine(NEAR_FAR)
    engine.prepare(PROGRAMS["lengths"], graph, 1, SERIAL, Phases())
    inputs = Inputs({"own": starts(graph, 1, "min"), "weight": lengths})
    engine.reset(inputs)
    lengths[1] = -2
    with pytest.raises(Unsupported, match="'weight' from -2 to 1 a message of send may be better"):
        engine.reset(inputs)
    engine.close()


def test_parameters_are_part_of_the_condition():
    order = priority_order(PROGRAMS["longer of two"])
    assert isinstance(order, PriorityOrder)
    assert not order.refusal({"weight": (0, 9), "rate": (-1, -1)})  # the larger of both sums is no better
    order = priority_order(paths(lambda x, w, it: x + w * it.rate))
    assert "multiplies and adds" in order
    order = priority_order(paths(lambda x, w, it: x + it.rate, weighted=False))
    assert not order.refusal({"rate": (0.0, 0.0)})
    assert "'rate' from -1 to -1" in order.refusal({"rate": (-1.0, -1.0)})
    assert order.refusal({"rate": (-math.inf, math.inf)})


def test_a_limit_that_may_end_the_run_before_the_fixed_point_is_refused():
    program = paths(lambda x, w, _: x + w, at_most=5)
    answer = OnyxEngine(NEAR_FAR).supports(program, rmat(5), 1, Device())
    assert answer == No("order=near_far gives the fixed point, and paths may end before it, after 5 supersteps")


@pytest.mark.parametrize("options", [{"direction": "pull"}, {"fold": False}, {"tune": True}, {"edges": "mapped"}])
def test_options_of_supersteps_are_refused(options):
    (name,) = options
    with pytest.raises(ScheduleError, match=f"and {name}="):
        OnyxSchedule(order="near_far", **options)


def test_the_explanation_has_the_order_its_condition_and_the_loop():
    engine = OnyxEngine(NEAR_FAR)
    engine.generate(PROGRAMS["lengths"], rmat(5), 1, SERIAL)
    text = engine.explain()
    assert (
        "near-far: leaves bulk-synchronous order; each feature of a vertex sends by itself, least values first" in text
    )
    assert "delta: 2 times the mean length of an edge" in text
    assert "required of weight: no message is better than its source's value" in text
    assert "message = (value + input_0)" in text
    assert engine.resolved_options() == {"order": "near_far"}


# on a CUDA device -----------------------------------------------------------------------------------------------------
@pytest.mark.gpu
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernel_gives_the_values_of_supersteps(name, program, features):
    check(OnyxEngine(NEAR_FAR), program, GRAPHS[name](), features, Device("cuda", 0))


@pytest.mark.gpu
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernels_of_other_styles_give_the_same(name, style):
    check(style(STYLES[style]), "lengths", GRAPHS[name](), 2, Device("cuda", 0))


@pytest.mark.gpu
@pytest.mark.parametrize("delta", [None, 0.05, 1e30])
@pytest.mark.parametrize("graph", [lambda: rmat(16), lambda: grid(300, 300, removed=0.3), lambda: delaunay(1 << 15)])
def test_larger_graphs_on_a_device(graph, delta):
    made = weighted(graph().with_reverse_edges(), 1, np.linspace(0, 3, 500))
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", made, 4, Device("cuda", 0))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("program", ["lengths", "losses"])
@pytest.mark.parametrize("launching", [OneLaunch, OneLaunchWithShortLists, LaunchOfEachStep])
def test_the_kernels_compile_without_spills(chip, program, launching):
    engine = NearFarCudaEngine(NEAR_FAR, launching)
    engine.generate(PROGRAMS[program], GRAPHS["hub"](), 3, Device("cuda", 0))
    found = compiled(engine.source(), {}, chip).resources()
    assert set(found) >= set(launching.kernels)
    assert all(one["spills"] == one["stack"] == 0 for one in found.values())
    assert all(one["registers"] <= 64 for one in found.values())  # two blocks are resident


def test_the_explanation_for_a_device_has_the_kernel():
    engine = OnyxEngine(NEAR_FAR)
    engine.generate(PROGRAMS["lengths"], GRAPHS["hub"](), 1, Device("cuda", 0))
    text = engine.explain()
    assert "delta: 64 times the mean length of an edge" in text
    assert "return (value + input_0s[e]);" in text

"""Steps in place on CUDA: kernels compile for every chip; on a device, float64 in the engine's own order agrees."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from engines.lonestar import hand_over
from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.cuda_executor import LonestarExecutor, launches_of
from engines.lonestar.cuda_plan import plan
from engines.lonestar.schedule import BATCHED, LEAST_HUB, LOCKED, LonestarSchedule
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, EngineFailure, No, Phases
from harness.device.compilation import compiled
from harness.graph import Graph
from harness.graph.generators import random_ratings
from harness.language import K, trace
from harness.lowering.cuda.modules import headers
from tests.engines.test_lonestar import OPTIONS, ratings, replayed
from tests.language.programs import program_of

gpu = pytest.mark.gpu
SERIAL = (*BATCHED, *LOCKED)
ALGORITHM = SGDMatrixFactorisation(alpha=0.05, epochs=3)
LOSSY = SGDMatrixFactorisation(alpha=0.05, epochs=3, conflicts="lossy")
ON_A_DEVICE = {"owner": {"hub": 2000}}


def cuda_engine(program, graph, features, device, **schedule):
    """Return a prepared engine that supports the program."""
    engine = LonestarCudaEngine(LonestarSchedule(**schedule))
    answer = engine.supports(program, graph, features, device)
    assert not isinstance(answer, No), answer
    engine.prepare(program, graph, features, device, Phases())
    return engine


def check_replay(algorithm, given, features, device, **schedule):
    """Compare some supersteps with float64 in the engine's own order; return the engine, closed."""
    graph = algorithm.prepare_graph(given)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    engine = cuda_engine(program, graph, features, device, **schedule)
    found = replayed(engine, program, graph, inputs, features)
    assert found.ok, found.detail
    engine.reset(inputs)
    statistics = engine.run(2)
    assert [(step.active, step.edges) for step in statistics.supersteps] == [(graph.num_vertices, graph.num_edges)] * 2
    assert engine.deterministic == (schedule["order"] in BATCHED)
    assert "passes of step" in engine.explain()
    engine.close()
    return engine


# without a device -----------------------------------------------------------------------------------------------------
@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
@pytest.mark.parametrize(
    ("order", "features", "chip", "aware"),
    [
        ("owner", 16, "sm_90", True),
        *(
            pytest.param(order, k, chip, aware, marks=pytest.mark.full)
            for order in ("owner", "agm_e", "grid", "wavefront", "hogwild")
            for k, aware in ((1, True), (16, True), (16, False), (33, True), (128, True))
            for chip in ("sm_80", "sm_90", "sm_100")
            if (order, k, chip, aware) != ("owner", 16, "sm_90", True)
        ),
    ],
)
def test_kernels_compile_without_spills(order, features, chip, aware):
    schedule = LonestarSchedule(order=order, feature_aware=aware, **OPTIONS.get(order, {}))
    planned = plan(trace(LOSSY), schedule, ratings().facts, features)
    found = compiled(planned.source, headers(planned.templates), chip).resources()
    assert {kernel.name for kernel in planned.kernels} <= set(found)
    assert "__ldcg" in headers(planned.templates)["lane_groups.cuh"]
    assert "#define COHERENT" in planned.source
    for name, used in found.items():
        assert used["registers"] <= 128, (name, used)


def test_batches_are_launched_by_their_sizes():
    units = np.array([5000, 900, 40, 3, 3, 70, 5000])
    lane_groups, resident = 8, 200
    assert list(launches_of(units, lane_groups, resident, "launch")) == [
        (batch, batch + 1, min(-(-count // lane_groups), 800)) for batch, count in enumerate(units)
    ]
    assert list(launches_of(units, lane_groups, resident, "grid")) == [(0, 7, 200)]
    assert list(launches_of(units, lane_groups, resident, None)) == [
        (0, 1, 625),
        (1, 3, 113),
        (3, 5, 1),
        (5, 6, 9),
        (6, 7, 625),
    ]
    for barrier in ("launch", "grid", None):
        assert list(launches_of(units[:0], lane_groups, resident, barrier)) == []


def test_what_the_device_does_not_run_is_refused():
    def bulk(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(update="both")(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}})
        p.over_vertices(lambda v: {"x": v.x + 1.0})
        p.repeat(1)
        p.output("x", bound=1e-5)

    device, loop = Device("cuda"), Graph.from_edges([0], [0], name="loop")
    for program, graph, order, reason in (
        (program_of(bulk), ratings(), "el", "on CUDA this engine runs no others"),
        (trace(ALGORITHM), loop, "el", "self-loops"),
        (trace(ALGORITHM), ratings().with_reverse_edges(), "nl", "from its left to its right side"),
        (trace(ALGORITHM), ratings(), "hogwild", "accepts no lost updates"),
    ):  # fmt: skip
        engine = LonestarCudaEngine(LonestarSchedule(order=order))
        answer = engine.supports(program, graph, 3, device)
        assert isinstance(answer, No)
        assert reason in answer.reason
        with pytest.raises(EngineFailure, match=reason[:20]):
            engine.generate(program, graph, 3, device)


def test_workers_of_hogwild_are_as_few_as_meet_rarely():
    few, many = ratings().facts, random_ratings(users=40_000, items=9000, num_ratings=90_000, exponent=0.1).facts

    def workers(facts, **options):
        return plan(trace(LOSSY), LonestarSchedule(order="hogwild", **options), facts, 3).schedule.workers

    assert workers(few, writes="store") == 1
    assert workers(many, writes="store") > 50
    assert workers(many, writes="add") == workers(many) == pytest.approx(200 * workers(many, writes="store"), rel=0.02)
    assert workers(few) > 1
    assert workers(few, workers=7) == 7


def test_changes_are_added_if_new_values_are_old_ones_and_a_change():
    def step_of(new):
        def build(p, self):
            p.edge("weight")
            p.vertex("x", K, start=1.0)
            p.over_edges(update="both", conflicts="lossy")(lambda src, dst, edge: new(src, dst, edge))
            p.repeat(1)
            p.output("x", bound=1e-5)

        return program_of(build)

    def answer(program, writes=None):
        return plan(program, LonestarSchedule(order="hogwild", writes=writes), ratings().facts, 4)

    added = (
        lambda src, dst, edge: {"src": {"x": src.x + dst.x}, "dst": {"x": edge.weight * src.x + dst.x}},
        lambda src, dst, edge: {"src": {"x": src.x - edge.weight * dst.x}, "dst": {"x": dst.x + src.x}},
    )
    stored = (
        lambda src, dst, edge: {"src": {"x": src.x + dst.x}, "dst": {"x": src.x - dst.x}},  # the own row is taken away
        lambda src, dst, edge: {"src": {"x": edge.weight * src.x}, "dst": {"x": dst.x + src.x}},
        lambda src, dst, edge: {
            "src": {"x": src.x + edge.weight},
            "dst": {"x": dst.x + src.x},
        },  # the change is a number
    )
    for new, writes, kernel in (
        *((one, "add", "_adding") for one in added),
        *((one, "store", "_lossy") for one in stored),
    ):
        planned = answer(step_of(new))
        assert planned.schedule.writes == writes
        assert kernel in planned.source
        assert answer(step_of(new), "store").schedule.writes == "store"
    for new in stored:
        assert "needs new values that are the old ones plus a change" in answer(step_of(new), "add").reason


def test_lane_groups_own_all_columns_if_none_is_a_hub():
    def hub(facts, **options):
        return plan(trace(ALGORITHM), LonestarSchedule(order="owner", **options), facts, 3).schedule.hub

    few, many = ratings().facts, large().facts
    assert (few.in_degrees.largest < LEAST_HUB, hub(few)) == (True, 1)
    assert many.in_degrees.largest >= hub(many) >= LEAST_HUB
    assert hub(few, hub=200) == 200


# on a device ----------------------------------------------------------------------------------------------------------
@functools.cache
def large():
    return random_ratings(users=30_000, items=4000, num_ratings=400_000, seed=3)


@gpu
@pytest.mark.parametrize("order", SERIAL)
@pytest.mark.parametrize("features", [1, 16, 33, pytest.param(128, marks=pytest.mark.full)])
def test_float64_in_the_engines_own_order_gives_its_values(order, features, device):
    check_replay(ALGORITHM, large(), features, device, order=order, **ON_A_DEVICE.get(order, {}))


@gpu
@pytest.mark.parametrize(
    ("order", "options", "parameters"),
    [
        ("el", {"feature_aware": False}, {}), ("owner", {"feature_aware": False, "hub": 2000}, {}),
        ("el", {"barrier": "launch"}, {}), ("agm_e", {"barrier": "launch"}, {}), ("agm_e", {"barrier": "grid"}, {}),
        ("nl", {}, {"bias": "both", "rates": "adagrad"}), ("el", {}, {"bias": "both", "rates": "adagrad"}),
        ("el", {"hand_over": False}, {}), ("owner", {"hand_over": False, "hub": 2000}, {}),
        ("blkdiag", {"feature_aware": False}, {"bias": "both"}), ("levels", {}, {"order": "given"}),
    ],
)  # fmt: skip
def test_options_on_a_device(order, options, parameters, device):
    algorithm = SGDMatrixFactorisation(alpha=0.05, epochs=3, **parameters)
    check_replay(algorithm, large(), 16, device, order=order, **options)


@gpu
@pytest.mark.parametrize(("writes", "most"), [("add", 0.0), ("store", 0.05)])
def test_hogwild_loses_few_updates_on_a_device(writes, most, device):
    graph = LOSSY.prepare_graph(large())
    engine = cuda_engine(trace(LOSSY), graph, 16, device, order="hogwild", writes=writes)
    engine.reset(LOSSY.inputs(graph, 16))
    lost = [engine.ordered_superstep()["step"] for _ in range(3)]
    assert all(0 <= share <= most for share in lost), lost
    engine.close()


@gpu
@pytest.mark.parametrize("barrier", [None, "launch", "grid"])
@pytest.mark.parametrize("order", ["el", "hybrid"])
def test_edges_of_hubs_are_handed_over_on_a_device(order, barrier, device, monkeypatch):
    monkeypatch.setattr(hand_over, "LEAST_SHARE", 1)
    monkeypatch.setattr(hand_over, "LEAST", 2)
    counts, run = [], LonestarExecutor._hand_over

    def noted(self, kernels, number, left, ran):
        counts.append(left)
        run(self, kernels, number, left, ran)

    monkeypatch.setattr(LonestarExecutor, "_hand_over", noted)
    check_replay(ALGORITHM, large(), 16, device, order=order, barrier=barrier)
    assert counts or order == "hybrid"

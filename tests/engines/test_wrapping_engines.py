"""Properties of engine classes that the harness reads, and engines that pass calls on to the one they have chosen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engines.lonestar.schedule import LonestarSchedule
from engines.lonestar.trial import TrialEngine
from engines.onyx.cpu_pull import LatestGather, StaleOnly
from engines.onyx.cuda_hooking import RUN, HookingCudaEngine
from engines.onyx.schedule import OnyxSchedule
from engines.onyx.tuning import TunedEngine
from harness.conformance.subject import load
from harness.contract import Device, No, RunStatistics
from tests.engines.problems import SPECS, new_engine, problem, program

# Whether an engine counts supersteps, gives the same bits in every run, and tunes itself; on each device.
CLASSES = {
    "engines.onyx.cpu_engine:OnyxCpuEngine": (True, True, False),
    "engines.onyx.cuda_engine:OnyxCudaEngine": (True, False, False),
    "engines.onyx.krylov_engine:KrylovCpuEngine": (False, True, False),
    "engines.onyx.cpu_hooking:HookingCpuEngine": (False, True, False),
    "engines.onyx.cuda_hooking:HookingCudaEngine": (False, True, False),
    "engines.onyx.tuning:TunedEngine": (True, False, True),
    "engines.lonestar.trial:TrialEngine": (True, False, True),
    "engines.pushbaseline.gunrock.cpu_engine:GunrockCpuEngine": (True, True, False),
    "engines.pushbaseline.gunrock.cuda_engine:GunrockCudaEngine": (True, False, False),
    "engines.pullbaseline.simdx.cpu_engine:SimdxCpuEngine": (True, True, False),
    "engines.pullbaseline.simdx.cuda_engine:SimdxCudaEngine": (True, False, False),
    "engines.outofmemory.emogi.cpu_engine:EmogiCpuEngine": (True, True, False),
    "engines.libraries.scipy_engine:ScipyEngine": (True, True, False),
    "engines.libraries.networkx_engine:NetworkxEngine": (False, False, False),
    "engines.libraries.krylov_engine:KrylovEngine": (False, False, False),
}
# The class of an engine under options, on the CPU and on a GPU.
CHOSEN = [
    ("onyx", {}, "engines.onyx.cpu_engine:OnyxCpuEngine", "engines.onyx.cuda_engine:OnyxCudaEngine"),
    ("onyx", {"tune": False}, "engines.onyx.cpu_engine:OnyxCpuEngine", "engines.onyx.cuda_engine:OnyxCudaEngine"),
    ("onyx", {"tune": True}, "engines.onyx.tuning:TunedEngine", "engines.onyx.tuning:TunedEngine"),
    ("onyx", {"hooking": False}, "engines.onyx.cpu_engine:OnyxCpuEngine", "engines.onyx.cuda_engine:OnyxCudaEngine"),
    (
        "onyx", {"hooking": True}, "engines.onyx.cpu_hooking:HookingCpuEngine",
        "engines.onyx.cuda_hooking:HookingCudaEngine",
    ),
    (
        "onyx", {"solver": "cg"}, "engines.onyx.krylov_engine:KrylovCpuEngine",
        "engines.onyx.krylov_engine:KrylovCpuEngine",
    ),
    ("lonestar", {"order": "auto", "tune": True}, *["engines.lonestar.trial:TrialEngine"] * 2),
    (
        "lonestar", {"order": "auto"}, "engines.lonestar.cpu_engine:LonestarCpuEngine",
        "engines.lonestar.cuda_engine:LonestarCudaEngine",
    ),
]  # fmt: skip


@pytest.mark.parametrize("path", CLASSES)
def test_what_the_harness_reads_of_a_class(path):
    found = load(path)
    assert (found.stepwise, found.deterministic, found.tunes) == CLASSES[path]


@pytest.mark.parametrize(("name", "options", "cpu", "cuda"), CHOSEN)
def test_the_class_for_options_and_a_device(name, options, cpu, cuda):
    engine = new_engine(name, options)
    assert (engine.class_for("cpu"), engine.class_for("cuda")) == (cpu, cuda)
    assert engine.tunes == (bool(options.get("tune")) or options.get("order") == "auto")
    assert engine.stepwise == (not options.get("hooking") and "solver" not in options)


def test_the_devices_of_engines_and_what_they_need():
    found = {name: (tuple(spec.devices), tuple(spec.requires)) for name, spec in SPECS.items()}
    both = (("cpu", "cuda"), ("numba",))
    wanted = dict.fromkeys(("onyx", "gunrock", "tigr", "simdx", "emogi", "scaph", "lonestar"), both)
    assert {name: found[name] for name in wanted} == wanted
    assert {name for name, (devices, _) in found.items() if devices == ("cuda",)} == {"cusparse"}
    assert set(found["torch"][0]) == {"cpu", "cuda"}
    others = {"cusparse", "torch", *wanted}
    assert {devices for name, (devices, _) in found.items() if name not in others} == {("cpu",)}


class Inner:
    """An engine that notes its calls and returns a value of its own for each."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments))
            return f"answer of {name}"

        return call


CALLS = [
    ("run", (7,)), ("values", ("x",)), ("rows", ("x", np.arange(2))), ("device_values", ("x",)),
    ("operations", (RunStatistics(settled=True),)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "schedule"),
    [(TunedEngine, OnyxSchedule(tune=True)), (TrialEngine, LonestarSchedule(order="auto", tune=True))],
)
def test_calls_go_to_the_chosen_engine(cls, schedule):
    engine, inner = cls(schedule), Inner()
    engine._prepared = inner
    own = {TunedEngine: [("narrow", ("stale", "senders"))], TrialEngine: [("ordered_superstep", ())]}
    for name, arguments in [*CALLS, *own[cls]]:
        found = getattr(engine, name)(*arguments)
        assert inner.calls[-1] == (name, *arguments)
        assert found == (None if name == "narrow" else f"answer of {name}")
    count = len(inner.calls)
    assert isinstance(engine.memory_model(None, None, 1, None), No)
    assert len(inner.calls) == count
    engine.close()
    assert inner.calls[-1] == ("close",)
    engine.close()
    assert len(inner.calls) == count + 1
    with pytest.raises(AssertionError, match=r"prepare\(\) comes first"):
        _ = engine.prepared


PER_DEVICE = ("emogi", "gunrock", "lonestar", "onyx", "scaph", "simdx", "tigr")
ORDERS = (None, "supersteps", "near_far", "hooking")  # of Onyx


@pytest.mark.parametrize("last", range(3))
@pytest.mark.parametrize("name", PER_DEVICE)
def test_every_engine_that_was_created_is_closed_whichever_was_prepared_last(name, last, monkeypatch):
    """Engines of several devices and orders, of which one, or none, is prepared."""
    engine, made = new_engine(name), []
    cls = type(engine)
    monkeypatch.setattr(cls, "_new", lambda self, _: made.append(Inner()) or made[-1])
    created = [engine.on(Device(kind)) for kind in engine.engines]
    if name == "onyx":
        created += [engine._ordered.setdefault(order, Inner()) for order in ORDERS[1:]]
    assert all(engine.on(Device(kind)) is one for kind, one in zip(engine.engines, made, strict=True))
    if last < len(created):
        engine._prepared = created[last]
    engine.close()
    assert [one.calls for one in created] == [[("close",)]] * len(created)


@pytest.mark.parametrize(("most", "begins"), [(5, True), (4.9, False), (0, False), (6, True)])
def test_a_pull_begins_with_stale_vertices_of_few_in_edges(most, begins):
    latest, begun = LatestGather(), []
    run = SimpleNamespace(
        store=SimpleNamespace(graph=SimpleNamespace(in_degrees=np.array([4, 100, 1]))),
        begin_with=lambda stale, senders: begun.append((stale.tolist(), senders.tolist())), own=lambda kind: latest,
    )  # fmt: skip
    stale = np.array([True, False, True])
    StaleOnly(most).begin(run, stale, np.ones(3, np.bool_))
    assert begun == ([([True, False, True], [False] * 3)] if begins else [])
    assert latest.some is begins


def test_hooking_on_a_gpu_explains_and_counts_its_launches():
    engine = HookingCudaEngine(OnyxSchedule(hooking=True))
    graph = problem("components", "grid", 1)[0]
    engine.generate(program("components"), graph, 1, None)
    assert engine.operations(RunStatistics(settled=True)).launches == RUN == 8
    explained = engine.explain()
    assert explained.startswith("schedule OnyxSchedule(hooking=True)\nhooking and pointer jumping: no supersteps.")
    assert "Every vertex of a component gets the least label in it" in explained
    assert explained.endswith(engine.source())
    engine.generate(program("components"), problem("components", "no edges", 1)[0], 1, None)
    assert engine.operations(RunStatistics(settled=True)).launches == 8
    assert engine.resolved_options() == {"hooking": True}

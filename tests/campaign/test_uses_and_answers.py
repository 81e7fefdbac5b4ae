"""Warm runs beside cold ones, the use of a device by calls of an engine, and checks of an engine's arrays."""

from __future__ import annotations

import contextlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import device_use, warm_cell
from harness.campaign.child_report import ChildReport
from harness.campaign.device_use import DeviceUse, memory_parts_for
from harness.campaign.guarded_engine import GuardedEngine, guarded
from harness.campaign.warm_cell import compare_cold, not_settled
from harness.contract import Device, Engine, Operations, Phases, RunStatistics
from harness.records.outcome import Outcome


def told(file):
    return [json.loads(line) for line in file.getvalue().splitlines()]


WARM = SimpleNamespace(change=0.1, kind="delete", seed=3)
START = SimpleNamespace(summary="warm, 2 vertices reset", restarted=False, vertices_reset=2, edges_examined=9)
PROBLEM = SimpleNamespace(start=START, max_supersteps=50)
COLD = SimpleNamespace(
    values={},
    timing=SimpleNamespace(
        statistics=SimpleNamespace(settled=True, supersteps=[1, 2, 3]),
        plain=lambda: {"median": 1.0},
        supersteps=lambda: [[1, 2, "push"]],
    ),
)


def cold_report(monkeypatch, cold=COLD, *, settled=True, outcome=(Outcome.OK, "", {"validation": {"ok": True}})):
    file, asked = io.BytesIO(), {}

    def verdict(cell, problem, values, **given):
        asked.update(given)
        return outcome

    monkeypatch.setattr(warm_cell, "verdict", verdict)
    done = compare_cold(SimpleNamespace(warm=WARM), PROBLEM, cold, ChildReport(file), settled=settled)
    return done, told(file), asked


def test_a_warm_run_is_recorded_beside_the_cold_one(monkeypatch):
    done, messages, asked = cold_report(monkeypatch)
    assert (done, asked) == (True, {"settled": True, "supersteps": 3})
    assert messages[0] == {"stage": "validate the cold run"}
    assert messages[1] == {
        "warm": {
            "change": 0.1,
            "kind": "delete",
            "seed": 3,
            "start": "warm, 2 vertices reset",
            "restarted": False,
            "vertices_reset": 2,
            "edges_examined": 9,
            "cold": {"median": 1.0},
            "cold_supersteps": [[1, 2, "push"]],
            "cold_validation": {"ok": True},
        }
    }


def test_runs_that_did_not_settle_or_are_wrong_are_not_compared(monkeypatch):
    rest = "has not settled in 50 supersteps; warm and cold answers are compared only if both have; raise the limit of "
    rest += "supersteps, or choose a program that settles"
    unsettled = SimpleNamespace(values={}, timing=SimpleNamespace(statistics=SimpleNamespace(settled=False)))
    done, messages, _ = cold_report(monkeypatch, unsettled)
    assert (done, messages[-1]) == (False, {"outcome": "invalid_input", "reason": f"the cold run {rest}"})
    done, messages, _ = cold_report(monkeypatch, settled=False)
    assert (done, messages[-1]) == (False, {"outcome": "invalid_input", "reason": f"the warm run {rest}"})
    assert not_settled("the run", PROBLEM) == f"the run {rest}"
    done, messages, _ = cold_report(monkeypatch, outcome=(Outcome.WRONG, "off by 3", {}))
    assert (done, messages[-1]) == (False, {"outcome": "wrong", "reason": "the cold run: off by 3"})


GPU = Device("cuda")


@pytest.fixture
def use(monkeypatch):
    """Return a function that makes the use of a device, and the calls that it makes."""
    calls = []

    @contextlib.contextmanager
    def device_lock(device, holder, limit_s, *, shared):
        calls.append(("shared" if shared else "alone", holder, limit_s))
        yield
        calls.append("free")

    monkeypatch.setattr(device_use, "device_lock", device_lock)
    monkeypatch.setattr(device_use, "device_holder", lambda device: "process 7")
    monkeypatch.setattr(device_use, "was_opened", lambda index: False)
    monkeypatch.setattr(device_use, "take_memory_parts", lambda device, wanted, held: calls.append(wanted))
    monkeypatch.setattr(device_use, "memory_parts_for", lambda size, device: size)

    def make(device):
        file = io.BytesIO()
        cell = SimpleNamespace(device=device, title="the cell", limits=SimpleNamespace(time_s=60.0))
        made = DeviceUse(cell, ChildReport(file), Phases())
        return made, calls, file

    return make


SHARED, ALONE, FREE = ("shared", "the cell", 60.0), ("alone", "the cell", 60.0), "free"


def test_a_gpu_is_shared_but_for_timed_runs(use):
    made, calls, file = use(GPU)
    with made.shared():
        with made.shared():
            assert calls == [SHARED]
        with made.alone():
            assert calls == [SHARED, FREE, ALONE]
            with made.alone(), made.shared(), made.away():
                assert calls == [SHARED, FREE, ALONE]
        assert calls == [SHARED, FREE, ALONE, FREE, SHARED]
        with made.away():
            assert calls == [SHARED, FREE, ALONE, FREE, SHARED, FREE]
        assert calls[6:] == [SHARED]
    assert calls[7:] == [FREE]
    with made.away():
        assert len(calls) == 8
    messages = told(file)
    assert [one.get("behind") for one in messages[::2]] == ["process 7"] * 4
    assert all("waited" in one for one in messages[1::2])
    assert made._phases.seconds["wait"] == messages[-1]["waited"]


def test_a_cpu_is_used_alone_only(use):
    made, calls, _ = use(Device("cpu"))
    with made.shared(), made.away():
        assert calls == []
    with made.alone(), made.shared():
        assert calls == [ALONE]
    assert calls == [ALONE, FREE]
    with made.reserved_memory(100) as whole:
        assert whole is True
    assert calls == [ALONE, FREE]


def test_memory_of_a_gpu_is_reserved_with_room_for_rounding_and_trying(use):
    made, calls, _ = use(GPU)
    for needed, tunes, parts in ((10, False, 11.0), (10, True, 30.0), (None, False, device_use.MEMORY_PARTS)):
        with made.reserved_memory(needed, tunes=tunes) as whole:
            assert whole == (needed is None)
        assert calls.pop() == pytest.approx(parts)


def test_parts_of_memory_cover_the_bytes_and_a_context(monkeypatch):
    from harness.device import driver

    whole = device_use.MEMORY_PARTS << 30
    monkeypatch.setattr(driver, "describe", lambda index: SimpleNamespace(memory=whole))
    assert [memory_parts_for(size, GPU) for size in (0, 1, 1 << 30, (1 << 30) + 1, whole)] == [
        1,
        2,
        2,
        3,
        device_use.MEMORY_PARTS,
    ]


class Plain(Engine):
    """An engine whose answers are its attributes."""

    def __init__(self, **answers):
        super().__init__(None)
        self.answers, self.calls = answers, []

    def __getattribute__(self, name):
        answers = object.__getattribute__(self, "__dict__").get("answers", {})
        if name in answers:
            return lambda *given: self.calls.append((name, given)) or answers[name]
        return object.__getattribute__(self, name)


Plain.__abstractmethods__ = frozenset()


def test_operations_are_counts():
    statistics = RunStatistics(True)
    engine = Plain(operations=Operations(np.int64(3), 4, 1))
    assert GuardedEngine(engine).operations(statistics) == Operations(3, 4, True)
    assert engine.calls == [("operations", (statistics,))]
    for answer, message in (
        ((1, 2), "operations() is (1, 2) of type tuple; it must be an Operations"),
        (Operations(-1, 0, False), "operations(): launches is -1 of type int; it must be an integer from 0 to"),
        (Operations(0, 0.5, False), "operations(): adds is 0.5 of type float; it must be an integer from 0 to"),
    ):
        with pytest.raises(TypeError) as met:
            GuardedEngine(Plain(operations=answer)).operations(statistics)
        assert str(met.value).startswith(message)


def test_an_engine_is_guarded_once_and_must_be_one():
    engine = GuardedEngine(Plain())
    assert guarded(engine) is engine
    assert isinstance(guarded(Plain()), GuardedEngine)
    with pytest.raises(
        TypeError, match="the factory's result is 3 of type int; it must be an instance of a subclass of"
    ):
        GuardedEngine(3)
    odd = Plain()
    odd.stepwise = "yes"
    with pytest.raises(TypeError, match="stepwise is 'yes' of type str; it must be a bool"):
        GuardedEngine(odd)


def test_values_on_the_device_are_none_or_device_arrays():
    assert GuardedEngine(Plain(device_values=None)).device_values("x") is None
    on_device = SimpleNamespace(__cuda_array_interface__={}, dtype=np.dtype(np.float32), shape=(3, 2))
    engine = GuardedEngine(Plain(device_values=on_device))
    assert engine.device_values("x") is on_device
    prop = SimpleNamespace(dtype="float", place="vertex", shape=())
    engine._problem = SimpleNamespace(properties={"x": prop}), SimpleNamespace(num_vertices=3, num_edges=9), 2
    with pytest.raises(
        TypeError,
        match=r"device_values\('x'\) is an array .* shape \(3, 2\); it must be of dtype float32 and shape \(3,\)",
    ):
        engine.device_values("x")
    with pytest.raises(
        TypeError, match=r"device_values\('x'\) is 3 of type int; it must be None, or an array with __cuda"
    ):
        GuardedEngine(Plain(device_values=3)).device_values("x")


@pytest.mark.parametrize(
    ("dtype", "shape", "met"),
    [
        ("float32", (3,), ""), ("torch.float32", (3,), ""), ("float64", (3,), "dtype float64 and shape (3,)"),
        ("torch.float64", (3,), "dtype float64 and shape (3,)"),
        ("torch.float32", (4,), "dtype float32 and shape (4,)"),
    ],
)  # fmt: skip
def test_values_on_the_device_may_be_of_any_library(dtype, shape, met):
    class Name(str):  # torch.dtype is no class of NumPy
        pass

    found = SimpleNamespace(__cuda_array_interface__={}, dtype=Name(dtype), shape=list(shape))
    engine = GuardedEngine(Plain(device_values=found))
    prop = SimpleNamespace(dtype="float", place="vertex", shape=())
    engine._problem = SimpleNamespace(properties={"x": prop}), SimpleNamespace(num_vertices=3, num_edges=9), 2
    if not met:
        assert engine.device_values("x") is found
        return
    with pytest.raises(TypeError) as refused:
        engine.device_values("x")
    wanted = "it must be of dtype float32 and shape (3,)"
    assert str(refused.value) == f"device_values('x') is an array of {met}; {wanted}"


def test_an_order_is_checked_once_the_program_is_known():
    order = {"step": np.array([1, 0])}
    engine = GuardedEngine(Plain(ordered_superstep=order))
    found = engine.ordered_superstep()
    assert found == order
    assert found is not order
    assert found["step"] is order["step"]
    with pytest.raises(TypeError, match="it must be a mapping of names of steps to orders of edges"):
        GuardedEngine(Plain(ordered_superstep=[0, 1])).ordered_superstep()


@pytest.mark.parametrize(
    ("place", "dtype", "shape", "rows", "good"),
    [
        ("vertex", "float", (), None, np.zeros(3, np.float32)),
        ("edge", "float", (2,), None, np.zeros((5, 2), np.float32)),
        ("graph", "bool", (), None, np.zeros((), np.bool_)),
        ("vertex", "float", (), 2, np.zeros(2, np.float32)),
    ],
)
def test_arrays_have_the_declared_kind_and_shape(place, dtype, shape, rows, good):
    engine = GuardedEngine(Plain(values=good, rows=good))
    prop = SimpleNamespace(dtype=dtype, place=place, shape=shape)
    engine._problem = SimpleNamespace(properties={"x": prop}), SimpleNamespace(num_vertices=3, num_edges=5), 4
    read = (lambda: engine.values("x")) if rows is None else (lambda: engine.rows("x", np.arange(rows)))
    assert read() is good
    for bad in (good.astype(np.float64), np.zeros((7, *good.shape), good.dtype), np.ma.array(good).astype(np.int8)):
        engine._engine.answers.update(values=bad, rows=bad)
        with pytest.raises(TypeError, match=f"it must be of dtype {good.dtype} and shape"):
            read()
    engine._engine.answers.update(values=good.tolist(), rows=good.tolist())
    with pytest.raises(TypeError, match="it must be a NumPy array"):
        read()


def test_the_key_of_a_changed_problem_has_the_change_its_kind_and_its_seed():
    others = ({"change": 0.2}, {"kind": "insert"}, {"seed": 4})
    changes = [WARM, *(SimpleNamespace(**{**vars(WARM), **other}) for other in others)]
    keys = {warm_cell.changed_key(SimpleNamespace(key=key), warm) for key in "ab" for warm in changes}
    assert len(keys) == 8

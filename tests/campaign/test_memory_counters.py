"""Memory transactions in the records of a sweep."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from harness.campaign import memory_counters, ncu_child
from harness.campaign.cell import resolve_cell
from harness.campaign.preflight import profiler_refusal
from harness.contract import No, Yes
from harness.plugins import load_plugins
from harness.records import read_records
from harness.transactions.profiler import ProfilerError
from tests.campaign.test_cell import config

CELL = ("algorithm=label_propagation", "algorithm.seeds=random", "graph=rmat", "graph.scale=7", "features=8")


def test_the_model_is_in_the_record_on_any_device(command_here, tmp_path):
    finished = command_here(*CELL, "engine=tigr,scipy", "baseline=scipy", "max_supersteps=2", "memory=model")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = {record["config"]["engine"]: record for _, record in read_records(tmp_path / "results")}
    memory = found["tigr"]["memory"]
    assert (memory["counters"], memory["reason"]) == (None, "")
    assert memory["model"]["source"] == "model"
    assert 0 < memory["model"]["load_efficiency"] < 1
    assert memory["model"]["atomics"]["transactions"] > 8 * found["tigr"]["graph"]["edges"] / 32
    assert "spread" in memory["model"]["kernels"]
    assert found["scipy"]["memory"]["model"] is None
    assert "no model: the engine has no kernels whose accesses can be counted" in found["scipy"]["memory"]["reason"]
    assert found["tigr"]["phases"]["memory"] > 0


def test_a_profiler_that_is_missing_refuses_the_cell(monkeypatch, tmp_path):
    chosen = config(
        engine={"name": "onyx"}, algorithm={"name": "label_propagation"}, graph={"name": "rmat"},
        device={"kind": "cuda", "index": 0, "threads": 1}, memory="counters",
    )  # fmt: skip
    cell = resolve_cell(chosen, load_plugins(()))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "need ncu" in profiler_refusal(cell)


def test_only_one_superstep_is_counted(monkeypatch):
    calls = []

    class Noting:
        def __getattr__(self, name):
            return lambda *given: calls.append((name, *given) if name == "run" else (name,))

    @contextmanager
    def counted_run(boundary):
        calls.append(("begin",))
        yield
        calls.append(("end",))

    spec = SimpleNamespace(factory="made")
    monkeypatch.setattr(ncu_child, "load_plugins", lambda _: SimpleNamespace(engine=lambda _: spec))
    monkeypatch.setattr(ncu_child, "load", lambda _: lambda _: Noting())
    monkeypatch.setattr(ncu_child, "schedule_from_options", lambda *_: None)
    monkeypatch.setattr(ncu_child, "counted_run", counted_run)
    cell = SimpleNamespace(block=(), engine="made", schedule={}, device=None)
    ncu_child._run_profiled(cell, SimpleNamespace(program=None, graph=None, features=1, inputs=None))
    assert calls == [("prepare",), ("reset",), ("begin",), ("run", 1), ("end",), ("close",)]


MODEL = SimpleNamespace(plain=lambda: {"source": "model"})
COUNTERS = SimpleNamespace(plain=lambda: {"source": "counters"})


class Modelled:
    """An engine whose model is given, or raises it; notes that it was closed."""

    def __init__(self, model):
        self.model, self.closed = model, 0

    def memory_model(self, *_):
        if isinstance(self.model, BaseException):
            raise self.model
        return self.model

    def close(self):
        self.closed += 1


@pytest.mark.parametrize(
    ("requested", "model", "counted", "found"),
    [
        ("model", MODEL, None, {"model": {"source": "model"}, "counters": None, "reason": ""}),
        ("counters", MODEL, [COUNTERS], {"model": {"source": "model"}, "counters": {"source": "counters"},
                                         "reason": ""}),
        ("model", No("it has no kernels"), None, {"model": None, "counters": None,
                                                  "reason": "no model: it has no kernels"}),
        ("counters", ValueError("odd"), ProfilerError("no permission"),
         {"model": None, "counters": None, "reason": "no model: ValueError: odd; no counters: no permission"}),
        ("counters", SystemExit(3), [COUNTERS], {"model": None, "counters": {"source": "counters"},
                                                 "reason": "no model: SystemExit: 3"}),
    ],
)  # fmt: skip
def test_what_is_missing_has_its_reason(monkeypatch, requested, model, counted, found):
    engine, asked = Modelled(model), []
    monkeypatch.setattr(memory_counters, "load", lambda _: lambda _: engine)
    monkeypatch.setattr(memory_counters, "schedule_from_options", lambda *_: None)
    monkeypatch.setattr(memory_counters, "GuardedEngine", lambda made: made)

    class Used:
        def __init__(self, *_):
            pass

        def reserved_memory(self, needed):
            asked.append(("memory", needed))
            return nullcontext()

        def alone(self):
            asked.append("alone")
            return nullcontext()

    def counting(cells, folder, timeout_s):
        asked.append((cells, folder, timeout_s))
        if isinstance(counted, BaseException):
            raise counted
        return counted

    monkeypatch.setattr(memory_counters, "DeviceUse", Used)
    monkeypatch.setattr(memory_counters, "counted", counting)
    cell = SimpleNamespace(memory=requested, schedule={}, limits=SimpleNamespace(time_s=7.0))
    problem = SimpleNamespace(program=None, graph=None, features=1, inputs=None)
    spec = SimpleNamespace(factory="made")
    assert memory_counters.memory_of(spec, cell, problem, None, None, "folder") == found
    assert asked == ([("memory", None), "alone", ([cell], "folder", 7.0)] if requested == "counters" else [])
    assert engine.closed == 1


def test_a_run_that_is_no_superstep_is_not_counted_as_one(monkeypatch):
    def counts(*_):
        raise AssertionError("a whole run is counted")

    monkeypatch.setattr(memory_counters, "answer_of", lambda *_: Yes(1, stepwise=False))
    for name in ("load", "counted"):
        monkeypatch.setattr(memory_counters, name, counts)
    cell = SimpleNamespace(memory="counters", engine="whole", schedule={})
    found = memory_counters.memory_of(SimpleNamespace(factory="made"), cell, None, None, None, "folder")
    reason = "memory transactions are counted for a superstep, and engine 'whole' solves the whole problem"
    assert found == {"model": None, "counters": None, "reason": reason}


def test_memory_that_runs_out_in_a_model_is_the_cells(monkeypatch):
    engine = Modelled(MemoryError())
    monkeypatch.setattr(memory_counters, "load", lambda _: lambda _: engine)
    monkeypatch.setattr(memory_counters, "schedule_from_options", lambda *_: None)
    monkeypatch.setattr(memory_counters, "GuardedEngine", lambda made: made)
    cell = SimpleNamespace(memory="model", schedule={})
    problem = SimpleNamespace(program=None, graph=None, features=1, inputs=None)
    with pytest.raises(MemoryError):
        memory_counters.memory_of(SimpleNamespace(factory="made"), cell, problem, None, None, "folder")
    assert engine.closed == 1


def test_cells_of_one_problem_share_it_under_the_profiler(monkeypatch, tmp_path):
    registry = load_plugins(())
    cells = [
        resolve_cell(
            config(engine={"name": engine}, algorithm={"name": "bfs"}, graph={"name": "grid", "rows": rows}), registry
        )
        for engine, rows in (("onyx", 3), ("tigr", 3), ("onyx", 4), ("onyx", 3))
    ]
    posed, ran, profiled = [], [], []
    monkeypatch.setattr(ncu_child, "set_problem", lambda cell, *_: posed.append(cell) or f"problem {len(posed)}")
    monkeypatch.setattr(ncu_child, "_run_profiled", lambda cell, problem: ran.append((cell, problem)))
    monkeypatch.setattr(ncu_child, "profile", lambda *given: profiled.append(given) or ["counted"])
    assert ncu_child.counted(cells, tmp_path, 5.0) == ["counted"]
    [(command, log, timeout_s)] = profiled
    assert command[1:3] == ["-m", "harness.campaign.ncu_child"]
    assert (log, timeout_s) == (tmp_path / "profiler.csv", 5.0)
    assert ncu_child.main(command[3:]) == 0
    assert posed == [cells[0], cells[2], cells[3]]  # the last problem is kept, and no other
    assert ran == list(zip(cells, ["problem 1", "problem 1", "problem 2", "problem 3"], strict=True))

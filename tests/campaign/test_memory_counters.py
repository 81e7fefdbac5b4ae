"""Memory transactions in the records of a sweep."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

from harness.campaign import ncu_child
from harness.campaign.cell import resolve_cell
from harness.campaign.preflight import profiler_refusal
from harness.plugins import load_plugins
from harness.records import read_records
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

"""Engines that write to their inputs affect neither their own outcome nor a cached reference."""

from __future__ import annotations

import ctypes
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from harness.cache import cache_folder
from harness.campaign import child, job
from harness.campaign.cell import Limits
from harness.campaign.child_report import ChildReport, parse_report
from harness.campaign.process import Ending
from harness.contract import Device
from harness.language import K
from harness.records.outcome import Outcome
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.campaign.test_guarded_engine import Right


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))


class Writes(Right):
    """Sets the initial value of every vertex to 1 in the caller's array."""

    def reset(self, inputs, state=None):
        inputs.properties["start"][...] = 1
        super().reset(inputs, state)


class ForcesWriteability(Right):
    def reset(self, inputs, state=None):
        inputs.properties["start"].setflags(write=True)
        inputs.properties["start"][...] = 1
        super().reset(inputs, state)


class Replaces(Right):
    def reset(self, inputs, state=None):
        inputs.properties["start"] = np.ones_like(inputs.properties["start"])
        super().reset(inputs, state)


def overwrite(array):
    """Write ones through a pointer."""
    source = np.ones(array.size, array.dtype)
    ctypes.memmove(array.ctypes.data, source.ctypes.data, array.nbytes)


class WritesThroughPointer(Right):
    def reset(self, inputs, state=None):
        overwrite(inputs.properties["start"])
        super().reset(inputs, state)


class WritesToGraph(Right):
    """Writes to the graph's file, the only way to change a read-only mapping."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        for path in (cache_folder() / "graphs").rglob("*.npy"):
            array = np.load(path, mmap_mode="r+")
            if array.dtype == np.float32:
                array[...] = 7


ERRORS = {
    Writes: "ValueError: assignment destination is read-only",
    ForcesWriteability: "ValueError: cannot set WRITEABLE flag to True of this array",
    Replaces: "TypeError: 'mappingproxy' object does not support item assignment",
    WritesThroughPointer: "InputsChanged: the engine wrote to input start; an engine may only read",
    WritesToGraph: "InputsChanged: the engine wrote to graph weights, graph csc.weights; an engine may only read",
}


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("engine", ERRORS, ids=lambda engine: engine.__name__)
def test_an_engine_that_writes_to_its_inputs_is_an_engine_error(record_of, engine, caplog):  # noqa: F811
    record = record_of(engine)
    assert record["outcome"] == "engine_error"
    assert ERRORS[engine] in record["reason"]
    after = record_of(Right)
    assert (after["outcome"], after["reason"]) == ("ok", "")
    assert 0 < after["validation"]["error"] < 1e-6
    assert ("building it again" in caplog.text) == (engine is WritesToGraph)


def test_the_reference_comes_from_a_process_that_the_engine_never_touched(record_of):  # noqa: F811
    """An engine that replaces the reference in its own process and environment is still compared with the real one."""

    class Fakes(Right):
        def prepare(self, program, graph, features, device, phases):
            super().prepare(program, graph, features, device, phases)
            from harness.campaign import reference

            def answer(problem):
                raise AssertionError("the reference was computed in the engine's process")

            self.kept = reference._reference, dict(os.environ), os.getcwd()
            reference._reference = answer
            os.environ.clear()
            os.chdir("/")

        def close(self):
            from harness.campaign import reference

            reference._reference = self.kept[0]
            os.environ.update(PATH=self.kept[1]["PATH"], ONYX_HARNESS_CACHE=self.kept[1]["ONYX_HARNESS_CACHE"])

    before, folder = dict(os.environ), os.getcwd()
    try:
        record = record_of(Fakes)
    finally:
        os.environ.update(before)
        os.chdir(folder)
    assert (record["outcome"], record["reason"]) == ("ok", "")


def test_a_damaged_reference_is_computed_again_and_said_so(record_of, caplog):  # noqa: F811
    first = record_of(Right)
    assert first["validation"]["against"] == "the float64 reference"
    [answer] = [path for path in (cache_folder() / "references").rglob("answer.json") if "-" not in path.parent.name]
    array = answer.with_name("values-0.npy")
    damages = {
        "values": lambda: np.load(array, mmap_mode="r+").__setitem__(0, 9),
        "method": lambda: answer.write_text("{"),
        "missing": array.unlink,
        "shape": lambda: np.save(array, np.zeros(3)),
    }
    for damage, inflict in damages.items():
        caplog.clear()
        inflict()
        second = record_of(Right)
        assert (second["outcome"], second["validation"]["error"]) == ("ok", first["validation"]["error"]), damage
        method = "the float64 reference (computed again, as the cached one was damaged)"
        assert second["validation"]["against"] == method, damage
        assert "the reference is computed again" in caplog.text, damage
        assert record_of(Right)["validation"]["against"] == "the float64 reference", damage


def converging(self, p):
    """Build a program with a tolerance, whose converged reference is computed before the engine runs."""
    p.vertex("start", K)
    p.vertex("x", K, start="start")

    @p.over_vertices
    def halve(v):
        return {"x": 0.5 * v.x + v.start}

    p.until_settled(self.scale, at_most=50)
    p.output("x", bound=1e-2)


@pytest.mark.parametrize("build", [None, converging], ids=["fixed", "converging"])
def test_an_algorithm_whose_inputs_differ_each_time_is_named(record_of, monkeypatch, build):  # noqa: F811
    shutil.rmtree(cache_folder(), ignore_errors=True)
    from onyx_fakes_problem import Spread

    from harness.language import Inputs

    def inputs(self, graph, features):
        start = np.full((graph.num_vertices, features), os.getpid(), np.float32)
        return Inputs({"start": start}, self.parameter_values())

    monkeypatch.setattr(Spread, "inputs", inputs)
    monkeypatch.setattr(Spread, "build", build or Spread.build)
    record = record_of(Right)
    assert record["outcome"] == "invalid_input"
    assert (
        "algorithm 'fake_spread' gives a different problem each time; derive random values from a seed"
        in record["reason"]
    )


def test_the_reason_of_a_timeout_names_the_plugin_whose_import_hangs(monkeypatch, tmp_path):
    class Hanging(BaseException):
        """Substitutes for the exit of a hanging process."""

    def load_plugins(block, importing):
        importing("sleepy")
        raise Hanging

    monkeypatch.setattr(child, "load_plugins", load_plugins)
    cell = SimpleNamespace(block=(), limits=Limits(time_s=7), device=Device("cpu", threads=1))
    with (tmp_path / "report.jsonl").open("w+b", buffering=0) as file:
        with pytest.raises(Hanging):
            child.run_cell(cell, ChildReport(file), tmp_path, 0)
        file.seek(0)
        fields, damaged = parse_report(file)
    killed = Ending(-9, Outcome.TIMEOUT, 7.0, 0)
    found = job._concluded(fields, killed, SimpleNamespace(cell=cell), damaged=damaged)
    assert found["outcome"] == "timeout"
    assert "not finished after 7 s, in stage 'import of plugin sleepy'" in found["reason"]

"""The use of a device by a cell, exclusive or beside other cells: on a GPU only timed parts are exclusive."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import resource
from collections import Counter
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from harness.campaign import child, device_use, engine_work, gpu, judgement, memory_counters, sampled_check, warm_cell
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import ChildReport, read_report, waited_s
from harness.campaign.device_use import DeviceUse
from harness.contract import Device, Phases, Yes
from harness.device import driver
from harness.device.driver import CudaDevice
from harness.plugins import load_plugins
from harness.transactions.profiler import ProfilerError
from tests.campaign.test_cell import config
from tests.conftest import FAKES

GIGABYTE = 1 << 30
GPU_BYTES = 80 * GIGABYTE
VERTICES, SAMPLED = 20_000, 257  # of a path; sampled are its start and 256 others
DEVICES = {"cpu": "fake_right", "cuda": "fake_cuda"}
TIMED_RUNS = ["reset", "run", "values"]  # the answer is read after each
RUNS_ON_OTHER_INPUTS = ["reset", "run", "values", "run"]
WARM_RUNS = ["reset", "narrow", "run", "reset", "narrow", "run", "values"]
COLD_AND_WARM = ["reset", "run", *TIMED_RUNS, *WARM_RUNS]


def shared(*events):
    """Return calls of an engine beside other cells, all under one lock."""
    return ["shared", *events, "rest", "idle"]


def alone(*events):
    return ["alone", *events, "rest", "idle"]


WARM = {"change": 0.05, "kind": "insert", "seed": 1}


@pytest.fixture
def events(registry, monkeypatch):
    """Return the events in order, with repetitions collapsed and the GPU's name normalised."""
    seen = []
    held = []

    def tell(event):
        if seen[-1:] != [event]:
            seen.append(event)

    @contextmanager
    def lock_of_device(*_, shared=False):
        assert not held, "nested locks would wait forever"
        held.append("shared" if shared else "alone")
        tell(held[0])
        try:
            yield
        finally:
            held.clear()
            tell("idle")

    def take(device, wanted, locks):
        assert not held, "a cell that waits for memory holds no lock"
        seen.append("all memory" if wanted == device_use.MEMORY_PARTS else "reserved")
        locks.callback(seen.append, "out")

    @contextmanager
    def memory(cell, _):
        if cell.device.kind == "cpu":
            yield
            return
        assert held, "a context on a GPU is created under a lock"
        tell("context")
        yield

    def note(owner, name, event):
        inner = getattr(owner, name)

        def noted(*arguments, **named):
            tell(event)
            return inner(*arguments, **named)

        monkeypatch.setattr(owner, name, noted)

    import onyx_fakes_engines

    monkeypatch.setattr(driver, "describe", lambda _: CudaDevice(0, "A GPU", "GPU-0102", GPU_BYTES, "9.0"))
    monkeypatch.setattr(child, "device_refusal", lambda _: "")
    monkeypatch.setattr(child, "profiler_refusal", lambda _: "")
    monkeypatch.setattr(engine_work, "device_memory", memory)
    monkeypatch.setattr(engine_work, "synchronizing", lambda engine, _: engine)
    monkeypatch.setattr(gpu, "gpu_facts", lambda *_: None)
    monkeypatch.setattr(device_use, "device_lock", lock_of_device)
    monkeypatch.setattr(device_use, "take_memory_parts", take)
    monkeypatch.setattr(device_use, "rest", lambda _: tell("rest"))
    monkeypatch.setattr(device_use, "was_opened", lambda _: True)
    for name in ("build", "prepare", "reset", "narrow", "run", "values", "rows", "close"):
        note(onyx_fakes_engines.Right, name, name)
    note(engine_work, "memory_refusal", "admitted")
    note(warm_cell, "change_graph", "changed")
    note(warm_cell, "warm_start", "start")
    note(sampled_check, "sample_for", "sample")
    for module in (judgement, warm_cell):
        note(module, "verdict", "judged")
    return seen


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.syspath_prepend(str(FAKES))
    # The process that computes references imports the same plugins.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]))
    plugins = {"fakes": "onyx_fakes", "algorithms": "harness.algorithms"}
    return load_plugins(found=[EntryPoint(name, value, "onyx_harness") for name, value in plugins.items()])


@pytest.fixture
def steady(monkeypatch):
    """Replace the clock: every reading is 10 us after the one before, however busy the machine is.

    Runs, resets and readings of answers then take equally long, so that none is repeated as implausibly slow.
    """
    readings = itertools.count()
    monkeypatch.setattr("harness.clock.perf_counter", lambda: next(readings) * 1e-5)


@pytest.fixture
def ran(registry, events, steady, tmp_path, monkeypatch):
    """Run a cell in this process, by a steady clock; return its report and the events."""
    monkeypatch.setattr(child, "load_plugins", lambda *_, **__: registry)

    def run(kind, repetitions=1, **changes):
        device = {"kind": kind, "index": 0, "threads": 1}
        cell = resolve_cell(config(engine__name=DEVICES[kind], device=device, **changes), registry)
        cell = dataclasses.replace(
            cell, measure=dataclasses.replace(cell.measure, repetitions=repetitions, budget_s=0.0)
        )
        with (tmp_path / "report").open("wb", buffering=0) as file:
            child._run(cell, ChildReport(file), tmp_path, GIGABYTE, Phases())
        return read_report(tmp_path / "report"), events

    return run


def test_on_a_gpu_only_timed_runs_are_exclusive(ran):
    fields, events = ran("cuda")
    assert fields["outcome"] == "ok", fields["reason"]
    before = ["sample", "admitted", "build", "reserved", *shared("context", "prepare", "reset")]
    timed = alone("reset", "run", *TIMED_RUNS)
    after = shared("values", "reset", "run", "values", "run", "close")
    assert events == [*before, *timed, *after, "out", "judged"]
    assert {"context", "upload", "warm_up", "reset", "read"} <= fields["phases"].keys()


ROWS = ["rows", "values"]  # the default of rows() reads all
IN_PARTS = ["reset", "run", *ROWS, "run", *ROWS, "run", *ROWS]  # superstep 1, those up to 9, and 10


def test_on_a_gpu_a_sampled_answer_is_read_beside_other_cells(ran, monkeypatch):
    monkeypatch.setattr("harness.campaign.plausibility.SAMPLED_BYTES", 0)
    fields, events = ran("cuda", validate="sampled")
    assert fields["outcome"] == "ok", fields["reason"]
    timed = alone("reset", "run", *ROWS, *IN_PARTS, "reset", "run", *ROWS)
    after = shared("values", "reset", "run", *ROWS, "run", "close")
    start = events.index("alone")
    assert events[start:] == [*timed, *after, "out", "judged"]


def test_the_only_timed_run_is_that_in_parts_if_runs_are_long(ran, monkeypatch):
    monkeypatch.setattr("harness.campaign.plausibility.SAMPLED_BYTES", 0)
    fields, events = ran("cuda", validate="sampled", measure={"cap_s": 1e-9, "repetitions": 6})
    assert fields["outcome"] == "ok", fields["reason"]
    assert len(fields["solve"]["samples"]) == 1
    assert fields["solve"]["samples"][0] > 0
    assert len(fields["supersteps"]) == 10, "those of all parts"
    assert fields["validation"]["against"].startswith("supersteps 1 and 10 in float64")
    timed = alone("reset", "run", *ROWS, *IN_PARTS, *ROWS)
    assert events[events.index("alone") :][: len(timed)] == timed


@pytest.fixture
def counted(ran, events, monkeypatch):
    """Return a function that runs a cell on a path of 20,000 vertices with sampled validation, and returns its fields
    and its engine's counts."""
    right = importlib.import_module("onyx_fakes_engines").Right
    made = Counter()
    given = {}

    def count(what, number=1):
        held = [event for event in events if event in ("alone", "idle")]
        made[what, "alone" if held[-1:] == ["alone"] else "shared"] += number

    reset, run, values = right.reset, right.run, right.values

    def reset_counted(self, inputs, state=None):
        new = {name: one for name, one in inputs.properties.items() if given.get(name) is not one}
        given.update(new)
        count("resets")
        count("bytes uploaded", sum(one.nbytes for one in new.values()))
        reset(self, inputs, state)

    def run_counted(self, most):
        found = run(self, most)
        count("supersteps", len(found.supersteps))
        return found

    def values_counted(self, name):
        found = values(self, name)
        count("bytes read", found.nbytes)
        return found

    def rows_counted(self, name, index):
        found = values(self, name)[index]
        count("bytes read", found.nbytes)
        return found

    for method in (reset_counted, run_counted, values_counted, rows_counted):
        monkeypatch.setattr(right, method.__name__.removesuffix("_counted"), method)

    def cell():
        fields, _ = ran("cuda", 3, validate="sampled", graph={"name": "fake_path", "vertices": VERTICES}, features=4)
        assert fields["outcome"] == "ok", fields["reason"]
        return fields, made

    return cell


def test_every_repetition_of_a_small_answer_is_read_whole(counted):
    fields, made = counted()
    in_parts = made["bytes read", "alone"] - len(fields["solve"]["samples"]) * 16 * VERTICES
    assert 0 < in_parts <= 4 * 16 * SAMPLED, "two supersteps of the sample, and what the last one reads"


def test_calls_of_a_cell_to_its_engine_exclusively_and_in_total(counted, monkeypatch):
    monkeypatch.setattr("harness.campaign.plausibility.SAMPLED_BYTES", 16 * VERTICES - 1)
    fields, made = counted()
    samples, steps, array = len(fields["solve"]["samples"]), 10, 16 * VERTICES
    sample = 16 * SAMPLED
    # before: uploads of the inputs; alone: warm-up, the run in parts and timed runs; after: 1 + 15 on other inputs
    assert made["resets", "shared"] == 2
    assert made["resets", "alone"] == 2 + samples
    assert made["bytes uploaded", "shared"] == 2 * array
    assert made["bytes uploaded", "alone"] == 0
    assert made["supersteps", "alone"] <= steps * (2 + samples)
    assert made["supersteps", "shared"] <= steps
    # alone, of the sample: superstep 1, what the last one reads, its results, and every timed answer
    assert (4 + samples) * sample < made["bytes read", "alone"] <= (5 + samples) * sample
    # the answer once; of the sample: superstep 1 on other inputs
    assert array < made["bytes read", "shared"] <= array + sample


def test_an_engine_that_tunes_is_alone_for_that(ran, events, monkeypatch):
    prepare = importlib.import_module("onyx_fakes_engines").Right.prepare

    def tuned(self, program, graph, features, device, phases):
        prepare(self, program, graph, features, device, phases)
        with phases.alone("tune"):
            events.append("tuned")

    monkeypatch.setattr("onyx_fakes_engines.Right.prepare", tuned)
    monkeypatch.setattr("onyx_fakes_engines.Right.tunes", True)
    monkeypatch.setattr("onyx_fakes_engines.Right.supports", lambda *_: Yes(GPU_BYTES // 2))
    fields, _ = ran("cuda")
    assert events[3] == "all memory", "a way may need memory that the engine did not foresee"
    assert events[4:][:13] == [*shared("context", "prepare"), *alone("tuned"), "shared", "reset", "rest", "idle"]
    assert fields["phases"]["tune"] >= 0


def test_an_engine_that_needs_a_gpus_memory_has_it_exclusively(ran, monkeypatch):
    monkeypatch.setattr("onyx_fakes_engines.Right.supports", lambda *_: Yes(GPU_BYTES - 1))
    fields, events = ran("cuda")
    assert fields["outcome"] == "ok", fields["reason"]
    assert "all memory" in events


@pytest.mark.parametrize(("gigabytes", "parts"), [(0, 1), (3.9, 1), (4.1, 2), (40, 9), (80, 16), (1000, 16)])
def test_reservations_are_equal_parts_of_the_memory(events, gigabytes, parts):
    assert device_use.memory_parts_for(gigabytes * GIGABYTE, Device("cuda")) == parts


def test_memory_that_others_may_hold_is_requested_again_exclusively(ran, events, monkeypatch):
    prepare = importlib.import_module("onyx_fakes_engines").Right.prepare

    def fails_beside_others(self, *arguments):
        if "all memory" not in events:
            raise MemoryError("no room for 8 arrays")
        prepare(self, *arguments)

    monkeypatch.setattr("onyx_fakes_engines.Right.prepare", fails_beside_others)
    fields, events = ran("cuda")
    assert fields["outcome"] == "ok", fields["reason"]
    again = ["out", "admitted", "build", "all memory"]
    expected = ["admitted", "build", "reserved", *again, "out"]
    assert [event for event in events if event in ("reserved", *again)] == expected


def test_memory_that_no_other_process_has_is_not_requested_again(ran, monkeypatch):
    def fails(*_):
        raise MemoryError("no room for 8 arrays")

    monkeypatch.setattr("onyx_fakes_engines.Right.supports", lambda *_: Yes(GPU_BYTES - 1))
    monkeypatch.setattr("onyx_fakes_engines.Right.run", fails)
    with pytest.raises(MemoryError):
        ran("cuda")


def test_a_process_that_never_opened_a_gpu_does_not_rest_there(ran, monkeypatch):
    monkeypatch.setattr(device_use, "was_opened", lambda _: False)
    _, events = ran("cuda")
    assert "rest" not in events


def test_on_the_processor_only_the_runs_have_a_lock(ran):
    fields, events = ran("cpu")
    assert fields["outcome"] == "ok", fields["reason"]
    runs = ["reset", "run", *TIMED_RUNS, *RUNS_ON_OTHER_INPUTS]
    assert {"context", "upload"}.isdisjoint(fields["phases"])
    assert events == ["sample", "admitted", "build", "prepare", "alone", *runs, "idle", "close", "judged"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cuda", ["prepare", "reset", "rest", "idle", *alone("reset"), *shared("close"), "out"]),
        ("cpu", ["prepare", "alone", "reset", "idle", "close"]),
    ],
)
def test_an_engine_that_fails_gives_its_device_back(ran, kind, expected, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr("onyx_fakes_engines.Right.run", fails)
    fields, events = ran(kind)
    assert fields["outcome"] == "engine_error"
    assert events[-len(expected) :] == expected


def test_an_engine_that_cannot_be_built_takes_nothing(ran, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr("onyx_fakes_engines.Right.build", fails)
    fields, events = ran("cuda")
    assert (fields["outcome"], fields["stage"]) == ("engine_error", "build")
    assert events == ["sample", "admitted", "close"]


def test_the_run_before_a_change_is_beside_other_cells_but_for_its_run(ran):
    settings = {"algorithm": {"name": "bfs"}, "graph": {"name": "fake_path", "vertices": 12}, "warm": WARM}
    fields, events = ran("cuda", **settings)
    assert fields["outcome"] == "ok", fields["reason"]
    begin = ["admitted", "build", "reserved"]
    before = [*begin, *shared("context", "prepare"), *alone("reset", "run"), *shared("values", "close"), "out"]
    warm = [*shared("context", "prepare", "reset", "narrow"), *alone(*COLD_AND_WARM)]
    timed = [*begin, *warm, *shared("values", "close"), "out"]
    assert events == ["changed", *before, "start", "sample", *timed, "judged"]


def test_the_run_before_a_change_has_the_processor_exclusively(ran):
    settings = {"algorithm": {"name": "bfs"}, "graph": {"name": "fake_path", "vertices": 12}, "warm": WARM}
    fields, events = ran("cpu", **settings)
    assert fields["outcome"] == "ok", fields["reason"]
    begin = ["admitted", "build", "prepare", "alone"]
    before = [*begin, "reset", "run", "idle", "values", "close"]
    timed = [*begin, *COLD_AND_WARM, "idle", "close"]
    assert events == ["changed", *before, "start", "sample", *timed, "judged"]


def test_counted_runs_have_the_gpu_and_its_memory_exclusively(ran, monkeypatch):
    def nothing(*_):
        raise ProfilerError("no counters here")

    monkeypatch.setattr(memory_counters, "counted", nothing)
    fields, events = ran("cuda", memory="counters")
    assert fields["outcome"] == "ok", fields["reason"]
    assert events[-6:] == ["out", "all memory", *alone(), "out", "judged"][-6:]


def test_waits_add_up_and_stages_resume(registry, tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    cell, path, phases = resolve_cell(config(), registry), tmp_path / "report", Phases()
    with path.open("wb", buffering=0) as file:
        report = ChildReport(file)
        use = DeviceUse(cell, report, phases)
        for stage in ("run before the change", "prepare"):
            report.stage(stage)
            with use.alone():
                fields = read_report(path)
                assert fields["stage"] == stage
                assert waited_s(fields) == phases.seconds["wait"] > 0


@pytest.mark.parametrize(("kind", "limits"), [("cpu", [(resource.RLIMIT_DATA, (700, 700))]), ("cuda", [])])
def test_allocations_beyond_the_limit_fail_at_once_unless_cuda_reserves_more(monkeypatch, kind, limits):
    made = []
    monkeypatch.setattr(child.resource, "setrlimit", lambda *given: made.append(given))
    child._limit_memory(SimpleNamespace(device=Device(kind)), 700)
    assert made == limits

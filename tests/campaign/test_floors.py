"""Floors of cells: the rates of a device are measured once and kept, and contradictions are marked."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.campaign import device_rates, floors, rates_process
from harness.campaign.device_rates import rates_of
from harness.campaign.floors import floor_fields
from harness.campaign.least_work import WORK
from harness.campaign.lock import device_lock_path, file_lock
from harness.contract import Device
from harness.device import cpu_rates
from harness.records import Mark, RecordError, read_records
from harness.records.floor import Rates
from tests.records.samples import solved

CPU = Device("cpu", threads=1)
# Everything comes from memory, at 1 kB/s.
SLOW = Rates(levels=[(0, 1e3), (0, 1e3)], on_chip=0, adds=None, wide_adds=None, launch=None)
FAST = {**SLOW, "levels": [(0, 1e9), (0, 1e9)]}


@pytest.fixture(autouse=True)
def cache(monkeypatch, fresh_cache):
    monkeypatch.setattr(floors, "_checked", set())
    monkeypatch.setattr(device_rates, "_failed", set())
    return fresh_cache / "rates"


@pytest.fixture
def measured(monkeypatch):
    """Return the measurements to come, in order; those taken are removed."""
    coming = []
    monkeypatch.setattr(device_rates, "_measured", lambda *_: coming.pop(0))
    return coming


class OnCpu:
    device = CPU


def fields(moved=(2000, 1000), outcome="ok", seconds=(1.0, 2.0), **changes):
    work = {"bytes": list(moved), "adds": 0, "wide": False, "launches": 0}
    reported = {"outcome": outcome, "solve": solved(list(seconds)), "marks": ["busy"], "gpu": None, WORK: work}
    return {**reported, **changes}


def test_rates_are_measured_once_for_a_device_and_number_of_threads(measured, cache):
    measured += [SLOW, FAST]
    assert [rates_of(CPU, None, {}), rates_of(CPU, None, {})] == [SLOW, SLOW]
    assert rates_of(Device("cpu", threads=2), None, {}) == FAST
    assert len(list(cache.glob("*.json"))) == 2


def test_rates_of_a_gpu_are_measured_again_under_another_driver(measured):
    gpu, measured[:] = {"uuid": "GPU-1", "driver": "570", "most_clock": 1980, "power_cap": 700.0}, [SLOW, FAST]
    device = Device("cuda")
    assert [rates_of(device, gpu, {}), rates_of(device, {**gpu, "temperature": 60}, {})] == [SLOW, SLOW]
    assert rates_of(device, {**gpu, "driver": "580"}, {}) == FAST
    assert rates_of(device, None, {}) is None


GPU = {"uuid": "GPU-1", "driver": "570", "most_clock": 1980, "power_cap": 700.0}


@pytest.mark.parametrize(
    ("part", "value"), [("uuid", "GPU-2"), ("driver", "580"), ("most_clock", 1755), ("power_cap", 350.0)]
)
def test_each_fact_of_a_gpu_has_rates_of_its_own(measured, part, value):
    measured += [SLOW, FAST]
    device, other = Device("cuda"), {**GPU, part: value}
    assert rates_of(device, GPU, {}) == SLOW
    assert rates_of(device, other, {}) == FAST
    assert [rates_of(device, GPU, {}), rates_of(device, other, {})] == [SLOW, FAST]


@pytest.mark.parametrize("part", ["cpu", "usable_cores", "caches", "layout"])
def test_each_fact_of_a_processor_has_rates_of_its_own(measured, monkeypatch, part):
    """A processor is known by its name, its usable cores and its caches; rates may also be measured differently."""
    facts = {"cpu": "a processor", "usable_cores": 4, "caches": ((1, 32_768),), "layout": 1}
    other = {**facts, part: {"cpu": "another", "usable_cores": 2, "caches": ((1, 65_536),), "layout": 2}[part]}

    def found(known):
        monkeypatch.setattr(device_rates, "environment", lambda: known)
        monkeypatch.setattr(device_rates, "cache_sizes", lambda: known["caches"])
        monkeypatch.setattr(device_rates, "LAYOUT", known["layout"])
        device_rates._cpu.cache_clear()
        return rates_of(CPU, None, {})

    measured += [SLOW, FAST]
    assert [found(facts), found(other), found(facts), found(other)] == [SLOW, FAST, SLOW, FAST]
    device_rates._cpu.cache_clear()


def test_rates_that_are_measured_again_keep_the_higher_one_of_each(measured):
    """A measurement that fails keeps those that are known."""
    one, other = {**SLOW, "adds": 5.0, "launch": 2e-6}, {**FAST, "adds": 4.0, "launch": 3e-6}
    measured += [one, other, None]
    assert rates_of(CPU, None, {}) == one
    both = {**FAST, "adds": 5.0, "launch": 2e-6}
    assert rates_of(CPU, None, {}, again=True) == both == rates_of(CPU, None, {})
    assert rates_of(CPU, None, {}, again=True) == both == rates_of(CPU, None, {})
    assert measured == []
    assert rates_of(CPU, None, {}, again=True) == both, "this process does not try again"


def test_damaged_rates_are_measured_again(measured, cache, caplog):
    measured += [SLOW, FAST]
    rates_of(CPU, None, {})
    (path,) = cache.glob("*.json")
    path.write_text(path.read_text().replace("1000.0", "9000.0"))
    assert rates_of(CPU, None, {}) == FAST
    assert "has changed since it was written" in caplog.text


def test_what_cannot_be_measured_gives_no_floor_and_another_process_tries_again(measured, monkeypatch):
    measured += [None, SLOW]
    for _ in range(2):
        assert floor_fields(OnCpu, fields(), {})["floor"] is None
    monkeypatch.setattr(device_rates, "_failed", set())
    assert floor_fields(OnCpu, fields(seconds=[4.0]), {})["floor"]["seconds"] == 3.0


def test_a_time_above_its_floor_has_no_further_mark(measured):
    measured += [SLOW]
    found = floor_fields(OnCpu, fields(seconds=(3.0, 5.0)), {})
    assert (found["floor"]["seconds"], found["floor"]["bytes"], found["marks"]) == (3.0, 3000, ["busy"])


def test_a_run_below_the_floor_has_the_device_measured_again(measured):
    """The first measurement was disturbed."""
    measured += [SLOW, FAST]
    found = floor_fields(OnCpu, fields(), {})
    assert (found["floor"]["seconds"], found["marks"]) == (3e-6, ["busy"])
    assert rates_of(CPU, None, {}) == FAST


def test_a_run_below_the_floor_of_the_second_measurement_is_marked(measured):
    measured += [SLOW, SLOW]
    for _ in range(2):  # the device is measured again once
        found = floor_fields(OnCpu, fields(), {})
        assert found["floor"]["seconds"] == 3.0
        assert found["marks"] == ["busy", Mark.BELOW_FLOOR]
    assert not measured


def test_the_fastest_run_contradicts_a_floor(measured):
    """The median is above the floor of 3 s; the minimum, which nothing may undercut either, is not."""
    measured += [SLOW, SLOW]
    found = floor_fields(OnCpu, fields(seconds=(2.0, 9.0, 9.0)), {})
    assert (found["floor"]["seconds"], found["marks"]) == (3.0, ["busy", Mark.BELOW_FLOOR])
    assert not measured


def test_each_device_is_measured_again_once(measured):
    gpus = [
        (SimpleNamespace(device=Device("cuda", index)), {"uuid": f"GPU-{index}", "driver": "5", "most_clock": 1,
                                                         "power_cap": 2})
        for index in range(2)
    ]  # fmt: skip
    measured += [SLOW] * 4
    for cell, gpu in gpus * 2:
        assert floor_fields(cell, fields(gpu=gpu), {})["marks"] == ["busy", Mark.BELOW_FLOOR]
    assert not measured


@pytest.mark.parametrize("changes", [{"outcome": "wrong"}, {"moved": ()}])
def test_no_rates_are_measured_for_what_has_no_floor(measured, changes):
    assert floor_fields(OnCpu, fields(**changes), {}) == {}


@pytest.mark.parametrize("damage", [{WORK: "none"}, {"solve": {"minimum": "now"}}])
def test_a_damaged_report_is_refused(damage):
    with pytest.raises(RecordError, match="not the report of a run"):
        floor_fields(OnCpu, fields(**damage), {})


def test_the_caches_of_the_usable_cores_are_added_up_each_once(tmp_path):
    described = [(1, "Data", "32K"), (1, "Instruction", "9M"), (2, "Unified", "1M")]
    for core in os.sched_getaffinity(0):
        for index, (level, kind, size) in enumerate(described):
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            shared = "all" if level == 2 else str(core)
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{text}\n")
    cores = len(os.sched_getaffinity(0))
    assert cpu_rates.cache_sizes(tmp_path) == [(32 << 10, cores * (32 << 10)), (1 << 20, 1 << 20)]
    assert cpu_rates.cache_sizes(tmp_path / "nothing") == []


def test_data_in_private_caches_have_no_rate_and_the_last_level_is_no_slower_than_memory(monkeypatch):
    monkeypatch.setattr(cpu_rates, "cache_sizes", lambda: [(1 << 15, 1 << 16), (1 << 20, 1 << 21)])
    (private, cached), (caches, remote) = cpu_rates.cpu_rates(2, 1 << 34)["levels"]
    assert (private, caches) == (1 << 16, (1 << 16) + (1 << 21))
    assert cached >= remote > 1e7  # bytes per second
    monkeypatch.setattr(cpu_rates, "cache_sizes", list)
    assert cpu_rates.cpu_rates(2, 1 << 34) is None


@pytest.mark.skipif(not cpu_rates.cache_sizes(), reason="the system does not describe the caches of its processor")
def test_rates_are_measured_in_a_process_of_their_own():
    (private, cached), (caches, remote) = rates_of(CPU, None, {})["levels"]
    assert 0 <= private < caches
    assert cached >= remote > 1e7


def test_a_failed_measurement_is_logged(caplog):
    assert rates_of(Device("cuda"), {"uuid": "GPU-none", "driver": "0"}, {"CUDA_VISIBLE_DEVICES": "-1"}) is None
    assert "the rates of the cuda are unknown, and so are floors of times: " in caplog.text
    assert "no CUDA device" in caplog.text


TRACEBACK = 'Traceback (most recent call last):\n  File "rates.py", line 1\nOSError: the device is lost\n'


@pytest.mark.parametrize(
    ("printed", "made", "reason"),
    [(TRACEBACK, None, "OSError: the device is lost"), ("", None, "exit status 3"), ("", "{", "truncated")],
    ids=["error", "silent", "torn"],
)
def test_the_reason_of_a_failed_measurement_is_logged(printed, made, reason, monkeypatch, caplog):
    def failing(module, arguments, *, output, **_):
        output.write_text(printed)
        if made is not None:
            Path(arguments[-1]).write_text(made)
        return SimpleNamespace(status=3)

    monkeypatch.setattr(device_rates, "run_process", failing)
    assert rates_of(CPU, None, {}) is None
    (message,) = caplog.messages
    start = "the rates of the cpu are unknown, and so are floors of times: "
    assert message.startswith(start)
    assert reason in message.removeprefix(start)
    assert "Traceback" not in message


@pytest.mark.short_run(rows=1)
def test_a_cell_has_a_floor_and_the_table_shows_it(command, cache, tmp_path):
    """The cache holds rates of this device: no bytes stay in a cache, and memory delivers 1 TB/s."""
    rates = {**SLOW, "levels": [(0, 1e12), (0, 1e12)]}
    path = cache / f"{device_rates._key(CPU, None)}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"rates": rates, "digest": device_rates.text_digest(rates)}))
    finished = command(
        "engine=scipy", "algorithm=pagerank", "graph=rmat", "graph.scale=8", "features=2", "device.threads=1",
        "measure.repetitions=2", "measure.budget_s=0.01",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    ((_, found),) = read_records(tmp_path / "results")
    floor, edges, steps = found["floor"], found["graph"]["edges"], len(found["supersteps"])
    assert floor["largest"] == "bytes"
    assert floor["bytes"] >= 4 * edges * steps
    assert floor["seconds"] == pytest.approx(floor["bytes"] / 1e12)
    assert " floor " in finished.stdout
    assert "100 % cannot be exceeded" in finished.stdout


@pytest.mark.parametrize("rates", [dict(SLOW), None])
def test_the_process_of_the_rates_measures_the_device_that_it_is_told_alone(monkeypatch, tmp_path, rates):
    """Of a processor without known caches there are none."""
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    asked = []

    def measure(threads, memory):
        with pytest.raises(BlockingIOError), file_lock(device_lock_path(CPU), wait=False):
            pass
        asked.append((threads, memory))
        return rates

    monkeypatch.setattr(cpu_rates, "cpu_rates", measure)
    with ExitStack() as held:
        monkeypatch.setattr(rates_process, "_HELD", held)
        rates_process.main(["cpu", "0", "3", "12345", str(tmp_path / "found.json")])
    assert asked == [(3, 12345)]
    assert json.loads((tmp_path / "found.json").read_text()) == (json.loads(json.dumps(rates)) if rates else {})

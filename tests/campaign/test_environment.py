"""The machine in a record: host, memory of the container, GPU."""

from __future__ import annotations

import os
import platform
import sys
from collections import namedtuple
from types import ModuleType, SimpleNamespace

import pytest

from harness.campaign import cgroup, environment
from harness.campaign.gpu import gpu_facts, gpu_marks, gpu_uuid
from harness.campaign.lock import device_lock_path
from harness.contract import Device
from harness.records import Mark


def test_the_host_is_recorded_and_not_part_of_the_key(monkeypatch):
    facts = environment.environment()
    assert facts["host"] == platform.node()
    assert {"governor", "most_clock", "memory", "cpu"} <= set(facts)
    key = environment.environment_key()
    monkeypatch.setattr(environment, "environment", lambda: {**facts, "host": "another", "governor": "powersave"})
    assert environment.environment_key() == key
    monkeypatch.setattr(environment, "environment", lambda: {**facts, "cores": 10_000})
    assert environment.environment_key() != key


def test_the_key_is_of_what_times_depend_on(monkeypatch):
    facts = {**environment.environment(), "governor": "performance", "most_clock": 3500.0}
    keys = {}
    for name in facts:
        monkeypatch.setattr(environment, "environment", lambda name=name: {**facts, name: "another"})
        keys[name] = environment.environment_key()
    monkeypatch.setattr(environment, "environment", lambda: facts)
    assert {name for name, key in keys.items() if key != environment.environment_key()} == {
        "system", "cpu", "cores", "usable_cores", "memory", "python", "packages",
    }  # fmt: skip


def test_packages_are_those_that_are_installed(monkeypatch):
    monkeypatch.setattr(environment, "installed_version", lambda name: {"numba": "1.0", "torch": "2.0"}.get(name))
    environment.environment.cache_clear()
    try:
        assert environment.environment()["packages"] == {"numba": "1.0", "torch": "2.0"}
    finally:
        environment.environment.cache_clear()


def test_usable_cores_are_those_of_this_process(monkeypatch):
    affinity = {0: {1, 4, 6}, os.getpid(): {1, 4, 6}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: affinity.get(process, set(range(99))))
    monkeypatch.setattr(os, "cpu_count", lambda: 99)
    facts = environment.environment.__wrapped__()
    assert (facts["usable_cores"], facts["cores"]) == (3, 99)


def test_the_commit_is_that_of_the_harness_and_not_of_a_project_around_it(monkeypatch, tmp_path):
    asked = []
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(environment, "_git", lambda root, *arguments: asked.append(root) or "of the project")
    package = tmp_path / "venv" / "lib" / "site-packages" / "harness" / "campaign" / "environment.py"
    monkeypatch.setattr(environment, "__file__", str(package))
    assert environment.environment.__wrapped__()["commit"] is None
    assert asked == []


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Write a tree of control groups, with this process in the given one."""
    monkeypatch.setattr(cgroup, "_ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "_MEMBERSHIP", tmp_path / "membership")

    def write(membership: str, **files: str) -> None:
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def test_the_tightest_limit_of_memory_counts(groups):
    groups("0::/a/b\n", a__memory_dot_max="2000000\n", a__b__memory_dot_max="max\n")
    assert cgroup.memory_limit() == 2_000_000
    assert environment.memory_total() == 2_000_000


def test_version_1_of_control_groups_is_read_too(groups):
    groups("4:memory:/job\n1:cpu,cpuacct:/\n", memory__job__memory_dot_limit_in_bytes="5000")
    assert cgroup.memory_limit() == 5000
    groups("4:memory:/job\n", memory__job__memory_dot_limit_in_bytes=str(2**63 - 4096))
    assert cgroup.memory_limit() is None


def test_being_held_back_by_a_quota_is_noticed(groups):
    stat = "nr_periods 3\nnr_throttled {}\n"
    groups("0::/\n", cpu_dot_stat=stat.format(2))
    bystanders = environment.Bystanders()
    assert not bystanders.throttled()
    groups("0::/\n", cpu_dot_stat=stat.format(3))
    assert bystanders.throttled()


def test_only_work_on_the_watched_cores_counts(monkeypatch, tmp_path):
    """Core 1 is offline: the system lists the times of three other cores."""
    listed = tmp_path / "stat"
    listed.write_text("cpu  9 9\ncpu0 3 3\ncpu2 3 3\ncpu3 3 3\nctxt 1\n")
    monkeypatch.setattr(environment, "_CORE_TIMES", listed)
    kinds = namedtuple("kinds", "user system idle")
    busy = [0.0, 0.0, 0.0]

    def times(percpu=False):
        of_cores = [kinds(seconds, 0.0, 9.0) for seconds in busy]
        return of_cores if percpu else kinds(sum(busy), 0.0, 9.0)

    monkeypatch.setattr(environment.psutil, "cpu_times", times)
    monkeypatch.setattr(environment.time, "process_time", lambda: 0.0)
    clock = iter([0.0] * 4 + [2.0] * 4)
    monkeypatch.setattr(environment.time, "perf_counter", lambda: next(clock))
    watched = [environment.Bystanders(cores) for cores in (None, {0, 3}, {2}, {1, 3})]
    busy[:] = [4.0, 1.0, 2.0]
    assert [one.cores() for one in watched] == [3.5, 3.0, 0.5, 3.5]  # core 1 is not listed: all are counted


@pytest.fixture
def driver(monkeypatch):
    """Return a driver with two GPUs: the second is hot, has no power cap, and is used by another process."""

    class NVMLError(Exception):
        pass

    def refuse(_gpu):
        raise NVMLError

    def handle(index):
        if index > 1:
            raise NVMLError
        return index

    nvml = ModuleType("pynvml")
    nvml.__dict__.update(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetHandleByUUID=lambda uuid: int(uuid[-1]),
        nvmlDeviceGetName=lambda gpu: f"card {gpu}",
        nvmlDeviceGetUUID=lambda gpu: f"GPU-{gpu}",
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(total=80 * 10**9),
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlSystemGetCudaDriverVersion=lambda: 13010,
        nvmlDeviceGetCudaComputeCapability=lambda gpu: (9, 0),
        nvmlDeviceGetClockInfo=lambda gpu, kind: 1000 * kind,
        nvmlDeviceGetMaxClockInfo=lambda gpu, kind: 1980,
        nvmlDeviceGetEnforcedPowerLimit=lambda gpu: refuse(gpu) if gpu else 700_000,
        nvmlDeviceGetTemperature=lambda gpu, sensor: 60 + 30 * gpu,
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: 0x21 if gpu else 0x1,
        nvmlDeviceGetComputeRunningProcesses=lambda gpu: ["ours"] + ["theirs"] * gpu,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpu_uuid.cache_clear()
    yield
    gpu_uuid.cache_clear()


def test_a_gpu_is_described_as_its_driver_does(driver):
    facts = gpu_facts(0)
    assert facts == {
        "name": "card 0", "uuid": "GPU-0", "memory": 80 * 10**9, "driver": "580.1", "cuda": "13.1",
        "compute_capability": "9.0", "clock": 1000, "most_clock": 1980, "memory_clock": 2000, "power_cap": 700.0,
        "temperature": 60, "slowed_by": [], "others": 0,
    }  # fmt: skip
    assert gpu_marks(facts) == []


def test_a_throttled_and_shared_gpu_is_marked_without_unknown_fields(driver):
    facts = gpu_facts(1)
    assert "power_cap" not in facts
    assert (facts["slowed_by"], facts["others"]) == (["temperature"], 1)
    assert gpu_marks(facts) == [Mark.THROTTLED, Mark.SHARED]
    assert gpu_marks(gpu_facts(1, resting=1)) == [Mark.THROTTLED]


@pytest.mark.parametrize(("listed", "resting", "others"), [(0, 0, 0), (1, 0, 0), (1, 1, 0), (4, 1, 2), (4, 3, 0)])
def test_others_are_the_listed_processes_without_this_one_and_without_idle_ones(
    driver, monkeypatch, listed, resting, others
):
    """A driver may not list this process yet, and an idle process may have ended meanwhile."""
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetComputeRunningProcesses", lambda gpu: ["one"] * listed)
    facts = gpu_facts(0, resting=resting)
    assert facts["others"] == others
    assert gpu_marks(facts) == ([Mark.SHARED] if others else [])


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x01, []), (0x02, []), (0x10, []), (0x04, ["power cap"]), (0x08, ["hardware slowdown"]),
        (0x20, ["temperature"]), (0x40, ["temperature (hardware)"]), (0x80, ["power brake"]),
        (0x8C, ["power cap", "hardware slowdown", "power brake"]),
    ],
)  # fmt: skip
def test_only_what_lowers_the_clock_is_a_reason(driver, monkeypatch, bits, reasons):
    """Idling (1), clocks that the user set (2) and that of a group of GPUs (16) are the user's."""
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetCurrentClocksEventReasons", lambda gpu: bits)
    facts = gpu_facts(0)
    assert facts["slowed_by"] == reasons
    assert gpu_marks(facts) == ([Mark.THROTTLED] if reasons else [])


def test_no_gpu_and_no_driver_tell_nothing(driver, monkeypatch):
    assert gpu_facts(2) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_facts(0) is None
    assert gpu_marks(None) == []


@pytest.mark.parametrize(
    ("visible", "uuid"), [("1,0", "GPU-1"), (" 1 , 0", "GPU-1"), ("GPU-1", "GPU-1"), ("", "GPU-0")]
)
def test_a_gpu_is_locked_by_its_uuid_whatever_it_is_called(driver, monkeypatch, visible, uuid):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_uuid(0) == uuid
    monkeypatch.setitem(sys.modules, "pynvml", None)  # it is opened once
    assert device_lock_path(Device("cuda", index=0, threads=1)).name == f"cuda-{uuid}.lock"

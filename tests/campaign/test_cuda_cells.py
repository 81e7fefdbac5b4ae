"""Cells on a CUDA device: unsupported without a device; exhausted device memory is out_of_memory."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from contextlib import nullcontext
from importlib.metadata import EntryPoint
from pathlib import Path

import psutil
import pytest

from harness.campaign import child, device_use, engine_work
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import ChildReport, read_report
from harness.campaign.preflight import device_refusal, memory_refusal, ran_out_of_memory
from harness.contract import Device, Phases, Yes
from harness.device import driver
from harness.device.driver import CudaDevice, cuda_unavailable
from harness.plugins import load_plugins
from tests.campaign.test_cell import config
from tests.conftest import FAKES, ROOT
from tests.device.test_driver import FakeDriver

CUDA = Device("cuda", 1, threads=1)
GIGABYTE = 1 << 30


@pytest.fixture
def gpu(monkeypatch):
    found = CudaDevice(1, "A GPU", "GPU-0102", 80 * GIGABYTE, "9.0")
    monkeypatch.setattr(driver, "describe", lambda index: found)
    return found


@pytest.mark.skipif(not cuda_unavailable(0), reason="there is a CUDA device")
def test_without_a_device_a_cell_is_unsupported_and_says_why(command_here, tmp_path):
    finished = command_here("engine=fake_cuda", "algorithm=fake_spread", "graph=fake_ring", "features=1", "device=cuda")
    assert finished.returncode == 1, finished.stdout + finished.stderr
    (path,) = tmp_path.glob("results/*/*/record.json")
    record = json.loads(path.read_text())
    assert record["outcome"] == "unsupported"
    assert record["reason"].startswith("no CUDA device")
    assert record["config"]["device"]["kind"] == "cuda"
    assert "no CUDA device" in finished.stdout


def test_engines_that_need_the_other_device_are_unsupported(command_here, tmp_path):
    command_here("engine=fake_cuda", "algorithm=fake_spread", "graph=fake_ring", "features=1", "device=cpu")
    (path,) = tmp_path.glob("results/*/*/record.json")
    assert json.loads(path.read_text())["reason"] == "engine 'fake_cuda' does not run on cpu (it runs on: cuda)"


def test_the_processor_is_never_refused():
    assert device_refusal(Device("cpu", threads=1)) == ""


def test_too_large_problems_are_refused_beforehand(gpu):
    assert memory_refusal(Yes(79 * GIGABYTE), CUDA, GIGABYTE) == ""
    assert "the GPU has 85,899,345,920" in memory_refusal(Yes(81 * GIGABYTE), CUDA, GIGABYTE)
    assert memory_refusal(Yes(9 * GIGABYTE), CUDA, GIGABYTE, 9 * GIGABYTE) == ""
    limited = memory_refusal(Yes(9 * GIGABYTE + 1), CUDA, GIGABYTE, 9 * GIGABYTE)
    assert "the limit is 9,663,676,416; raise limits.device_memory_gb" in limited
    assert "the GPU has" in memory_refusal(Yes(81 * GIGABYTE), CUDA, GIGABYTE, 99 * GIGABYTE)
    pinned = Yes(GIGABYTE, host_bytes=3 * GIGABYTE)
    assert memory_refusal(pinned, CUDA, 3 * GIGABYTE) == ""
    assert "3,221,225,472 bytes of page-locked host memory" in memory_refusal(pinned, CUDA, 2 * GIGABYTE)
    processor = Device("cpu", threads=1)
    assert memory_refusal(Yes(GIGABYTE), processor, GIGABYTE) == ""
    assert "raise limits.memory_gb" in memory_refusal(Yes(GIGABYTE + 1), processor, GIGABYTE)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("out"), True),
        (RuntimeError("cudaErrorMemoryAllocation: out of memory"), True),
        (RuntimeError("CUSPARSE_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered"), False),
        (ValueError("memory"), False),
    ],
)
def test_exhausted_memory_differs_from_other_errors(error, expected):
    assert ran_out_of_memory(error) is expected


@pytest.fixture
def run_with(tmp_path, monkeypatch):
    """Run a cell in this process with a driver of the test's own; return its report."""
    monkeypatch.syspath_prepend(str(FAKES))
    plugins = {"fakes": "onyx_fakes", "algorithms": "harness.algorithms"}
    registry = load_plugins(found=[EntryPoint(name, value, "onyx_harness") for name, value in plugins.items()])
    monkeypatch.setattr(child, "load_plugins", lambda *_, **__: registry)
    monkeypatch.setattr(engine_work, "device_memory", lambda *_: nullcontext())
    monkeypatch.setattr(device_use, "device_lock", lambda *_, **__: nullcontext())

    def run(engine, library):
        monkeypatch.setattr(driver, "_library", lambda: library)
        device = {"kind": "cuda", "index": 0, "threads": 1}
        cell = resolve_cell(config(engine={"name": engine}, device=device), registry)
        with (tmp_path / "report").open("wb", buffering=0) as file:
            child._run(cell, ChildReport(file), tmp_path, GIGABYTE, Phases())
        return read_report(tmp_path / "report")

    return run


@pytest.mark.parametrize("status", [35, 803])
def test_a_driver_that_is_too_old_is_unsupported_with_a_remedy(run_with, status):
    ended = run_with("fake_cuda", FakeDriver(init=status))
    assert ended["outcome"] == "unsupported"
    assert ended["reason"] == "no CUDA device: the NVIDIA driver is too old for its own library; update it"


def test_a_driver_that_is_too_old_for_cupy_is_unsupported_with_a_remedy(run_with):
    cupy = pytest.importorskip("cupy")
    ended = run_with("fake_uncompiled", FakeDriver(cuda=11080))
    assert ended["outcome"] == "unsupported"
    made_for = cupy.cuda.runtime.runtimeGetVersion() // 1000
    words = f"the NVIDIA driver is for CUDA 11, and the CuPy installed for CUDA {made_for}; update the driver, or"
    assert ended["reason"] == f"{words} install CuPy for CUDA 11"


def shows_what_does_not_compile(reason, stage):
    """Check that the reason shows the compiler's message, the generated line, the user's line, and the file with the
    source."""
    assert reason.startswith("CompilationFailed: ")
    assert 'identifier "undeclared" is undefined' in reason
    assert re.search(r"^ *FEATURES.* \+= undeclared \* ", reason, re.MULTILINE)
    assert re.search(rf"^{stage} is from .*\.py:\d+\n +@p.over_edges\(", reason, re.MULTILINE)
    (kept,) = re.findall(r"^the generated source: (.*)$", reason, re.MULTILINE)
    assert "+= undeclared * " in Path(kept).read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
def test_a_kernel_that_does_not_compile_ends_a_cell(run_with, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr("harness.lowering.cuda.executor.architecture", lambda _: "sm_90")
    ended = run_with("fake_uncompiled", FakeDriver())
    assert ended["outcome"] == "engine_error"
    assert ended["stage"] == "build"
    shows_what_does_not_compile(ended["reason"], "gather")
    assert ended["reason"] in capsys.readouterr().err


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run a cell on a GPU in a separate process, each in a folder of its own; return its record."""
    from harness.campaign.job import Assignment, run_cell
    from harness.records import read_record

    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))
    folders = (tmp_path / f"cell {number}" for number in itertools.count())

    def run(
        engine="onyx", algorithm="pagerank", features=8, index=0, scale=10, validate=True, panel=None, graph=None,
        order=None, **limits,
    ):  # fmt: skip
        options = {"panel": panel, "order": order}
        config = {
            "engine": {"name": engine} | {name: value for name, value in options.items() if value is not None},
            "algorithm": {"name": algorithm}, "graph": graph or {"name": "rmat", "scale": scale}, "features": features,
            "device": {"kind": "cuda", "index": index, "threads": 1}, "max_supersteps": None,
            "validate": validate, "measure": {}, "limits": {"time_s": 100, **limits}, "plugins": {"block": []},
            "warm": {"change": None}, "memory": "off", "save": "none",
        }  # fmt: skip
        cell = resolve_cell(config, load_plugins())
        return read_record(run_cell(Assignment(cell, "sweep", "key", next(folders), "")))

    return run


@pytest.mark.skipif(not cuda_unavailable(0), reason="there is a CUDA device")
def test_without_a_device_nothing_is_held(ran):
    record = ran(device_memory_gb=1.0)
    assert record["outcome"] == "unsupported"
    assert record["environment"]["gpu_peak_bytes"] is None
    assert record["config"]["limits"]["device_memory_gb"] == 1.0


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["cusparse", "torch", "onyx"])
def test_a_cell_on_a_gpu_is_ok_and_its_record_tells_of_the_gpu(ran, engine):
    record = ran(engine)
    assert record["outcome"] == "ok", record["reason"] + record["output"]
    gpu = record["environment"]["gpu"]
    assert gpu["uuid"].startswith("GPU-")
    assert gpu["memory"] > GIGABYTE
    held = record["environment"]["gpu_peak_bytes"]
    assert held is None if engine == "torch" else 0 < held < GIGABYTE
    print({name: value for name, value in gpu.items() if name != "uuid"}, record["marks"], record["solve"]["median"])


# engine, overrides, outcome, words of the reason
FAILING = {
    "an index that does not exist": ("onyx", {"index": 99}, "unsupported", "no CUDA device 99"),
    "more than the limit, foreseen": ("onyx", {"device_memory_gb": 1e-4}, "out_of_memory", "limits.device_memory_gb"),
    "more than the limit, met": (
        "cusparse",
        {"features": 64, "scale": 14, "validate": False, "device_memory_gb": 0.03},
        "out_of_memory",
        "",
    ),
    "a kernel that does not compile": ("fake_uncompiled", {}, "engine_error", "share is from "),
}


@pytest.mark.gpu
@pytest.mark.parametrize("case", FAILING)
def test_a_gpu_failure_is_an_outcome_and_its_process_ends(ran, case):
    """The driver releases the device memory of a process that has ended."""
    engine, settings, outcome, words = FAILING[case]
    record = ran(engine, **settings)
    assert record["outcome"] == outcome, record["reason"] + record["output"]
    assert words in record["reason"]
    if engine == "fake_uncompiled":
        shows_what_does_not_compile(record["reason"], "share")
        assert "the generated source: " in record["output"]
    left = [process.cmdline() for process in psutil.Process().children(recursive=True)]
    assert not [line for line in left if "harness.campaign.child" in line]


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["onyx", "emogi", "gunrock"])
def test_features_that_do_not_fit_a_gpu_run_in_panels(ran, engine):
    """A limit between the memory of a panel and that of all features: only panels fit, and the peak is within it."""
    settings = {"engine": engine, "features": 128, "scale": 14}
    whole, cut = ran(**settings), ran(**settings, panel=16)
    assert (whole["outcome"], cut["outcome"]) == ("ok", "ok"), whole["reason"] + cut["reason"] + cut["output"]
    assert cut["bytes_needed"] < whole["bytes_needed"]
    assert cut["environment"]["gpu_peak_bytes"] < whole["environment"]["gpu_peak_bytes"]
    limit = (whole["bytes_needed"] + cut["bytes_needed"]) // 2
    limited = {**settings, "device_memory_gb": limit / 1e9}
    assert ran(**limited)["outcome"] == "out_of_memory"
    for panel in (16, "auto"):
        record = ran(**limited, panel=panel)
        assert record["outcome"] == "ok", record["reason"] + record["output"]
        assert record["environment"]["gpu_peak_bytes"] <= limit
        assert record["bytes_needed"] <= limit
        assert 16 <= record["schedule"]["panel"] < 128
        assert record["host_bytes"] >= 4 * 128 << 14
    refused = ran(engine=engine, algorithm="label_propagation", features=128, scale=14, panel=16)
    assert refused["outcome"] == "unsupported"
    assert "panel=16 of 128 features: n_aggr normalises over features (l1)" in refused["reason"]


@pytest.mark.gpu
def test_an_order_that_does_not_fit_a_gpu_is_replaced_by_supersteps(ran):
    """A limit between the memory of near-far, which the engine chooses, and that of supersteps."""
    roads = {"name": "grid", "rows": 1000, "columns": 1000, "removed": 0.3}
    settings = {"algorithm": "bfs", "features": 1, "graph": roads}
    chosen, steps = ran(**settings), ran(**settings, order="supersteps")
    assert (chosen["outcome"], steps["outcome"]) == ("ok", "ok"), chosen["reason"] + steps["reason"]
    assert (chosen["schedule"]["order"], chosen["resolution"]) == ("near_far", None)
    assert steps["bytes_needed"] < chosen["bytes_needed"]
    limit = (chosen["bytes_needed"] + steps["bytes_needed"]) // 2
    limited = ran(**settings, device_memory_gb=limit / 1e9)
    assert limited["outcome"] == "ok", limited["reason"] + limited["output"]
    assert limited["schedule"]["order"] == "supersteps"
    assert limited["resolution"]["resolved"] == {"order": "supersteps"}
    assert "bytes on the GPU, and the limit is" in limited["resolution"]["reason"]
    assert limited["bytes_needed"] <= limit
    assert limited["environment"]["gpu_peak_bytes"] <= limit
    given = ran(**settings, order="near_far", device_memory_gb=limit / 1e9)
    assert (given["outcome"], given["resolution"]) == ("out_of_memory", None)
    assert f"the engine needs {given['bytes_needed']:,} bytes on the GPU" in given["reason"]

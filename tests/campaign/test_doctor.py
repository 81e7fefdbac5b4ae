"""``onyx-harness doctor`` reports what is missing, and the command that fixes it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tomllib
from email.message import Message
from importlib.metadata import PackageNotFoundError

import pytest

from harness.campaign import application, doctor
from harness.campaign.doctor import TRIALS, Finding, findings, report, run_probe
from harness.contract import EngineSpec
from harness.plugins import Registry, load_plugins
from tests.conftest import ROOT

CARD = {"index": 0, "name": "H100", "uuid": "GPU-1", "memory": 80_000_000_000, "compute_capability": "9.0"}
NO_GPU = {
    "numba": {"version": "0.61"}, "driver": {"error": "no CUDA device: no NVIDIA driver"},
    "nvml": {"error": "no NVML"},
    "cupy": {"error": "ModuleNotFoundError: No module named 'cupy'"}, "nvrtc": {"error": "no CuPy"},
}  # fmt: skip
GPU = {
    "numba": {"version": "0.61"}, "driver": {"cuda": 12_080, "devices": [CARD]},
    "nvml": {"driver": "570.1", "others": 0},
    "cupy": {"version": "14.2.0"}, "nvrtc": {"version": [12, 8], "architecture": "sm_90"},
}  # fmt: skip


def by_name(probed, registry=None):
    return {one.what: one for one in findings(registry or load_plugins(), probed)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(doctor, "_ROOM_GB", 0)


def test_a_machine_without_a_gpu_lacks_nothing_that_is_needed(monkeypatch):
    found = by_name(NO_GPU)
    assert [one for one in found.values() if one.state == "problem"] == []
    assert {
        "harness",
        "Python",
        "processor",
        "memory",
        "cache",
        "locks",
        "g++",
        "ncu",
        "[joblib]",
        "engines",
    } <= found.keys()
    assert found["CuPy"].fix == "pip install 'onyx-harness[cuda13]'"
    assert "onyx" in found["engines"].found
    text = report(list(found.values()))
    assert "  -   GPU " in text
    assert text.endswith("Everything that a comparison on the CPU needs is here.")


def test_a_gpu_needs_cupy_for_the_cuda_version_of_its_driver(monkeypatch):
    monkeypatch.setattr(doctor, "installed_version", lambda name: "14.2" if name == "cupy-cuda12x" else None)
    found = by_name(GPU)
    assert found["GPU 0"] == Finding("GPU 0", "H100, 80 GB, compute capability 9.0")
    assert found["CUDA driver"].found == "570.1, supports CUDA up to 12.8"
    assert "NVML" not in found
    assert "GPU load" not in found
    assert found["NVRTC"].found == "12.8, compiles for sm_90"
    assert report(list(found.values())).endswith("on the CPU and the GPU needs is here.")
    lacking = by_name(GPU | {"cupy": {"error": "ModuleNotFoundError"}})["CuPy"]
    assert (lacking.state, lacking.fix) == ("problem", "pip install 'onyx-harness[cuda12]'")
    monkeypatch.setattr(doctor, "installed_version", lambda name: "14.2" if name == "cupy-cuda13x" else None)
    wrong = by_name(GPU | {"nvrtc": {"error": "NVRTC_ERROR"}})
    assert wrong["CuPy build"].fix == "pip uninstall -y cupy-cuda13x && pip install 'onyx-harness[cuda12]'"
    assert wrong["NVRTC"].state == "problem"


@pytest.mark.parametrize(
    ("builds", "driver", "met"),
    [
        (["cupy-cuda12x"], 12_080, None), (["cupy-cuda12x"], 13_000, None), (["cupy-cuda13x"], 13_000, None),
        ([], 12_080, None),
        (["cupy-cuda13x"], 12_080, "the driver supports CUDA up to 12.8"),
        (["cupy-cuda12x", "cupy-cuda13x"], 13_010, "several builds"),
        (["cupy-cuda12x", "cupy-cuda13x"], None, "several builds"), (["cupy-cuda13x"], None, None),
    ],
)  # fmt: skip
def test_a_build_of_cupy_must_be_the_only_one_and_fit_the_driver(monkeypatch, builds, driver, met):
    monkeypatch.setattr(doctor, "installed_version", lambda name: "14.2" if name in builds else None)
    given = GPU["driver"] | {"cuda": driver} if driver else NO_GPU["driver"]
    found = by_name(GPU | {"driver": given})
    assert found["CuPy"].found == f"14.2.0 ({', '.join(builds) or 'unknown build'})"
    right = "cuda12" if driver and driver < 13_000 else "cuda13"
    fix = f"pip uninstall -y {' '.join(builds)} && pip install 'onyx-harness[{right}]'"
    assert found.get("CuPy build") == (met and Finding("CuPy build", met, "problem", fix))


def test_the_report_has_every_finding_and_then_what_to_do():
    found = [
        Finding("Python", "3.12"), Finding("cache", "is full", "problem", "free some space"),
        Finding("ncu", "not there", "optional", "install it"), Finding("GPU", "none", "optional"),
        Finding("driver", "is old", "problem"),
    ]  # fmt: skip
    assert report(found).splitlines() == [
        "  ok  Python  3.12", "  !!  cache   is full", "  -   ncu     not there", "  -   GPU     none",
        "  !!  driver  is old",
        "", "To fix:", "  cache  free some space", "", "To enable more:", "  ncu  install it", "", "Problems: 2.",
    ]  # fmt: skip
    assert report(found[:1]).splitlines() == [
        "  ok  Python  3.12", "", "Everything that a comparison on the CPU needs is here.",
    ]  # fmt: skip


def test_what_disturbs_times_on_a_gpu_is_noted():
    shared = by_name(GPU | {"nvml": {"driver": "570.1", "others": 2}})["GPU load"]
    assert (shared.state, shared.found) == (
        "optional", "2 other processes use GPU 0: times will be marked as shared"
    )  # fmt: skip
    unknown = by_name(GPU | {"nvml": {"error": "ModuleNotFoundError: No module named 'pynvml'"}})
    assert unknown["CUDA driver"].found == "supports CUDA up to 12.8"
    assert (unknown["NVML"].state, unknown["NVML"].fix) == ("optional", "pip install 'onyx-harness[cuda12]'")


@pytest.mark.parametrize(
    ("tested", "state"), [(["3.98", "3.99"], "optional"), ([f"3.{sys.version_info.minor}"], "ok"), ([], "ok")]
)
def test_a_python_that_was_not_tested_is_noted(monkeypatch, tested, state):
    monkeypatch.setattr(doctor, "tested_versions", lambda: tested)
    found = by_name(NO_GPU)["Python"]
    assert found.state == state
    assert (found.fix == "python3.99 -m venv .venv, and install the harness there") == (state == "optional")
    assert ("tested are 3.98, 3.99" in found.found) == (state == "optional")


def test_tested_versions_are_those_of_the_metadata(monkeypatch):
    names = Message()
    for name in ("3", "3.11", "3.12"):
        names["Classifier"] = f"Programming Language :: Python :: {name}"
    names["Classifier"] = "Typing :: Typed"
    monkeypatch.setattr(doctor, "metadata", lambda name: names)
    assert doctor.tested_versions() == ["3.11", "3.12"]

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "metadata", missing)
    assert doctor.tested_versions() == []


def test_locks_that_a_cell_would_refuse_are_a_problem(monkeypatch, tmp_path):
    assert by_name(NO_GPU)["locks"] == Finding("locks", str(tmp_path / "locks"))
    (tmp_path / "locks").chmod(0o755)
    found = by_name(NO_GPU)["locks"]
    assert (found.state, found.fix) == ("problem", f"make it private with chmod 700 {tmp_path / 'locks'}")
    (tmp_path / "locks").chmod(0o700)

    def refuse(file, flags):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(doctor.fcntl, "flock", refuse)
    found = by_name(NO_GPU)["locks"]
    assert found.found == f"files in {tmp_path / 'locks'} cannot be locked: No locks available"
    assert (found.state, found.fix) == ("problem", "export ONYX_HARNESS_LOCKS=FOLDER on a local disk")


def test_every_extra_for_users_is_examined():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    engines = {"peers", "sgd", "torch"}
    assert doctor.EXTRAS.keys() == extras - {"cuda12", "cuda13", "test", "fuzz"} - engines  # CuPy has its own lines
    assert {f"[{extra}]" for extra in engines} <= by_name(NO_GPU).keys()


def test_the_launcher_of_slurm_needs_sbatch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "needs sbatch, which is not on the PATH" in by_name(NO_GPU)["[submitit]"].found
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert "sbatch" not in by_name(NO_GPU)["[submitit]"].found


def test_missing_packages_name_their_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = by_name(NO_GPU)
    for extra in doctor.EXTRAS:
        assert found[f"[{extra}]"].fix == f"pip install 'onyx-harness[{extra}]'"
    assert "missing: hydra_ray_launcher" in found["[ray]"].found
    assert found["[peers]"].fix == "pip install 'onyx-harness[peers]'"
    wanted = "engines graphblas, igraph, networkit, networkx, scikit_network; missing: networkit, sknetwork, "
    assert found["[peers]"].found.startswith(wanted)
    assert found["[sgd]"].fix.startswith("CXXFLAGS=")
    assert found["[torch]"].found == "engines torch; missing: torch"


def test_packages_of_other_plugins_are_examined(monkeypatch):
    spec = EngineSpec("theirs", "an engine", object, "theirs:Engine", requires=("no_such_module",), install="make it")
    found = by_name(NO_GPU, Registry(engines={"theirs": spec}))["engine theirs"]
    assert found == Finding("engine theirs", "engines theirs; missing: no_such_module", "optional", "make it")


def test_problems_are_reported_with_their_fix(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "file" / "cache"))
    registry = Registry(quarantined={"broken": "ImportError: no"})
    found = by_name(NO_GPU | {"numba": {"error": "ImportError: llvmlite"}}, registry)
    text = report(list(found.values()))
    for what, fix in {
        "cache": "export ONYX_HARNESS_CACHE=FOLDER", "CPU compiler": "pip install --force-reinstall numba",
        "plugin broken": "ONYX_HARNESS_BLOCK=broken",
    }.items():  # fmt: skip
        assert found[what].state == "problem"
        assert fix in found[what].fix
    assert "\nTo fix:\n" in text
    assert text.endswith("Problems: 3.")
    monkeypatch.setattr(doctor, "run_probe", lambda: NO_GPU)
    assert application.main(["doctor"]) == 1  # the cache
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))
    assert application.main(["doctor"]) == 0
    assert "onyx-harness doctor" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_probe_tries_every_compiler_in_its_own_process():
    found = run_probe()
    assert set(found) == set(TRIALS)
    assert "version" in found["numba"]
    assert all(one for one in found.values())


def test_a_probe_that_dies_is_reported(monkeypatch):
    died = subprocess.CompletedProcess([], -11, "", "Segmentation fault\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: died)
    assert run_probe()["numba"] == {"error": "the probe ended with status -11: Segmentation fault"}

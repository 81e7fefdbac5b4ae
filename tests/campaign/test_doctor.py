"""``onyx-harness doctor`` reports what is missing, and the command that fixes it."""

from __future__ import annotations

import subprocess

import pytest

from harness.campaign import application, doctor
from harness.campaign.doctor import TRIALS, Finding, findings, report, run_probe
from harness.plugins import Registry, load_plugins

CARD = {"index": 0, "name": "H100", "uuid": "GPU-1", "memory": 80_000_000_000, "compute_capability": "9.0"}
NO_GPU = {
    "numba": {"version": "0.61"}, "driver": {"error": "no CUDA device: no NVIDIA driver"},
    "cupy": {"error": "ModuleNotFoundError: No module named 'cupy'"}, "nvrtc": {"error": "no CuPy"},
}  # fmt: skip
GPU = {
    "numba": {"version": "0.61"}, "driver": {"cuda": 12_080, "devices": [CARD]},
    "cupy": {"version": "14.2.0"}, "nvrtc": {"version": [12, 8], "architecture": "sm_90"},
}  # fmt: skip


def by_name(probed, registry=None):
    return {one.what: one for one in findings(registry or load_plugins(), probed)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "_ROOM_GB", 0)


def test_a_machine_without_a_gpu_lacks_nothing_that_is_needed(monkeypatch):
    found = by_name(NO_GPU)
    assert [one for one in found.values() if one.state == "problem"] == []
    assert {"harness", "Python", "processor", "memory", "cache", "g++", "ncu", "[joblib]", "engines"} <= found.keys()
    assert found["CuPy"].fix == "pip install 'onyx-harness[cuda13]'"
    assert "onyx" in found["engines"].found
    told = report(list(found.values()))
    assert "  -   GPU " in told
    assert told.endswith("Everything that a comparison on the CPU needs is here.")


def test_a_gpu_needs_cupy_for_the_cuda_version_of_its_driver(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "14.2" if name == "cupy-cuda12x" else None)
    found = by_name(GPU)
    assert found["GPU 0"] == Finding("GPU 0", "H100, 80 GB, compute capability 9.0")
    assert found["CUDA driver"].found == "supports CUDA up to 12.8"
    assert found["NVRTC"].found == "12.8, compiles for sm_90"
    assert report(list(found.values())).endswith("on the CPU and the GPU needs is here.")
    lacking = by_name(GPU | {"cupy": {"error": "ModuleNotFoundError"}})["CuPy"]
    assert (lacking.state, lacking.fix) == ("problem", "pip install 'onyx-harness[cuda12]'")
    monkeypatch.setattr(doctor, "_version", lambda name: "14.2" if name == "cupy-cuda13x" else None)
    wrong = by_name(GPU | {"nvrtc": {"error": "NVRTC_ERROR"}})
    assert wrong["CuPy build"].fix == "pip uninstall -y cupy-cuda13x && pip install 'onyx-harness[cuda12]'"
    assert wrong["NVRTC"].state == "problem"


def test_missing_packages_name_their_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = by_name(NO_GPU)
    for extra in doctor.EXTRAS:
        assert found[f"[{extra}]"].fix == f"pip install 'onyx-harness[{extra}]'"
    assert "missing: hydra_ray_launcher" in found["[ray]"].found


def test_problems_are_reported_with_their_fix(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "file" / "cache"))
    registry = Registry(quarantined={"broken": "ImportError: no"})
    found = by_name(NO_GPU | {"numba": {"error": "ImportError: llvmlite"}}, registry)
    told = report(list(found.values()))
    for what, fix in {
        "cache": "export ONYX_HARNESS_CACHE=FOLDER", "CPU compiler": "pip install --force-reinstall numba",
        "plugin broken": "ONYX_HARNESS_BLOCK=broken",
    }.items():  # fmt: skip
        assert found[what].state == "problem"
        assert fix in found[what].fix
    assert "\nTo fix:\n" in told
    assert told.endswith("Problems: 3.")
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

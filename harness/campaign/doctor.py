"""``onyx-harness doctor``: what this machine has, what is missing, and the command that fixes it."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Literal

import psutil

from harness import __version__
from harness.cache import CACHE_VARIABLE, cache_folder
from harness.campaign.environment import environment, installed_version
from harness.campaign.lock_folder import LOCKS_VARIABLE, LockError, lock_folder
from harness.campaign.text_table import table
from harness.contract import EngineSpec
from harness.plugins import Registry

State = Literal["ok", "optional", "problem"]
_SIGNS: dict[State, str] = {"ok": "ok", "optional": "-", "problem": "!!"}
_PROBE_S = 120  # seconds; importing CuPy from a cold disk takes tens of them
TRIALS = ("numba", "driver", "nvml", "cupy", "nvrtc")
_GB = 1e9
_ROOM_GB = 5  # free space below which a sweep on large graphs may fill the disk
_BUSY = 0.5  # mean load above which times are noisy
# What each extra enables, and a module of each of its packages; those of engines: `_engine_packages`.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "data": ("graphs digits, photo, motorcycle, highways", ("sklearn", "skimage", "scgraph_data")),
    "figures": ("figures as SVG and PNG", ("matplotlib",)),
    "query": ("SQL over records, save=answer", ("duckdb",)),
    "docs": ("the site of the documentation: mkdocs build", ("mkdocs", "material", "duckdb", "matplotlib")),
    "conformance": ("the conformance suite for engines", ("pytest",)),
    "joblib": ("launcher hydra/launcher=joblib", ("hydra_plugins.hydra_joblib_launcher",)),
    "submitit": ("launchers submitit_local, submitit_slurm", ("hydra_plugins.hydra_submitit_launcher",)),
    "ray": ("launcher hydra/launcher=ray", ("hydra_plugins.hydra_ray_launcher",)),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``fix``: a command or what to do; empty if nothing has to be done."""

    what: str
    found: str
    state: State = "ok"
    fix: str = ""


def findings(registry: Registry, probed: dict[str, dict[str, Any]]) -> list[Finding]:
    """Return all findings; ``probed`` is the result of `run_probe`."""
    return [
        *_machine(),
        *_cache(),
        *_locks(),
        *_cpu_compiler(probed["numba"]),
        *_gpu(probed),
        *_programs(),
        *_extras(),
        *_engine_packages(registry),
        *_plugins(registry),
    ]


def report(found: Sequence[Finding]) -> str:
    """Return the findings as a table, with the commands that fix problems and enable more."""
    lines = list(table([(_SIGNS[one.state], one.what, one.found) for one in found]))
    for state, title in (("problem", "To fix:"), ("optional", "To enable more:")):
        fixes = [(one.what, one.fix) for one in found if one.state == state and one.fix]
        lines += ["", title, *table(fixes)] if fixes else []
    problems = sum(one.state == "problem" for one in found)
    devices = "the CPU and the GPU" if any(one.what == "CUDA driver" for one in found) else "the CPU"
    summary = f"Problems: {problems}." if problems else f"Everything that a comparison on {devices} needs is here."
    return "\n".join([*lines, "", summary])


def run_probe() -> dict[str, dict[str, Any]]:
    """Run the probe in a process of its own; if it fails, each of its results is that error."""
    command = [sys.executable, "-m", "harness.campaign.doctor_probe"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S, check=False)
        found: dict[str, dict[str, Any]] = json.loads(finished.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _failed(f"the probe failed: {error}")
    except ValueError:
        last = (finished.stderr.strip().splitlines() or ["no message"])[-1]
        return _failed(f"the probe ended with status {finished.returncode}: {last}")
    return found


def _failed(reason: str) -> dict[str, dict[str, Any]]:
    return {trial: {"error": reason} for trial in TRIALS}


def _machine() -> Iterator[Finding]:
    facts = environment()
    yield Finding("harness", f"{__version__}, commit {facts['commit'] or 'unknown'}, in {Path(__file__).parents[2]}")
    yield _python()
    system = platform.system()
    yield Finding("system", facts["system"], "ok" if system == "Linux" else "problem",
                  "" if system == "Linux" else "use Linux, for example in a container or in WSL 2")  # fmt: skip
    yield Finding("processor", f"{facts['cpu']}; {facts['usable_cores']} of {facts['cores']} cores usable")
    load = os.getloadavg()[0]
    if load > _BUSY:
        yield Finding("load", f"{load:.1f} cores busy: times will be marked as busy", "optional",
                      "end other work before a comparison")  # fmt: skip
    if facts["governor"] not in (None, "performance"):
        yield Finding("clock", f"frequency governor {facts['governor']}: clocks vary", "optional",
                      "sudo cpupower frequency-set -g performance")  # fmt: skip
    available = psutil.virtual_memory().available
    yield Finding("memory", f"{facts['memory'] / _GB:.1f} GB, {min(available, facts['memory']) / _GB:.1f} GB available")


def _python() -> Finding:
    """Return the running Python; one that the package was not tested with is allowed and noted."""
    running, found = "{}.{}".format(*sys.version_info), f"{platform.python_version()}, {sys.executable}"
    tested = tested_versions()
    if not tested or running in tested:
        return Finding("Python", found)
    fix = f"python{tested[-1]} -m venv .venv, and install the harness there"
    return Finding("Python", f"{found}; tested are {', '.join(tested)}", "optional", fix)


def tested_versions() -> list[str]:
    """Return the versions of Python that the metadata of the installed package names, such as 3.12."""
    begin = "Programming Language :: Python :: "
    try:
        named = metadata("onyx-harness").get_all("Classifier") or []
    except PackageNotFoundError:  # run from files that are not installed
        return []
    return [name.removeprefix(begin) for name in named if name.startswith(begin + "3.")]


def _cache() -> Iterator[Finding]:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        met = f"{folder} cannot be written: {error.strerror or error}"
        yield Finding("cache", met, "problem", f"export {CACHE_VARIABLE}=FOLDER")
        return
    free = shutil.disk_usage(folder).free / _GB
    full = free < _ROOM_GB
    yield Finding("cache", f"{folder}, {free:.0f} GB free", "problem" if full else "ok",
                  f"free some space, or export {CACHE_VARIABLE}=FOLDER on another disk" if full else "")  # fmt: skip


def _locks() -> Iterator[Finding]:
    """Yield the folder of locks; a cell refuses one that it cannot trust, or whose file system has no locks."""
    try:
        folder = lock_folder()
    except LockError as error:
        met, _, fix = str(error).partition("; ")
        yield Finding("locks", met, "problem", fix)
        return
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        met = f"files in {folder} cannot be locked: {error.strerror or error}"
        yield Finding("locks", met, "problem", f"export {LOCKS_VARIABLE}=FOLDER on a local disk")
    else:
        yield Finding("locks", str(folder))


def _cpu_compiler(numba: dict[str, Any]) -> Iterator[Finding]:
    if "error" in numba:
        yield Finding("CPU compiler", numba["error"], "problem", "pip install --force-reinstall numba")
    else:
        yield Finding("CPU compiler", f"Numba {numba['version']}")


def _gpu(probed: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """Yield driver, devices, CuPy and NVRTC. Without a GPU none of them is required."""
    driver, nvml, cupy, nvrtc = (probed[trial] for trial in ("driver", "nvml", "cupy", "nvrtc"))
    has_gpu = "error" not in driver
    lacks: State = "problem" if has_gpu else "optional"
    if not has_gpu:
        yield Finding("GPU", driver["error"], "optional")
    for device in driver.get("devices", []):
        memory = f"{device['memory'] / _GB:.0f} GB, compute capability {device['compute_capability']}"
        yield Finding(f"GPU {device['index']}", f"{device['name']}, {memory}")
    newest = driver.get("cuda", 0)
    right = "cuda12" if has_gpu and newest < 13_000 else "cuda13"
    install = f"pip install 'onyx-harness[{right}]'"
    if has_gpu:
        number = f"{nvml['driver']}, " if "driver" in nvml else ""
        yield Finding("CUDA driver", f"{number}supports CUDA up to {_cuda(newest)}")
        yield from _gpu_state(nvml, install)
    if "error" in cupy:
        yield Finding("CuPy", cupy["error"], lacks, install)
        return
    built = [name for name in ("cupy-cuda12x", "cupy-cuda13x") if installed_version(name)]
    yield Finding("CuPy", f"{cupy['version']} ({', '.join(built) or 'unknown build'})")
    if len(built) > 1 or (has_gpu and built == ["cupy-cuda13x"] and newest < 13_000):
        met = "several builds" if len(built) > 1 else f"the driver supports CUDA up to {_cuda(newest)}"
        yield Finding("CuPy build", met, "problem", f"pip uninstall -y {' '.join(built)} && {install}")
    if "error" in nvrtc:
        yield Finding("NVRTC", nvrtc["error"], lacks, install)
    else:
        yield Finding("NVRTC", f"{'.'.join(map(str, nvrtc['version']))}, compiles for {nvrtc['architecture']}")


def _gpu_state(nvml: dict[str, Any], install: str) -> Iterator[Finding]:
    """Yield what disturbs times on the first GPU, or why that cannot be known."""
    if "error" in nvml:
        met = f"{nvml['error']}: times on a GPU are not marked as shared or throttled"
        yield Finding("NVML", met, "optional", install)
    elif nvml.get("others"):
        met = f"{nvml['others']} other processes use GPU 0: times will be marked as shared"
        yield Finding("GPU load", met, "optional", "end the processes that nvidia-smi lists before a comparison")


def _programs() -> Iterator[Finding]:
    """Yield programs that some keys need."""
    for program, use, fix in (
        ("g++", "memory=model", "apt install g++"),
        ("ncu", "memory=counters on a GPU", "install NVIDIA Nsight Compute, and put ncu on the PATH"),
    ):
        path = shutil.which(program)
        if path:
            yield Finding(program, f"{path}, for {use}")
        else:
            yield Finding(program, f"not on the PATH; {use} needs it", "optional", fix)


def _extras() -> Iterator[Finding]:
    for extra, (use, modules) in EXTRAS.items():
        missing = [module for module in modules if not _installed(module)]
        if missing:
            names = ", ".join(name.rpartition(".")[2] for name in missing)
            yield Finding(f"[{extra}]", f"{use}; missing: {names}", "optional", f"pip install 'onyx-harness[{extra}]'")
        elif extra == "submitit" and shutil.which("sbatch") is None:
            yield Finding(f"[{extra}]", f"{use}; submitit_slurm also needs sbatch, which is not on the PATH")
        else:
            yield Finding(f"[{extra}]", use)


def _engine_packages(registry: Registry) -> Iterator[Finding]:
    """Report the modules that engines require, by the extra that installs them, or by engine without an extra.

    CuPy has lines of its own.
    """
    specs: dict[str, list[EngineSpec]] = {}
    for spec in registry.engines.values():
        if spec.install and "cupy" not in spec.requires:
            extra = re.search(r"\[\w+\]", spec.install)
            specs.setdefault(extra[0] if extra else f"engine {spec.name}", []).append(spec)
    for what, group in specs.items():
        missing = {module: spec.install for spec in group for module in spec.requires if not _installed(module)}
        use = f"engines {', '.join(sorted(spec.name for spec in group))}"
        if missing:
            yield Finding(what, f"{use}; missing: {', '.join(missing)}", "optional", next(iter(missing.values())))
        else:
            yield Finding(what, use)


def _plugins(registry: Registry) -> Iterator[Finding]:
    for name, reason in registry.quarantined.items():
        fix = f"repair or uninstall it, or export ONYX_HARNESS_BLOCK={name}"
        yield Finding(f"plugin {name}", f"does not load: {reason}", "problem", fix)
    specs = registry.engines.values()
    usable = [spec.name for spec in specs if all(map(_installed, spec.requires))]
    yield Finding("engines", f"{len(usable)} of {len(specs)} have all their modules: {', '.join(sorted(usable))}")


def _installed(module: str) -> bool:
    """Return whether a module can be found, without importing more than the packages that contain it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of a package that contains it
        return False


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"

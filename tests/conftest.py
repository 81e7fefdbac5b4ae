"""Fixtures of all tests: separate caches, and the command run as a user runs it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, settings
from hypothesis.strategies import none

from tests.processes import HANGS_S

if "PYTEST_XDIST_WORKER" in os.environ:  # otherwise each worker starts a BLAS thread per core
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Threads of kernels that wait for the next one would keep the cores from the other worker: a third of the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "numpy" in sys.modules:  # another plugin of pytest has imported it, and BLAS has started its threads
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)

pytest_plugins = ("pytester", "tests.selection", "tests.short_run", "tests.renewal")
ROOT = Path(__file__).parents[1]
FAKES = ROOT / "tests" / "campaign" / "fakes"

# Compilation leaves many long-lived objects; scanning them took a fifth of the compile time.
gc.set_threshold(100_000, 50, 100)

# No deadline, because machines may be slow or busy. Every run uses the same examples; search for new ones with pytest
# --hypothesis-profile=search.
settings.register_profile("repeated", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=False)
settings.load_profile("repeated")

HEEDING_SIGINT = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("harness", run_name="__main__", alter_sys=True)
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what tests produce out of the user's cache, unless the environment names one.

    Workers share a folder, and later runs reuse it: compiled modules are named by their content. ``pytest
    --cache-clear`` empties it. Without pytest's cache plugin the folder lasts for one run.
    """
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("onyx-harness") if cache else tmp_path_factory.getbasetemp() / "cache"
    os.environ.setdefault("ONYX_HARNESS_CACHE", str(folder))
    if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
        # Tests start many interpreters. Without bytecode, each takes 0.7 s to compile the modules that it imports.
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        # Each run of the conformance suite in this process imports the suite again.
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder / "bytecode")


def pytest_collection_finish() -> None:
    """Exclude the objects of all collected tests from garbage collection.

    Measuring, and pytest itself when a run in this process ends, collect all garbage. With 7,000 tests in memory that
    took 0.1 s of processor time each time, 0.35 s a cell and 0.5 s a run of pytest.
    """
    # Hypothesis makes its random numbers at the first example. Old versions then look for a reference to them, which
    # they do not find among objects that are excluded.
    find(none(), lambda _: True)
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter collect those objects when it ends; extension modules report what remains as leaked."""
    gc.unfreeze()


def pytest_runtest_setup() -> None:
    """Compile CPU kernels in another process, once a test has loaded what compiles them."""
    if "harness.lowering.cpu.module_source" in sys.modules:
        from tests.compiling import install

        install()


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a test begin with a cache that has the modules of the CPU and of the emulator only; return its folder."""
    from harness.cache import cache_folder

    folder, shared = tmp_path / "cache", cache_folder()
    folder.mkdir()
    shared.mkdir(parents=True, exist_ok=True)
    (shared / "cpu.lock").touch()
    for name in ("cpu", "emulated"):
        (shared / name).mkdir(exist_ok=True)
    for name in ("cpu", "cpu.lock", "emulated"):
        (folder / name).symlink_to(shared / name)
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(folder))
    return folder


@pytest.fixture
def harness_environment() -> dict[str, str]:
    """Return an environment in which the checkout and the plugin of fakes are installed."""
    path = os.pathsep.join(filter(None, [str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}


@pytest.fixture
def command(tmp_path: Path, harness_environment: dict[str, str]) -> Command:
    """Run ``onyx-harness`` in an empty folder: ``command("engine=fake_right", ..., env={...})``."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=tmp_path,
            env={**harness_environment, **(env or {})},
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )

    return run


@pytest.fixture
def interruptible(
    harness_environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``onyx-harness`` such that it reacts to Ctrl-C even if the tests were started with SIGINT ignored.

    Processes that a test leaves running are ended with it.
    """
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HEEDING_SIGINT, *arguments],
            cwd=tmp_path,
            env={**harness_environment, **env},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()

"""The built-in engines and the third-party example pass the suite, in this process.

The whole suite compiles many kernels, so that compiled engines run all of it under ``-m full``. By default they run
the protocol with one program, the checks of the plugin's specification, and the checks of what ``close`` releases and
of exhausted memory; tests/engines compares their answers.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.conformance.__main__ import main
from harness.plugins import load_plugins
from tests.conftest import ROOT

INTERPRETED = ["scipy"]
COMPILED = [
    "onyx direction=pull", "onyx direction=push", "onyx direction=push change_driven=false", "onyx fold=false",
    "onyx feature_aware=false", "gunrock", "tigr", "simdx", "simdx warp_degree=3 block_degree=9",
]  # fmt: skip
PROTOCOL = [
    "onyx direction=pull", "onyx change_driven=false", "onyx direction=push", "onyx direction=push change_driven=false",
    "onyx change_driven=false panel=2", "gunrock", "tigr", "simdx warp_degree=3 block_degree=9", "torch",
]  # fmt: skip
# The engines that compile CPU kernels are released by the same code.
RELEASED = [
    "onyx direction=pull",
    "torch",
    *(pytest.param(name, marks=pytest.mark.full) for name in ("gunrock", "tigr", "simdx")),
]
SOLVERS = ["scipy_graph", "krylov", "networkit", "scikit_network", "networkx", "igraph", "graphblas"]
WHOLE_RUNS = [pytest.param(f"onyx {option}", marks=pytest.mark.full) for option in ("hooking=true", "order=near_far")]
OUT_OF_MEMORY = "when memory runs out: MemoryError, and the next run is right"


@pytest.fixture
def conforms(capsys, tmp_path, monkeypatch):
    """Run the suite on an engine in an empty folder, which stays empty; return the report of a pass."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # scanning entry points takes long

    def report(engine: str, *for_pytest: str) -> str:
        for module in load_plugins().engine(engine.split()[0]).requires:
            pytest.importorskip(module, reason=f"engine {engine!r} needs the module {module!r}")
        status = main([*engine.split(), "--", "-q", *for_pytest])
        output = capsys.readouterr().out
        assert status == 0, output
        assert " passed" in output.splitlines()[-1]
        assert not list(tmp_path.iterdir())
        return output

    return report


@pytest.mark.parametrize("engine", INTERPRETED)
def test_an_interpreted_engine_passes(engine, conforms):
    output = conforms(engine)
    assert "it declares itself deterministic" in output
    assert OUT_OF_MEMORY in output


@pytest.mark.parametrize("engine", PROTOCOL)
def test_an_engine_keeps_the_protocol(engine, conforms):
    output = conforms(engine, "-k", "test_protocol and settling")
    assert "skipped" not in output.splitlines()[-1]


@pytest.mark.parametrize("engine", RELEASED)
def test_an_engine_is_described_and_releases_everything(engine, conforms):
    assert OUT_OF_MEMORY in conforms(engine, "-k", "test_specification or test_release")


@pytest.mark.parametrize("engine", [*SOLVERS, *WHOLE_RUNS])
def test_an_engine_that_solves_the_whole_problem_keeps_the_protocol(engine, conforms):
    conforms(engine, "-k", "test_specification or (test_protocol and not repeat)")


@pytest.mark.parametrize("engine", ["lonestar order=levels", "surprise"])
def test_an_engine_of_steps_in_place_passes(engine, conforms):
    output = conforms(engine, "-k", "test_steps_in_place or test_specification or sgd_mf or supports_something")
    assert "supports 1 of" in output


@pytest.mark.full
@pytest.mark.parametrize("engine", SOLVERS)
def test_an_engine_that_solves_the_whole_problem_passes(engine, conforms):
    assert OUT_OF_MEMORY in conforms(engine)


@pytest.mark.full
@pytest.mark.parametrize("engine", [*COMPILED, "torch"])
def test_a_compiled_engine_passes(engine, conforms):
    output = conforms(engine)
    assert "it declares itself deterministic" in output or engine == "torch"
    assert OUT_OF_MEMORY in output


@pytest.mark.full
def test_the_third_party_example_passes(tmp_path):
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(site), str(ROOT / "tests" / "thirdparty")],
        check=True, capture_output=True,
    )  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-m", "harness.conformance", "example"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "supports 19 of 28 programs" in finished.stdout
    assert OUT_OF_MEMORY in finished.stdout

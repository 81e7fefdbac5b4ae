"""The built-in engines and the third-party example pass the suite.

The compiled ones take minutes, so that the whole of it is run under ``-m full``; by default each goes through what
their own tests do not look at: what the plugin says, what is left after ``close``, what happens without memory.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

INTERPRETED = ["scipy"]
COMPILED = [
    "onyx direction=pull", "onyx direction=push", "onyx direction=push change_driven=false", "onyx fold=false",
    "onyx feature_aware=false", "gunrock", "tigr", "simdx", "simdx warp_degree=3 block_degree=9",
]  # fmt: skip
QUICK = ["onyx direction=pull", "gunrock", "tigr", "simdx"]
OTHERS_LOOK_AT_THE_REST = ["--", "-k", "test_specification or test_release"]


def conformance(*arguments: str, path: str = "", cwd: str | None = None) -> str:
    """The suite's report on an engine that passes."""
    finished = subprocess.run(
        [sys.executable, "-m", "harness.conformance", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}, cwd=cwd,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "when memory runs out: MemoryError, and the next run is right" in finished.stdout
    return finished.stdout


@pytest.mark.parametrize("engine", INTERPRETED)
def test_an_interpreted_engine_passes(engine, tmp_path):
    assert "it declares itself deterministic" in conformance(*engine.split(), cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", QUICK)
def test_a_compiled_engine_is_described_and_lets_go(engine, tmp_path):
    assert " passed" in conformance(*engine.split(), *OTHERS_LOOK_AT_THE_REST, cwd=tmp_path).splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.parametrize("engine", COMPILED)
def test_a_compiled_engine_passes(engine):
    assert "it declares itself deterministic" in conformance(*engine.split())


@pytest.mark.parametrize(
    "asked", [pytest.param([], marks=pytest.mark.full), OTHERS_LOOK_AT_THE_REST], ids=["whole", "release"]
)
def test_pytorch_passes(asked, tmp_path):
    pytest.importorskip("torch", reason="engine 'torch' needs the module 'torch'")
    assert " passed" in conformance("torch", *asked, cwd=tmp_path).splitlines()[-1]


@pytest.mark.slow
def test_the_third_party_example_passes(tmp_path):
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(site), str(ROOT / "tests" / "thirdparty")],
        check=True, capture_output=True,
    )  # fmt: skip
    assert "supports 16 of 23 programs" in conformance("example", path=str(site))

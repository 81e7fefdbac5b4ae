"""An engine from a separate package: installed beside the harness, it takes part like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.records import read_records

EXAMPLE = Path(__file__).parents[1] / "thirdparty"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Return a folder into which the example has been installed, without a network."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(folder), str(EXAMPLE)],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def with_example(environment: dict[str, str], installed: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], str(installed)])}


def test_it_is_unknown_before_it_is_installed(command):
    finished = command("engine=example", "algorithm=pagerank", "graph=fake_ring", "features=2")
    assert finished.returncode == 2
    assert "no engine called 'example'" in finished.stderr


@pytest.mark.short_run(rows=1)
def test_it_runs_in_a_sweep_and_appears_in_the_table(command, harness_environment, installed, tmp_path):
    finished = command(
        "engine=example,example_blocked,fake_right", "algorithm=pagerank", "graph=fake_ring", "features=2",
        "baseline=fake_right", "measure.budget_s=0.01", env=with_example(harness_environment, installed),
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    table = finished.stdout.partition("records:")[0].splitlines()
    for name in ("example", "example (blocks=4)"):
        [cells] = [cells for line in table if name in (cells := [cell.strip() for cell in line.split("│")])]
        assert "ok" in cells
    outcomes = {record["labels"]["engine"]: record["outcome"] for _, record in read_records(tmp_path / "results")}
    assert outcomes == {"example": "ok", "example (blocks=4)": "ok", "fake_right": "ok"}


def test_help_shows_it(command, harness_environment, installed):
    finished = command("--help", env=with_example(harness_environment, installed))
    assert "NumPy, a block of destinations at a time" in finished.stdout
    assert "example_blocked" in finished.stdout

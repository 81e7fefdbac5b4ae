"""Persistent kernels, emulated. Blocks run one after another, so a kernel with a global barrier has one block."""

from __future__ import annotations

import sys

import pytest

from harness.graph.generators import grid
from tests.benchmarks import gpu_side_by_side
from tests.engines import test_persistent_on_cuda as on_cuda

TODAY = on_cuda.CASES[:2]


@pytest.mark.parametrize(
    ("name", "way", "features"),
    [pytest.param(*case, marks=() if case in TODAY else (pytest.mark.full,)) for case in on_cuda.CASES],
)
def test_the_run_is_the_same(name, way, features, emulated, monkeypatch):
    on_cuda.test_the_run_is_the_same(name, way, features, emulated, monkeypatch)


@pytest.mark.parametrize("way", ["all owners", pytest.param("all edges", marks=pytest.mark.full)])
def test_ranks_that_alternate_settle_in_the_same_superstep(way, emulated, monkeypatch):
    on_cuda.test_ranks_that_alternate_settle_in_the_same_superstep(way, "grid", emulated, monkeypatch)


@pytest.mark.full
def test_schedules_are_measured_side_by_side(emulated, monkeypatch, capsys):
    monkeypatch.setattr(gpu_side_by_side, "GRAPHS", {"small": lambda: grid(rows=6, columns=6)})
    monkeypatch.setattr(gpu_side_by_side, "compile_all", lambda *_: None)  # the emulator compiles otherwise
    arguments = ["--graphs", "small", "--algorithms", "bfs", "--ways", "launched,persistent", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["gpu_side_by_side", *arguments])
    assert gpu_side_by_side.main() == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("small ")]
    assert row[1] == "bfs"
    assert all(float(milliseconds) > 0 for milliseconds in row[-2:])

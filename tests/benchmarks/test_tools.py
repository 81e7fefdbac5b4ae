"""The commands that measure run to their end on small graphs, and print every row."""

from __future__ import annotations

import sys

import pytest

from harness.graph.generators import grid, rmat
from tests.benchmarks import second_thread, side_by_side
from tests.benchmarks.one_renderer import __main__ as one_renderer


def printed(command, arguments, capsys, monkeypatch):
    """Run the ``main`` of a module with arguments; return the lines it prints."""
    monkeypatch.setattr(sys, "argv", [command.__name__, *arguments])
    command.main()
    return capsys.readouterr().out.splitlines()


@pytest.mark.full
def test_engines_are_measured_side_by_side(capsys, monkeypatch):
    small = rmat(8)
    monkeypatch.setattr(side_by_side, "rmat", lambda: small)
    monkeypatch.setattr(side_by_side, "FEATURES", (4,))
    lines = printed(side_by_side, [], capsys, monkeypatch)
    [products] = [line.split() for line in lines if line.startswith("   4 ")]
    assert len(products) == 6
    for name in ("scipy", "onyx", "gunrock", "tigr", "simdx", "onyx change_driven=False"):
        rows = [line for line in lines if line.startswith(f"    {name}  ")]
        assert len(rows) == len(side_by_side.WHOLE_RUNS)
        assert all(row.endswith("x") for row in rows)


def test_the_parts_of_a_second_thread_are_measured(capsys, monkeypatch):
    monkeypatch.setattr(second_thread, "open_graph", lambda _: grid(rows=20, columns=20))
    lines = printed(second_thread, ["--rounds", "1"], capsys, monkeypatch)
    assert "bfs, push, k = 8" in lines[0]
    assert lines[1].startswith("an empty launch: ")
    supersteps = [int(line.split()[-8]) for line in lines[3:]]
    assert sum(supersteps) >= 20  # the grid is that deep


@pytest.mark.full
@pytest.mark.skipif(one_renderer.wheel_compiler() is None, reason="the compiler's wheel is not installed: ziglang")
def test_two_renderers_are_compared(capsys, monkeypatch):
    small = ["--rounds", "1", "--scale", "8", "--algorithms", "PageRank", "--features", "8"]
    lines = printed(one_renderer, small, capsys, monkeypatch)
    assert sum(line.startswith("| PageRank |") for line in lines) >= 3

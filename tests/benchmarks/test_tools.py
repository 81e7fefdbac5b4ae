"""The commands that measure run to their end on small graphs, and print every row."""

from __future__ import annotations

import sys

import pytest

from harness.algorithms.bfs import BFS
from harness.contract import Device
from harness.graph.generators import grid
from tests.benchmarks import aggregation, near_far, orders_on_gpu, plans_on_gpu, second_thread
from tests.benchmarks.one_renderer import __main__ as one_renderer
from tests.benchmarks.workloads import ready


def printed(command, arguments, capsys, monkeypatch):
    """Run the ``main`` of a module with arguments; return the lines it prints."""
    monkeypatch.setattr(sys, "argv", [command.__name__, *arguments])
    command.main()
    return capsys.readouterr().out.splitlines()


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


def test_widths_of_near_far_are_measured(capsys, monkeypatch):
    lines = printed(near_far, ["--side", "20", "--widths", "1", "8", "--runs", "1"], capsys, monkeypatch)
    assert lines[0].startswith("grid_20x20: 400 vertices, ")
    assert [line.count(" supersteps, ") for line in lines[1:]] == [1, 1, 1]
    widths = [float(line.split("delta")[1].split(":")[0]) for line in lines[1:]]
    assert widths[1:] == pytest.approx([8 * widths[0], 2 * widths[0]], rel=0.02)  # the last is the default


def test_an_aggregation_is_timed_beside_scipy(capsys, monkeypatch):
    arguments = ["--graphs", "rmat", "grid", "--size", "8", "--features", "1", "--rounds", "1", "--supersteps", "2"]
    lines = printed(aggregation, arguments, capsys, monkeypatch)
    assert [line.split(" | ")[0] for line in lines[3:]] == ["| rmat_8", "| grid_16x16"]
    for line in lines[3:]:
        scipy, onyx, ratio = (float(cell) for cell in line.strip("| ").split(" | ")[3:])
        assert ratio == pytest.approx(scipy / onyx, rel=0.02, abs=0.01)  # of rounded numbers


@pytest.mark.full
def test_plans_are_timed_and_refusals_named(capsys, monkeypatch):
    small = ["--device", "cpu", "--graph", "grid:12", "--rounds", "1", "--plans"]
    lines = printed(plans_on_gpu, [*small, "gunrock", "onyx hooking", "onyx changes, push"], capsys, monkeypatch)
    assert lines[0].startswith("components, k = 1, grid_12x12")
    assert "us/superstep" in lines[1]
    assert lines[2].split()[-1] == "us", "hooking has no supersteps"
    assert "option balance has no meaning on the CPU" in lines[3]
    late = printed(plans_on_gpu, ["--seconds", "0", *small, "onyx"], capsys, monkeypatch)
    assert late[1:] == ["onyx: no time left"]


@pytest.mark.full
def test_orders_are_timed_side_by_side_and_their_answers_compared(capsys, monkeypatch):
    small = ["--device", "cpu", "--graphs", "roads:12", "--algorithms", "bfs", "components", "--plans", "supersteps"]
    lines = printed(orders_on_gpu, [*small, "near_far", "hooking", "tigr"], capsys, monkeypatch)
    assert [line.split(" k=1 grid_12x12 ")[0] for line in lines] == ["bfs", "components"]
    assert all(line.count("; ") == 3 + (line.startswith("components")) for line in lines), "bfs has no hooking"
    assert printed(orders_on_gpu, ["--seconds", "0", *small], capsys, monkeypatch) == [
        "bfs k=1 roads:12: no time left", "components k=1 roads:12: no time left",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "reason"),
    [(orders_on_gpu.PLANS["hooking"], "hooking: bfs"), (plans_on_gpu.PLANS["onyx adaptive"], "option balance has")],
)
def test_the_plans_of_both_commands_are_refused_with_the_reason(plan, reason):
    found = ready(plan, BFS(), grid(4, 4), 1, Device())
    assert isinstance(found, str)
    assert reason in found


def test_an_engine_that_is_ready_runs():
    engine = ready(orders_on_gpu.PLANS["near_far"], BFS(), grid(4, 4), 1, Device())
    engine.reset(BFS().inputs(grid(4, 4), 1))
    assert engine.run(99).settled
    engine.close()

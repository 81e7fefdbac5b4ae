"""Generated kernels of the CPU, run as Python, against the float64 reference after every superstep.

Each schedule and program of :mod:`tests.engines.test_operations` and of :mod:`tests.engines.test_changing_edges` is
among the rows, and long sums and hubs already begin at few terms.
"""

from __future__ import annotations

import importlib

import pytest

from harness.contract import No
from tests.engines import test_changing_edges as changing
from tests.engines import test_operations as operations
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import prepared
from tests.engines.programs import edges_and_loops, inputs_for, program_named
from tests.lowering import test_strips as strips
from tests.lowering.interpreted import interpret
from tests.lowering.test_cpu_plan import planned

RUN, HUB = 2, 4  # terms of a run of a sum, and in-edges of a vertex that is not a hub
SIZES = {"hubs.RUN": RUN, "reduction_loops.RUN": RUN, "kernels.RUN": RUN, "hubs.HUB": HUB}
FEATURES = (3, 8, 5, 1)
GENERATED = [
    (schedule, name, FEATURES[(i + i // 8) % len(FEATURES)])
    for i, (schedule, name) in enumerate(operations.TAKEN)
    if schedule not in ("scipy", "torch")
]
MAPPED = {f"{way}-mapped": ("onyx", {"direction": way, "edges": "mapped"}) for way in ("pull", "push")}
CHANGING = {**changing.STRATEGIES, **changing.MORE_STRATEGIES, **MAPPED}
STREAMED = ("pull-all", "pull", "push-all", "push", "gunrock", "tigr", "simdx")


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    interpret(monkeypatch)


def short_runs(monkeypatch):
    """Let runs of sums be short, and vertices of few in-edges be hubs."""
    for name, size in SIZES.items():
        module, _, constant = name.partition(".")
        monkeypatch.setattr(importlib.import_module(f"harness.lowering.cpu.{module}"), constant, size)


@pytest.mark.short_run(rows=48)
@pytest.mark.parametrize("runs", ["short", "usual"])
@pytest.mark.parametrize(("schedule", "name", "features"), GENERATED)
def test_operations(schedule, name, features, runs, monkeypatch):
    if runs == "short":
        short_runs(monkeypatch)
    operations.check(schedule, name, features)


@pytest.mark.short_run(rows=8, always="mapped-both ends")
@pytest.mark.parametrize("case", EDGE_PROGRAMS)
@pytest.mark.parametrize("strategy", CHANGING)
def test_programs_that_update_edges(strategy, case):
    changing.check_program(CHANGING[strategy], case)


@pytest.mark.short_run(rows=14)
@pytest.mark.parametrize("name", ["own_aggregate", "shortest_paths", "gathered_twice", "several_reductions"])
@pytest.mark.parametrize("schedule", STREAMED)
def test_windows_of_streamed_edges(schedule, name, monkeypatch):
    """Hubs are in several windows."""
    short_runs(monkeypatch)
    if name in operations.REFUSED.get(schedule, ()):
        return
    engine, options = operations.SCHEDULES[schedule]
    given = {**options, "edges": "streamed", "window_mb": 0.0003}
    monkeypatch.setitem(operations.SCHEDULES, "streamed", (engine, given))
    operations.check("streamed", name, 3)


@pytest.mark.parametrize("features", [33, 100])
@pytest.mark.parametrize("update", [strips.chained, strips.extremes])
def test_long_rows_in_strips(update, features, monkeypatch):
    strips.check_values(update, features, 8, monkeypatch)


def test_edges_that_a_run_reads_are_counted_once():
    graph = edges_and_loops()
    for schedule, (engine, options) in operations.SCHEDULES.items():
        if schedule in ("pull-all", "push-all", "pull-loops", "tigr", "simdx"):
            program = program_named("own_aggregate")
            running = prepared(engine, options, program, graph, 3)
            running.reset(inputs_for(program, graph, 3))
            found = running.run(2)
            assert [one.edges for one in found.supersteps] == [graph.num_edges] * 2, schedule


def test_without_feature_awareness_no_kernel_has_rows():
    """Features are processed in loops in kernels of all kinds."""
    rows, found = ("_load3(", "_zero3(", "_splat3("), 0
    for name in (*EDGE_PROGRAMS, "label_propagation", "feature_diffusion"):
        for options in ({"direction": "pull"}, {"direction": "push"}, {"direction": "push", "change_driven": True}):
            plans = [planned("onyx", {**options, "feature_aware": aware}, name) for aware in (False, True)]
            if isinstance(plans[0], No):
                continue
            found += 1
            for kernel in plans[0].kernels:
                copies = kernel.name.endswith("_commit") and "for e in" not in kernel.source
                if not (copies or kernel.name.startswith("clear_")):  # which compute nothing
                    assert not any(text in kernel.source for text in rows), kernel.name
            assert any(text in kernel.source for text in rows for kernel in plans[1].kernels)
    assert found > 2 * len(EDGE_PROGRAMS)

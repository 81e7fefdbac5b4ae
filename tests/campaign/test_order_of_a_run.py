"""Cells whose plan solves the whole problem: they run, or by supersteps where a cell needs them, which is recorded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onyx_harness
from engines.onyx.cpu_engine import OnyxCpuEngine
from engines.onyx.cpu_hooking import HookingCpuEngine
from engines.onyx.engine import OnyxEngine
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from engines.onyx.tuning import TunedEngine
from harness.algorithms.bfs import BFS
from harness.api import Algorithm, Inputs
from harness.campaign.application import main
from harness.campaign.cell import Warm
from harness.contract import Device, Unsupported, Yes
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import K, minimum, trace
from harness.lowering.cpu.near_far import NearFarCpuEngine
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture

ROADS = {"name": "grid", "rows": 24, "columns": 24, "removed": 0.2}


@pytest.fixture(autouse=True)
def slow_supersteps(monkeypatch):
    """Let the default leave supersteps wherever it may, with estimates of 1 ms for each."""
    slow = replace(DEFAULT, cpu_supersteps_s=(1e-3, 0, 0, 0), visiting_s=(0, 1e-3, 0, 0))
    monkeypatch.setattr(OnyxEngine, "policy", slow)


@pytest.fixture
def fields_of(report_of):  # noqa: F811
    """Return the report of a cell of Onyx: ``fields_of(key=value, schedule options as a dict)``."""

    def run(options=None, algorithm="sssp", **changes):
        config = {
            "algorithm": {"name": algorithm}, "features": 1, "graph": ROADS,
            "engine": {"name": "onyx", **(options or {})},
            "measure": {"repetitions": 6, "budget_s": 1e-6, "warmup_s": 1e-6},
        }  # fmt: skip
        return report_of(OnyxEngine, "onyx", config, **changes)

    return run


def test_the_default_is_checked_timed_and_not_counted(fields_of):
    fields = fields_of()
    assert fields["outcome"] == "ok", fields["reason"]
    assert (fields["settled"], fields["supersteps"]) == (True, [])
    assert fields["validation"]["ok"]
    assert fields["schedule"]["order"] == "near_far"
    assert "as in a plane" in fields["schedule"]["order_reason"]
    assert dict(fields["schedule"]["order_estimates"]).keys() == {"supersteps", "near_far"}
    assert fields.get("resolution") is None


def test_components_are_found_by_hooking_or_by_supersteps(fields_of):
    fields = fields_of(algorithm="components")
    assert fields["outcome"] == "ok", fields["reason"]
    assert (fields["schedule"]["hooking"], fields["supersteps"]) == (True, [])
    assert dict(fields["schedule"]["order_estimates"]).keys() == {"supersteps", "hooking"}
    fields = fields_of(algorithm="components", max_supersteps=2)
    assert (fields["outcome"], len(fields["supersteps"])) == ("ok", 2), fields["reason"]
    assert fields["resolution"]["resolved"] == {"order": "supersteps"}
    requested = fields_of({"order": "supersteps"}, algorithm="components", max_supersteps=2)
    assert fields["identity"] == requested["identity"], "that of the schedule that ran"


NEEDS = {
    "a limit": ({"max_supersteps": 3}, "so it cannot stop after 3 supersteps", 3),
    "a warm start": ({"warm": Warm(0.01, "mixed", 0)}, "so it cannot run warm", None),
    "memory": ({"memory": "model"}, "memory transactions are counted for a superstep", None),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_cell_that_needs_supersteps_takes_them_and_says_why(fields_of, name):
    changes, reason, count = NEEDS[name]
    fields = fields_of(**changes)
    assert fields["outcome"] == "ok", fields["reason"]
    assert (fields["resolution"]["requested"], fields["resolution"]["resolved"]) == (
        {"order": None}, {"order": "supersteps"},
    )  # fmt: skip
    assert reason in fields["resolution"]["reason"]
    assert fields["schedule"]["order"] == "supersteps"
    assert fields["supersteps"], "they are counted"
    assert count is None or len(fields["supersteps"]) == count
    if name == "memory":
        assert fields["memory"]["model"], "they are counted"


def test_an_order_that_is_given_is_kept_or_refused(fields_of):
    fields = fields_of({"order": "near_far"}, max_supersteps=3)
    assert fields["outcome"] == "unsupported"
    assert "cannot stop after 3 supersteps" in fields["reason"]
    fields = fields_of({"order": "supersteps"}, max_supersteps=3)
    assert (fields["outcome"], fields.get("resolution")) == ("ok", None)
    assert "order_reason" not in fields["schedule"]
    fields = fields_of({"order": "near_far"}, memory="model")  # the times remain
    assert (fields["outcome"], fields["schedule"]["order"]) == ("ok", "near_far")
    reason = "memory transactions are counted for a superstep, and engine 'onyx' solves the whole problem"
    assert fields["memory"] == {"model": None, "counters": None, "reason": reason}


def test_a_sampled_check_is_of_the_final_state(fields_of):
    fields = fields_of(validate="sampled")
    assert fields["outcome"] == "ok", fields["reason"]
    assert fields["schedule"]["order"] == "near_far"
    assert "a superstep more in float64" in fields["validation"]["against"]


def test_an_explanation_has_the_order_that_the_cell_runs_in(capsys):
    def explained(*more):
        assert main(["explain", "engine=onyx", "algorithm=bfs", "graph=grid", "features=1", *more]) == 0
        return capsys.readouterr().out

    assert "order: near_far, chosen by the engine: " in explained()
    text = explained("max_supersteps=3")
    assert "resolved: engine.order=supersteps instead of engine.order=null: " in text
    assert "cannot stop after 3 supersteps" in text
    assert "near-far: leaves" not in text
    assert "resolved: engine.order=supersteps" in explained("memory=model")


# memory ---------------------------------------------------------------------------------------------------------------
MUCH = 1 << 60


@pytest.fixture
def large(monkeypatch):
    """Let near-far and hooking need more memory than any machine has."""
    for made in (NearFarCpuEngine, HookingCpuEngine):
        monkeypatch.setattr(made, "bytes_needed", lambda *_: MUCH)


@pytest.mark.parametrize("algorithm", ["sssp", "components"])
def test_an_order_whose_memory_does_not_fit_is_replaced_by_supersteps(large, fields_of, algorithm):
    fields = fields_of(algorithm=algorithm)
    assert fields["outcome"] == "ok", fields["reason"]
    assert fields["supersteps"]
    assert fields["schedule"]["order"] == "supersteps"
    assert fields["bytes_needed"] < 1 << 30, "those of the plan that ran"
    resolution = fields["resolution"]
    assert (resolution["requested"], resolution["resolved"]) == ({"order": None}, {"order": "supersteps"})
    assert resolution["reason"].startswith(f"the engine needs {MUCH:,} bytes, and the limit is ")


def test_memory_of_an_order_that_is_given_is_refused(large, fields_of):
    for options in ({"order": "near_far"}, {"hooking": True}):
        fields = fields_of(options, algorithm="components")
        assert fields["outcome"] == "out_of_memory"
        assert fields["reason"].startswith(f"the engine needs {MUCH:,} bytes, and the limit is ")
        assert (fields.get("resolution"), fields["bytes_needed"]) == (None, MUCH)


def test_memory_that_supersteps_exceed_too_is_refused_with_the_first_reason(large, fields_of, monkeypatch):
    monkeypatch.setattr(OnyxCpuEngine, "supports", lambda *_: Yes(MUCH + 1))
    fields = fields_of()
    assert (fields["outcome"], fields.get("resolution")) == ("out_of_memory", None)
    assert f"needs {MUCH:,} bytes" in fields["reason"]
    fields = fields_of(max_supersteps=3)  # which supersteps would run
    assert fields["outcome"] == "out_of_memory"
    assert f"needs {MUCH + 1:,} bytes" in fields["reason"]


def test_a_run_in_process_takes_supersteps_if_the_memory_of_another_order_does_not_fit(large):
    result = onyx_harness.run("onyx", "bfs", grid(12, 12), features=1)
    assert (result.record["schedule"]["order"], result.supersteps > 1) == ("supersteps", True)
    assert result.record["resolution"]["reason"].startswith(f"the engine needs {MUCH:,} bytes, and this machine has ")
    with pytest.raises(MemoryError, match=f"the engine needs {MUCH:,} bytes, and this machine has"):
        onyx_harness.run("onyx", "bfs", grid(12, 12), features=1, schedule={"order": "near_far"})


def test_an_explanation_has_the_order_whose_memory_fits(large, capsys):
    assert main(["explain", "engine=onyx", "algorithm=bfs", "graph=grid", "features=1"]) == 0
    text = capsys.readouterr().out
    assert f"resolved: engine.order=supersteps instead of engine.order=null: the engine needs {MUCH:,} bytes" in text
    assert "near-far: leaves" not in text


def test_an_explanation_for_a_gpu_that_is_not_here_knows_the_limits_of_the_cell(capsys):
    """On a lattice of 256 x 256, near-far holds more for each vertex than supersteps."""
    cell = ["engine=onyx", "algorithm=bfs", "graph=grid", "graph.rows=256", "graph.columns=256", "features=1"]
    graph, bfs = grid(256, 256), trace(BFS())
    whole, steps = (
        OnyxEngine(OnyxSchedule(order=order)).supports(bfs, graph, 1, Device("cuda")).bytes_needed
        for order in ("near_far", "supersteps")
    )
    assert steps < whole

    def explained(limit):
        assert main(["explain", *cell, "device=cuda", f"limits.device_memory_gb={limit / 1e9}"]) == 0
        return capsys.readouterr().out

    assert "order: near_far, chosen by the engine: " in explained(whole + 1)
    text = explained((whole + steps) / 2)
    assert "resolved: engine.order=supersteps instead of engine.order=null: the engine needs " in text
    assert "bytes on the GPU, and the limit is " in text


# inputs that near-far refuses -----------------------------------------------------------------------------------------
class Heights(Algorithm):
    """Shortest paths over lengths that may be negative, without cycles of a negative length: differences of heights."""

    name = "heights_in_a_test"

    def build(self, p):
        p.edge("climb")
        p.vertex("start", K)
        p.vertex("best", K, start="start")

        @p.over_edges(into="offered", reduce="min")
        def offer(src, edge):
            return src.best + edge.climb

        @p.over_vertices
        def take(v):
            return {"best": minimum(v.best, v.offered)}

        p.until_settled(at_most=1_000_000)
        p.output("best", bound=1e-4)

    def inputs(self, graph, features):
        height = np.random.default_rng(1).integers(0, 50, graph.num_vertices).astype(np.float32)
        sources = graph.csr.row_of_edge.astype(np.int64)
        start = np.full((graph.num_vertices, features), np.inf, np.float32)
        start[0] = 0
        return Inputs({"climb": height[graph.csr.neighbours] - height[sources], "start": start})


def lattice():
    made = grid(12, 12)
    return Graph.from_edges(
        made.csr.row_of_edge.astype(np.int64), made.csr.neighbours, num_vertices=made.num_vertices, name="lattice"
    )


def test_negative_lengths_are_run_by_supersteps_which_the_record_says():
    result = onyx_harness.run("onyx", Heights, lattice(), features=1, validate=True)
    assert result.record["schedule"]["order"] == "supersteps"
    resolution = result.record["resolution"]
    assert (resolution["requested"], resolution["resolved"]) == ({"order": None}, {"order": "supersteps"})
    assert "may be better than the value of its source" in resolution["reason"]
    assert "'climb' from -" in resolution["reason"]


@pytest.fixture
def refusing(monkeypatch):
    """Let near-far time a phase of its own, and refuse the inputs."""
    prepare = NearFarCpuEngine.prepare

    def prepared(self, program, graph, features, device, phases):
        prepare(self, program, graph, features, device, phases)
        with phases("lists"):
            pass

    def refuse(*_):
        raise Unsupported("order=near_far: no such inputs")

    monkeypatch.setattr(NearFarCpuEngine, "prepare", prepared)
    monkeypatch.setattr(NearFarCpuEngine, "reset", refuse)


def test_the_preparation_of_a_refused_order_is_no_part_of_that_of_supersteps(refusing, fields_of):
    fields = fields_of()
    assert (fields["outcome"], fields["schedule"]["order"]) == ("ok", "supersteps"), fields["reason"]
    result = onyx_harness.run("onyx", "bfs", grid(12, 12), features=1)
    assert result.record["resolution"]["reason"] == fields["resolution"]["reason"] == "order=near_far: no such inputs"
    for phases in (fields["phases"], result.seconds):
        assert "lists" not in phases
        assert phases["refused"] > 0
        assert phases["compile"] >= 0
    assert "refused" not in onyx_harness.run("onyx", "pagerank", grid(12, 12), features=1).seconds


def test_negative_lengths_are_refused_if_near_far_is_given():
    with pytest.raises(Unsupported, match="may be better than the value of its source"):
        onyx_harness.run("onyx", Heights, lattice(), features=1, schedule={"order": "near_far"})


def test_a_run_in_process_takes_supersteps_for_a_limit():
    result = onyx_harness.run("onyx", "bfs", grid(12, 12), features=1, max_supersteps=4)
    assert result.record["schedule"]["order"] == "supersteps"
    assert "cannot stop after 4 supersteps" in result.record["resolution"]["reason"]
    assert onyx_harness.run("onyx", "bfs", grid(12, 12), features=1).record["schedule"]["order"] == "near_far"


def test_a_tuned_cell_whose_fastest_plan_has_supersteps_warms_up_and_counts_none(fields_of, monkeypatch):
    monkeypatch.setattr(TunedEngine, "_fastest", lambda self: "direction=pull change_driven=false")
    found = fields_of({"tune": True, "tune_s": 0.01}, algorithm="bfs")
    assert found["outcome"] == "ok", found["reason"]
    assert found["schedule"]["direction"] == "pull"
    assert found["solve"]["median"] > 0
    assert found["supersteps"] == []

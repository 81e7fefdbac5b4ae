"""Cells whose plan solves the whole problem: they run, or by supersteps where a cell needs them, which is recorded.

The default order of Onyx is chosen on a GPU. Here it is chosen on the CPU in the same way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engines.onyx.engine
import onyx_harness
from engines.onyx.engine import OnyxEngine
from engines.onyx.order_choice import chosen_order
from harness.api import Algorithm, Inputs
from harness.campaign.application import main
from harness.campaign.cell import Warm
from harness.contract import Unsupported
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import K, minimum
from harness.lowering.cpu.near_far import NearFarCpuEngine
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture

ROADS = {"name": "grid", "rows": 24, "columns": 24, "removed": 0.2}


@pytest.fixture(autouse=True)
def chosen_on_cpu(monkeypatch):
    """Choose the order of runs on a CPU as on a GPU whose supersteps take 1 ms."""

    def chosen(schedule, program, graph, features, _, policy):
        slow = replace(policy, visiting_s=(0, 1e-3, 0, 0))
        return chosen_order(schedule, program, graph, features, "cuda", slow)

    monkeypatch.setattr(engines.onyx.engine, "chosen_order", chosen)


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

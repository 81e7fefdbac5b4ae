"""Engines that solve the whole problem and count no supersteps: checked, timed and shown like all others."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest

from engines.libraries.krylov_engine import KrylovEngine
from engines.libraries.scipy_graph_engine import ScipyGraphEngine
from harness.campaign import measurement
from harness.campaign.accuracy import Distance, loosest_within
from harness.campaign.cell import Warm, resolve_cell
from harness.campaign.preflight import refusal
from harness.contract import RunStatistics, Unsupported
from harness.plugins import load_plugins
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture
from tests.campaign.test_cell import CONFIG


@pytest.fixture
def fields_of(report_of):  # noqa: F811
    """Return the report of a cell: ``fields_of(Engine, algorithm, key=value)``."""

    def run(engine, algorithm="pagerank", **changes):
        config = {
            "algorithm": {"name": algorithm}, "features": 2, "graph": {"name": "rmat", "scale": 6, "edge_factor": 4},
            "measure": {"repetitions": 6, "budget_s": 1e-6, "warmup_s": 1e-6},
        }  # fmt: skip
        return report_of(engine, "krylov", config, **changes)

    return run


@pytest.mark.parametrize(("engine", "algorithm"), [(KrylovEngine, "pagerank"), (ScipyGraphEngine, "bfs")])
def test_its_run_is_settled_checked_and_not_counted(fields_of, engine, algorithm):
    fields = fields_of(engine, algorithm)
    assert fields["outcome"] == "ok", fields["reason"]
    assert (fields["settled"], fields["supersteps"]) == (True, [])
    assert fields["validation"]["ok"]
    assert fields["schedule"]["way"] in engine.every_way, "the way that was chosen by timing is recorded"
    accuracy = fields.get("accuracy")
    if algorithm == "bfs":
        assert accuracy is None
    else:
        assert accuracy["superstep"] is None
        doublings = math.log2(accuracy["tolerance"] / 1e-4)  # of the program's tolerance
        assert 0 <= doublings <= 12
        assert 4 * doublings == pytest.approx(round(4 * doublings), abs=1e-6)
        assert accuracy["error"] <= accuracy["bound"]
        assert accuracy["solve"]["confidence"] > 0.9


def test_supersteps_cannot_be_requested(fields_of):
    fields = fields_of(KrylovEngine, max_supersteps=3)
    assert (fields["outcome"], "cannot stop after 3 supersteps" in fields["reason"]) == ("unsupported", True)
    fields = fields_of(KrylovEngine, warm=Warm(0.01, "mixed", 0))
    assert (fields["outcome"], "it cannot run warm" in fields["reason"]) == ("unsupported", True)


def test_a_sampled_check_is_of_its_final_state(fields_of):
    fields = fields_of(KrylovEngine, validate="sampled")
    assert fields["outcome"] == "ok", fields["reason"]
    assert "a superstep more in float64" in fields["validation"]["against"]


def test_inputs_that_a_library_refuses_are_unsupported(fields_of):
    class Refuses(KrylovEngine):
        def pose(self, inputs, state):
            raise Unsupported("no such inputs")

    fields = fields_of(Refuses)
    assert (fields["outcome"], fields["reason"]) == ("unsupported", "no such inputs")


class Remembers(ScipyGraphEngine):
    """Returns the first answer for all inputs."""

    def pose(self, inputs, state):
        if "_case" not in self.__dict__:
            super().pose(inputs, state)


class RemembersRanks(KrylovEngine):
    def pose(self, inputs, state):
        if "start" not in self.__dict__:
            super().pose(inputs, state)


@pytest.mark.parametrize(
    ("engine", "algorithm", "reason"),
    [(Remembers, "bfs", "lie beyond their start"), (RemembersRanks, "pagerank", "not at rest")],
)
@pytest.mark.parametrize("validate", [True, "sampled"])
def test_an_answer_that_is_remembered_whatever_the_inputs_is_wrong(fields_of, engine, algorithm, reason, validate):
    fields = fields_of(engine, algorithm, validate=validate)
    assert fields["outcome"] == "wrong"
    assert "on other inputs (rotated among the vertices), at the end: " in fields["reason"]
    assert reason in fields["reason"]


@pytest.mark.parametrize("answer", [
    RunStatistics(False), RunStatistics(True, [measurement.RunStatistics(True)]),
])  # fmt: skip
def test_a_run_that_is_not_settled_or_counts_is_malformed(fields_of, answer):
    class Misbehaves(KrylovEngine):
        def run(self, max_supersteps):
            super().run(max_supersteps)
            return answer

    fields = fields_of(Misbehaves)
    assert fields["outcome"] == "engine_error"
    assert "an engine that is not stepwise returns True without supersteps" in fields["reason"]


def test_the_refusal_of_a_missing_library_names_the_command_that_installs_it():
    registry = load_plugins()
    config = {**copy.deepcopy(CONFIG), "engine": {"name": "networkit"}, "algorithm": {"name": "bfs"}}
    config["graph"] = {"name": "rmat"}
    cell = resolve_cell(config, registry)
    spec = dataclasses.replace(registry.engine("networkit"), requires=("no_such_library",))
    reason = "engine 'networkit' needs the Python module 'no_such_library', which is not installed; install it with: "
    assert refusal(spec, cell) == f"{reason}pip install 'onyx-harness[peers]'"


# the search -----------------------------------------------------------------------------------------------------------
def probing(error_of, probes):
    def probe(factor):
        probes.append(factor)
        return Distance(error_of(factor) <= 1.0, error_of(factor), 1.0)

    return probe


def test_the_loosest_tolerance_within_the_bound_is_found():
    probes = []
    factor, at, beyond = loosest_within(probing(lambda factor: factor / 11.0, probes), Distance(True, 1 / 11, 1.0))
    assert 11.0 / 2**0.25 < factor <= 11.0
    assert at.error <= 1.0 < beyond.error
    assert len(probes) <= 6


def test_a_solver_that_takes_no_notice_of_the_tolerance_is_not_searched_further():
    probes = []
    assert loosest_within(probing(lambda _: 0.5, probes), Distance(True, 0.5, 1.0)) == (
        1.0,
        Distance(True, 0.5, 1.0),
        None,
    )
    assert probes == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]


def test_the_search_ends_where_every_tolerance_is_within_the_bound():
    probes = []
    factor, _, beyond = loosest_within(probing(lambda factor: 1 - 1 / factor, probes), Distance(True, 0.0, 1.0))
    assert (factor, beyond) == (4096.0, None)
    assert math.isfinite(np.sum(probes))

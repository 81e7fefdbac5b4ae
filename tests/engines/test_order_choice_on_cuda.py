"""The default order of Onyx on a GPU gives the values of supersteps, and inputs that near-far refuses are still run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onyx_harness
from engines.onyx.engine import OnyxEngine
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.sssp import SSSP
from harness.contract import Device, Phases
from harness.graph.generators import delaunay, grid, rmat
from harness.language import trace
from tests.campaign.test_order_of_a_run import Heights, lattice

pytestmark = pytest.mark.gpu
CUDA = Device("cuda", 0)
GRAPHS = {
    "roads": (lambda: grid(900, 900, removed=0.3), "near_far"),
    "mesh": (lambda: delaunay(300_000), "near_far"),
    "hubs": (lambda: rmat(18, symmetric=True, max_weight=9), "supersteps"),
}


@pytest.fixture
def slow(monkeypatch):
    """Let the default leave supersteps on small graphs."""
    monkeypatch.setattr(OnyxEngine, "policy", replace(DEFAULT, visiting_s=(0, 1e-3, 0, 0)))


def solved(algorithm, graph, **options):
    """Return the values, the options in the record, and whether supersteps were counted."""
    engine, program = OnyxEngine(OnyxSchedule(**options)), trace(algorithm)
    engine.prepare(program, graph, 1, CUDA, Phases())
    engine.reset(algorithm.inputs(graph, 1))
    statistics = engine.run(program.max_supersteps)
    assert statistics.settled
    found = engine.values(program.outputs[0]), dict(engine.resolved_options()), bool(statistics.supersteps)
    engine.close()
    return found


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("algorithm", [BFS(), SSSP()])
def test_the_default_gives_the_values_of_supersteps(name, algorithm):
    made, order = GRAPHS[name]
    graph = algorithm.prepare_graph(made())
    values, options, counted = solved(algorithm, graph)
    assert (options["order"], counted) == (order, order == "supersteps")
    expected, given, counted = solved(algorithm, graph, order="supersteps")
    assert (given["order"], counted) == ("supersteps", True)
    assert np.array_equal(values, expected)


@pytest.mark.parametrize("name", ["roads", "mesh"])
def test_components_of_meshes_are_found_by_hooking(name):
    algorithm = Components()
    graph = algorithm.prepare_graph(GRAPHS[name][0]())
    values, options, counted = solved(algorithm, graph)
    assert (options["hooking"], counted) == (True, False)
    expected, given, counted = solved(algorithm, graph, order="supersteps")
    assert (given["order"], counted) == ("supersteps", True)
    assert np.array_equal(values, expected)


def test_negative_lengths_are_run_by_supersteps_which_the_record_says(slow):
    result = onyx_harness.run("onyx", Heights, lattice(), features=1, device="cuda", validate=True)
    assert result.record["schedule"]["order"] == "supersteps"
    assert "may be better than the value of its source" in result.record["resolution"]["reason"]


@pytest.mark.parametrize("algorithm", ["sssp", "components"])
def test_values_remain_on_the_device(slow, algorithm):
    cupy = pytest.importorskip("cupy")
    result = onyx_harness.run("onyx", algorithm, grid(60, 60), features=1, device="cuda", array="cupy", validate=True)
    assert not result.record["supersteps"]
    assert isinstance(result.answer(), cupy.ndarray)

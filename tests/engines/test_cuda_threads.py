"""Engines on CUDA devices whose threads loop over features: their work distribution, and compilation of their
kernels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.contract import No
from harness.device.compilation import compiled
from harness.lowering.cuda.modules import headers
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, drives_changes, plan_of
from tests.engines.problems import SMALL, program, small
from tests.engines.programs import PROGRAMS, program_named, two_sides

BASELINES = [schedule for schedule, (engine, _) in SCHEDULES.items() if engine != "onyx"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")


def lowered(schedule, graph, algorithm="label_propagation"):
    plan = plan_of(cuda_engine(schedule), program(algorithm), graph, 4)
    return plan, {name: array for one in plan.tables for name, array in one.of(graph).arrays.items()}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("schedule", ["tigr", "tigr-short"])
def test_virtual_nodes_have_every_edge_once_and_few_each(schedule, name):
    graph, bound = small(name), SCHEDULES[schedule][1].get("degree_bound", 8)
    plan, arrays = lowered(schedule, graph)
    met = []
    nodes = (arrays[name].tolist() for name in ("node_source", "node_part"))
    for source, part in zip(*nodes, strict=True):
        first, last = graph.csr.offsets[source : source + 2].tolist()
        edges = range(first + part, last, -(-(last - first) // bound))
        assert 1 <= len(edges) <= bound
        met += edges
    assert sorted(met) == list(range(graph.num_edges))
    assert [one.of(graph).sides for one in plan.tables] == [[(0, len(arrays["node_source"]))]]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("schedule", ["simdx", "simdx-lists"])
def test_lists_have_every_vertex_once_by_in_degree(schedule, name):
    graph = small(name)
    plan, arrays = lowered(schedule, graph)
    degrees = {listed: graph.in_degrees[arrays[f"{listed}_vertices"]] for listed in ("small", "middle", "large")}
    met = np.concatenate([arrays[f"{listed}_vertices"] for listed in degrees])
    assert sorted(met.tolist()) == list(range(graph.num_vertices))
    warp, block = plan.schedule.warp_degree, plan.schedule.block_degree
    assert (degrees["small"] < warp).all()
    assert ((degrees["middle"] >= warp) & (degrees["middle"] <= block)).all()
    assert (degrees["large"] > block).all()


@pytest.mark.parametrize("schedule", BASELINES)
def test_sides_take_turns(schedule):
    """The vertices or virtual nodes of each side form separate work ranges that together cover all."""
    graph = two_sides()
    plan = plan_of(cuda_engine(schedule), program_named("sides"), graph, 4)
    for table in plan.tables:
        low, high = sorted(table.of(graph).sides)
        assert low[0] == 0, table
        assert low[1] == high[0], table


@pytest.mark.parametrize("schedule", ["gunrock", "gunrock-merge-path"])
def test_changes_are_summed_apart_from_the_sums_that_are_kept(schedule):
    """At a vertex of many edges each change is below the precision of the sum."""
    plan, _ = lowered(schedule, small("rmat"), "pagerank")
    takes = {kernel.name: set(kernel.arguments) for kernel in plan.kernels}
    assert "vertex_aggr" in takes["share"]
    assert "change_aggr" in takes["share_changes"]
    assert "vertex_aggr" not in takes["share_changes"]
    assert {"vertex_aggr", "change_aggr"} <= takes["collect_aggr"]


@pytest.mark.parametrize(("algorithm", "features", "ahead"), [
    ("pagerank", 1, 4), ("pagerank", 2, 2), ("pagerank", 4, 1), ("components", 64, 4), ("als_all", 1, 1),
])  # fmt: skip
def test_as_many_vertices_are_read_ahead_as_fit_registers(algorithm, features, ahead):
    engine = cuda_engine("tigr")
    plan = plan_of(engine, program(algorithm), small("rmat"), features)
    steps = [launch for launch in plan.launches if "@p.over_vertices" in launch.kernel.source]
    assert steps
    for launch in steps:
        assert launch.lanes == 1 / ahead
        assert ("v += threads_of_grid()" in launch.kernel.source) == (ahead == 1)
        assert (f"fetched[{ahead}];" in launch.kernel.source) == (ahead > 1)


def of_algorithms():
    """Return (algorithm, schedule), half of them marked as full; test_cuda_compilation.py compiles others."""
    for i, algorithm in enumerate(["pagerank", "label_propagation", "als_all"]):
        for j, schedule in enumerate(BASELINES):
            yield pytest.param(algorithm, schedule, marks=() if (i + j) % 2 == 0 else (pytest.mark.full,))


@linux
@pytest.mark.parametrize(("algorithm", "schedule"), list(of_algorithms()))
def test_kernels_compile(schedule, algorithm):
    check_compiles(schedule, program(algorithm), small("rmat"), 5)


@linux
@pytest.mark.full
@pytest.mark.parametrize("schedule", BASELINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operation_of_the_language_compiles(schedule, name):
    check_compiles(schedule, program_named(name), two_sides(), 3)


def check_compiles(schedule, traced, graph, features):
    engine = cuda_engine(schedule)
    plan = engine.plan(traced, graph.facts, features)
    if isinstance(plan, No):
        assert drives_changes(engine), plan.reason
        pytest.skip(plan.reason)
    taken = compiled(plan.source, headers(plan.templates), "sm_90").resources()
    assert set(taken) == {kernel.name for kernel in plan.kernels} | {"end_of_superstep"}

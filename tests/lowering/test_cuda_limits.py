"""Limits of plans for CUDA devices, each with the largest value that is planned and the first one that is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from harness.contract import Device, No
from harness.edge_places import EdgeOptions
from harness.facts import Degrees, GraphFacts
from harness.graph import Graph
from harness.language.program import EdgeReduce, EdgeUpdate
from harness.lowering.cuda.draft import MOST_LOCAL, MOST_SHARED, PlanDraft, refusal
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.layout import LaneGroupShape
from harness.lowering.cuda.ranges import Over, WorkRanges
from harness.lowering.cuda.run_start import start_fields
from harness.lowering.cuda.run_state import MOST_GROUPS
from harness.lowering.cuda.thread_planner import thread_setting
from harness.lowering.graph_store import GraphStore
from harness.lowering.setting import LoweredProgram
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import ALGORITHMS, new_engine, program, small
from tests.engines.programs import PROGRAMS, edges_and_loops, graph_for, traced
from tests.lowering.test_cpu_plan import example

WARP = 32


def refused(plan):
    """Return why a program is refused; empty if it is planned."""
    return plan.reason if isinstance(plan, No) else ""


def planned(name, facts, features=3, **options):
    return new_engine("onyx", options).on(Device("cuda")).plan(example(name), facts, features)


def drafted(traced_program, lanes=1, block=256, *, change_driven=False):
    """Return a draft for lane groups of some lanes."""
    lowered = LoweredProgram.of(traced_program, masked=True)
    setting = thread_setting(lowered, small("rmat").facts, 4, "pull", block=block, change_driven=change_driven)
    return PlanDraft(replace(setting, lane_group=LaneGroupShape(lanes, 1), feature_aware=lanes > 1))


def with_matrices(lanes, *floats):
    """Return a plan of kernels that need some floats of shared memory, or of their own, for each lane group."""
    draft = drafted(program("pagerank"), lanes)
    for number, count in enumerate(floats):
        draft.add(CudaKernel(f"kernel_{number}", (), tile_floats=count), Over.VERTICES)
    return draft.finish(None, FOLDER)


def test_vertex_ids_of_a_device_have_32_bits_with_a_sign():
    for count, too_many in (((1 << 31) - 1, False), (1 << 31, True)):
        reason = refusal(program("pagerank"), GraphFacts(count, 5, 2), 1)
        assert ("vertex ids take 32 bits" in reason) == too_many


@pytest.mark.parametrize("name", ["both ends", "pagerank"])
def test_ids_of_reverse_edges_have_32_bits(name):
    """Programs without reverse edges have more of them."""
    degrees = Degrees(((5, 1 << 30),))
    for edges in (1 << 32, (1 << 32) + 1):
        facts = GraphFacts(1 << 30, edges, 5, degrees, degrees, paired=True)
        too_many = name == "both ends" and edges > 1 << 32
        assert ("ids of reverse edges" in refused(planned(name, facts, change_driven=False))) == too_many


@pytest.mark.parametrize(
    ("floats", "threads"), [(880, 256), (881, 128), (1760, 128), (1761, 64), (3520, 64), (3521, 32), (14080, 32)]
)
def test_matrices_of_two_blocks_fit_in_the_shared_memory(floats, threads):
    """Four lane groups of eight lanes in a warp; the kernel that needs most decides."""
    assert MOST_SHARED == 4 * 4 * 14080
    plan = with_matrices(8, 3, floats, 0)
    assert plan.threads == threads
    named = {kernel.name: plan.shared_of(kernel) for kernel in plan.kernels}
    for number, count in enumerate((3, floats, 0)):
        assert named[f"kernel_{number}"] == 4 * count * 4 * (threads // WARP)


def test_matrices_that_do_not_fit_are_refused():
    assert "do not fit the shared memory" in refused(with_matrices(8, 0, MOST_SHARED // 16 + 1))
    assert refused(with_matrices(1, 0, MOST_LOCAL)) == ""
    assert with_matrices(1, 0, MOST_LOCAL).threads == 256
    assert "do not fit a thread" in refused(with_matrices(1, 0, MOST_LOCAL + 1))


def reductions(count):
    """Return a program with some reductions along edges."""

    def build(p, self):
        p.vertex("x", start=1.0)
        for number in range(count):
            p.over_edges(into=f"got_{number}", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": 0.5 * v.x + sum(getattr(v, f"got_{number}") for number in range(count))})
        p.repeat(2)
        p.output("x", bound=1e-5)

    return traced(build, f"{count} reductions")


@pytest.mark.parametrize(("count", "change_driven"), [(16, True), (17, True), (17, False)])
def test_changes_are_tracked_for_a_limited_number_of_reductions(count, change_driven):
    """Stages on vertices do not count."""
    assert MOST_GROUPS == 16
    draft = drafted(reductions(count), change_driven=change_driven)
    reason = f"changes are tracked for 16 edge stages at most, and the program has {count}"
    assert refused(draft.finish(None, FOLDER)) == (reason if change_driven and count > 16 else "")


@dataclass(frozen=True, kw_only=True)
class Placed(EdgeOptions):
    """A schedule with the options of edges only."""


def test_places_that_no_gpu_has_are_named():
    reason = refused(drafted(program("pagerank")).finish(Placed(edges="sharded"), Path()))
    assert reason == "edges=sharded is not built on GPUs; give one of resident, mapped, streamed, managed"


# the work of supersteps -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*ALGORITHMS, *PROGRAMS, *EDGE_PROGRAMS])
def test_a_superstep_without_tracking_visits_the_edges_of_each_stage(name):
    """Each reduction visits the in-edges of the side that is updated, and each update of edges all edges."""
    graph = EDGE_PROGRAMS[name][1]() if name in EDGE_PROGRAMS else graph_for(name)
    plan = planned(name, graph.facts, direction="pull", change_driven=False)
    if isinstance(plan, No):
        assert plan.reason
        assert name not in ("pagerank", "sssp", "both ends", "gathered_twice")
        return
    stages = plan.program.stages
    reduced = sum(isinstance(stage, EdgeReduce) for stage in stages)
    updated = sum(isinstance(stage, EdgeUpdate) for stage in stages)
    fields = start_fields(plan, graph, {})
    for field, (first, last) in zip(("always", "always_odd"), (plan.sides[0], plan.sides[-1]), strict=True):
        inwards = int(np.sum(graph.in_degrees[first:last]))
        assert fields[field] == reduced * inwards + updated * graph.num_edges
    assert (fields["active"], fields["sides"]) == (graph.num_vertices, len(plan.sides))


def test_ranges_of_a_bipartite_graph_are_of_the_side_that_is_updated_and_of_the_other():
    sources = np.array([0, 0, 1, 2, 2, 2])
    graph = Graph.from_edges(sources, np.array([3, 4, 4, 3, 4, 6]), num_vertices=7, bipartite=(3, 4), name="two sides")
    ranges = WorkRanges(GraphStore(graph), ((0, 3), (3, 7)))
    found = {over: (ranges.bounds(over, 0), ranges.bounds(over, 1)) for over in Over}
    assert found[Over.VERTICES] == ((0, 3), (3, 7))
    assert found[Over.SOURCES] == ((3, 7), (0, 3))
    assert found[Over.ALL_VERTICES] == ((0, 7), (0, 7))
    assert found[Over.ALL_EDGES] == ((0, graph.num_edges),) * 2
    for side, (first, last) in enumerate(((0, 3), (3, 7))):
        start, stop = found[Over.IN_EDGES][side]
        assert (start, stop) == (int(graph.in_offsets[first]), int(graph.in_offsets[last]))
        other = ((3, 7), (0, 3))[side]
        assert found[Over.OUT_EDGES][side] == tuple(int(graph.csr.offsets[end]) for end in other)


def test_a_plan_of_one_side_has_both_ends_of_edges_on_it():
    graph = edges_and_loops()
    ranges = WorkRanges(GraphStore(graph), ((0, graph.num_vertices),))
    assert {ranges.bounds(over, 0) for over in (Over.VERTICES, Over.SOURCES)} == {(0, graph.num_vertices)}
    assert {ranges.bounds(over, 0) for over in (Over.IN_EDGES, Over.OUT_EDGES)} == {(0, graph.num_edges)}

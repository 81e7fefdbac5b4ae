"""Edge updates folded with the reductions of the next superstep: which programs allow it, and the launches."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_fused_next_superstep import FIRST_ALONE, fused_next_superstep
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.label_propagation import LabelPropagation
from harness.graph import Graph
from harness.language import Algorithm, K, ProgramBuilder, trace
from harness.lowering.accumulators import separated
from harness.lowering.cuda.launches import Launch, turned
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.ranges import Over
from harness.lowering.log_products import products_as_sums
from tests.engines.cuda_schedules import plan_of
from tests.engines.edge_programs import reduced_for_later
from tests.engines.programs import edges_and_loops, gathered_twice, traced


class Passing(Algorithm):
    """Sums edge values at vertices; ``reads``: what the sum reads in addition to the edge value."""

    name = "passing"

    reads: str = "nothing"
    order: str = "reduced first"

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight")
        p.vertex("start", K)
        p.vertex("x", K, start="start")
        p.edge("m", K, start=1.0)

        def gather() -> None:
            @p.over_edges(into="sum", reduce="sum")
            def gathered(src, edge, dst):
                more = {"nothing": 1.0, "weight": edge.weight, "source": src.x, "destination": dst.start}[self.reads]
                return edge.m * more

        def update() -> None:
            @p.over_edges(updates="m")
            def updated(src, edge):
                return 0.5 * edge.m + 0.25 * src.x

        (gather if self.order == "reduced first" else update)()

        @p.over_vertices
        def step(v):
            return {"x": 0.5 * v.x + 0.01 * v.sum} if self.order == "reduced first" else {"x": 0.9 * v.x}

        (update if self.order == "reduced first" else gather)()
        p.repeat(5)
        p.output("x", bound=1e-4)


def lowered(algorithm: Algorithm) -> Any:
    return separated(products_as_sums(trace(algorithm), masked=True))


@pytest.mark.parametrize(
    ("reads", "may"), [("nothing", True), ("weight", True), ("source", False), ("destination", False)]
)
def test_nothing_may_come_between(reads, may):
    assert (fused_next_superstep(lowered(Passing(reads=reads))) is not None) == may


def test_reductions_are_not_read_after_the_update():
    program = traced(reduced_for_later, "reduced for later")
    steps = {stage.name: stage for stage in program.stages}

    def of(*names):
        return fused_next_superstep(dataclasses.replace(program, stages=tuple(steps[name] for name in names)))

    assert of("gather", "before", "move") is None  # of a run's state
    passing = dataclasses.replace(program.properties["got"], role="temporary", start=None)
    program = dataclasses.replace(program, properties={**program.properties, "got": passing})
    assert of("gather", "before", "move") is not None
    assert of("gather", "move", "after") is None
    assert of("before", "gather", "move") is None
    (x,) = program.results
    with_results = dataclasses.replace(program, results=(x, dataclasses.replace(x, name="got")))
    assert (
        fused_next_superstep(
            dataclasses.replace(with_results, stages=tuple(steps[name] for name in ("gather", "before", "move")))
        )
        is None
    )


def test_other_programs_are_not_fused():
    assert fused_next_superstep(lowered(LabelPropagation())) is None
    assert fused_next_superstep(lowered(Passing(order="updated first"))) is None
    fused = lowered(Passing())
    assert fused_next_superstep(fused) is not None
    alternating = dataclasses.replace(fused.control, alternate=True)
    assert fused_next_superstep(dataclasses.replace(fused, control=alternating)) is None


def plan(algorithm: Algorithm, features: int = 4, **options: Any) -> CudaPlan:
    ends = np.arange(40)
    edges = np.concatenate([ends, (ends + 1) % 40]), np.concatenate([(ends + 1) % 40, ends])
    graph = Graph.from_edges(*edges, num_vertices=40, name="ring")
    engine = OnyxCudaEngine(OnyxSchedule(**{"change_driven": False, "balance": "edge", **options}))
    return plan_of(engine, trace(algorithm), graph, features)


def test_belief_propagation_reduces_separately_only_in_the_first_superstep():
    made = plan(BeliefPropagation())
    first = [kernel for kernel in made.kernels if kernel.unless == FIRST_ALONE]
    assert {kernel.name for kernel in first} == {"clear_aggr_log_reduced", "clear_aggr_zeros_reduced", "gather_log"}
    message = next(kernel for kernel in made.kernels if kernel.name == "message")
    assert {"vertex_aggr_log_reduced", "vertex_aggr_zeros_reduced", "next_csc_msg"} <= set(message.arguments)
    # the steps that read the reduction clear it for the update, which adds to it
    order = [launch.kernel.name for launch in made.launches]
    assert order.index("gather_log_copy") < order.index("message")
    steps = next(kernel for kernel in made.kernels if kernel.name == "gather_log_copy")
    for part in ("log", "zeros"):
        array = f"vertex_aggr_{part}_reduced"
        assert steps.source.count(f"{array} + ") == 2  # loaded, then stored
        assert f"store<4, 4>(group, {array} + (size_t)v * 4, aggr_{part}_reduced_identity);" in steps.source
        assert f"reduce_into<Add, 4>(group, {array} + (size_t)v * 4, aggr_{part}_reduced_total);" in message.source
        assert "if (whole)" not in message.source


def test_unread_reductions_are_not_fused():
    """Otherwise no step behind the reduction would clear its sums."""

    def unread(p, _):
        p.edge("msg", K, start=1.0)
        p.vertex("x", K, start=0.0)

        @p.over_edges(into="lost", reduce="sum")
        def lose(edge):
            return edge.msg

        @p.over_vertices
        def step(v):
            return {"x": 0.5 * v.x}

        @p.over_edges(updates="msg")
        def message(src, edge):
            return edge.msg + src.x

        p.repeat(3)
        p.output("x", bound=1e-5)

    assert fused_next_superstep(products_as_sums(traced(unread, "unread"))) is None


@pytest.mark.parametrize(("features", "abreast"), [(1, 32), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1), (100, 1)])
def test_lane_groups_go_abreast_where_rows_along_edges_are_short(features, abreast):
    """So many lane groups that they fill a line of 128 bytes together; the lane groups of a block share runs evenly."""
    made = plan(BeliefPropagation(), features=features)
    message = next(kernel for kernel in made.kernels if kernel.name == "message")
    found = re.search(r"segments<\d+, \d+, (\d+), true>", message.source)
    assert found is not None
    assert int(found[1]) == abreast
    assert made.schedule.block_size // 32 * made.lane_group.per_warp % abreast == 0


def test_each_lane_group_has_its_own_edges_where_only_numbers_lie_along_edges():
    source = "".join(kernel.source for kernel in plan(LabelPropagation(seeds="random")).kernels)
    assert re.search(r"segments<\d+, \d+, 1, false>", source) is not None


@pytest.mark.parametrize("options", [{"fold": False}, {"direction": "push"}, {"balance": "warp"}])
def test_other_schedules_reduce_in_every_superstep(options):
    assert not any(kernel.unless == FIRST_ALONE for kernel in plan(BeliefPropagation(), **options).kernels)


def test_buffers_that_change_places_twice_are_where_they_were():
    launches = [Launch(None, Over.ALL_VERTICES, 1, swaps) for swaps in (("a",), ("a", "b"), (), ("c",), ("c",), ("c",))]
    assert turned(launches) == {"b", "c"}


def test_every_commit_turns_the_buffers_that_it_fills():
    """Two groups write one property while others read it: all kernels select its buffer by one counter."""
    engine = OnyxCudaEngine(OnyxSchedule(balance="warp"))
    made = plan_of(engine, traced(gathered_twice, "gathered twice"), edges_and_loops(), 4)
    assert {buffer.name: buffer.flips for buffer in made.buffers if buffer.flips} == {"vertex_x": "flips_vertex_x"}
    commits = [kernel for kernel in made.kernels if kernel.name.startswith("commit_")]
    assert len(commits) == 2
    assert all("{ ++flips_vertex_x[0]; }" in kernel.source for kernel in commits)

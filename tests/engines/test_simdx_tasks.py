"""The parts of SIMD-X style that need no CUDA device: which programs have active vertices, and residency."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.activity import Activity, activity
from engines.pullbaseline.simdx.cuda_engine import SimdxCudaEngine
from engines.pullbaseline.simdx.loops import AlternatingLoop
from engines.pullbaseline.simdx.task_run import by_degree
from harness.contract import Device, EngineFailure, No
from harness.device.compilation import compiled
from harness.language import K, maximum, minimum, where
from harness.lowering.cuda.modules import headers
from harness.lowering.cuda.residency import Residency
from tests.engines.cuda_schedules import plan_of
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import ALGORITHMS, program, small
from tests.engines.programs import edges_and_loops, traced, whole_graph


def extremum(step, *, reduce="min", message=lambda src: src.x + 1.0):
    """Return a program of one reduction and one step."""

    def build(p, self):
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")

        @p.over_edges(into="best", reduce=reduce)
        def send(src):
            return message(src)

        @p.over_vertices
        def take(v):
            return {"x": step(v)}

        p.until_settled(at_most=50)
        p.output("x", bound=0.0)

    return traced(build, "extremum")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_traversals_have_active_vertices_and_others_say_why_not(name):
    found = activity(program(name))
    assert isinstance(found, Activity) == (name in ("bfs", "sssp", "components", "kcore"))
    if isinstance(found, str):
        assert found


def test_the_program_decides_and_not_its_name():
    plain = activity(extremum(lambda v: minimum(v.x, v.best)))
    assert isinstance(plain, Activity)
    assert plain.votes
    assert plain.quiet
    downwards = activity(extremum(lambda v: maximum(v.x, v.best), reduce="max", message=lambda src: src.x - 1.0))
    assert isinstance(downwards, Activity)
    assert downwards.quiet
    growing = activity(extremum(lambda v: minimum(v.x, v.best), message=lambda src: 2.0 * src.x))
    assert isinstance(growing, Activity)
    assert not growing.votes
    assert not growing.quiet
    floor = activity(extremum(lambda v: minimum(minimum(v.x, v.best), 3.0)))
    assert isinstance(floor, Activity)
    assert not floor.votes
    assert "min(old, aggregate, constants)" in activity(extremum(lambda v: v.best))


def kcore_like(leaf, message=lambda src: src.alive):
    """Return a peeling program in which removed vertices have the value ``leaf``."""

    def build(p, self):
        p.vertex("alive", start=1.0)

        @p.over_edges(into="heard", reduce="sum")
        def count(src):
            return message(src)

        @p.over_vertices
        def peel(v):
            return {"alive": where(v.heard >= 2.0, v.alive, leaf(v))}

        p.until_settled(at_most=50)
        p.output("alive", bound=0.0)

    return traced(build, "peeling")


def test_sums_are_sent_as_differences_where_they_are_exact():
    assert isinstance(activity(kcore_like(lambda v: 0.0)), Activity)
    assert "rounded" in activity(kcore_like(lambda v: 0.3))
    assert "rounded" in activity(kcore_like(lambda v: 0.0, lambda src: 0.1 * src.alive))
    assert "rounded" in activity(kcore_like(lambda v: 0.5 * v.alive))
    assert isinstance(activity(kcore_like(lambda v: -1.0)), Activity)
    for leaf in (-2.0, 2.0):  # sums of larger integers are not known to be exact
        assert "rounded" in activity(kcore_like(lambda v, leaf=leaf: leaf))


@pytest.mark.parametrize(
    ("reduce", "message", "votes", "quiet"),
    [
        ("min", lambda src: src.x + 1.0, True, True),
        ("min", lambda src: 1.0 + src.x, True, True),
        ("min", lambda src: src.x, True, True),
        ("min", lambda src: src.x + 0.0, True, True),
        ("min", lambda src: src.x + -1.0, False, True),  # a message may be better than the start
        ("max", lambda src: src.x + -1.0, True, True),
        ("max", lambda src: src.x + 1.0, False, True),
        ("min", lambda src: src.x - 1.0, False, True),
        ("min", lambda src: maximum(src.x, 1.0), False, False),
        ("max", lambda src: minimum(src.x, 1.0), False, False),
    ],
)
def test_messages_decide_whether_one_is_enough_and_whether_the_identity_is_silent(reduce, message, votes, quiet):
    best = minimum if reduce == "min" else maximum
    found = activity(extremum(lambda v: best(v.x, v.best), reduce=reduce, message=message))
    assert isinstance(found, Activity), found
    assert (found.votes, found.quiet, found.adds) == (votes, quiet, False)
    assert found.identity == (float("inf") if reduce == "min" else float("-inf"))


def test_programs_that_are_bulk_synchronous_say_why():
    taken = extremum(lambda v: minimum(v.x, v.best))
    assert isinstance(activity(taken), Activity)
    control, (reduction, step) = taken.control, taken.stages
    tolerance = program("pagerank").control.tolerance
    for changed, why in (
        ({"control": replace(control, settles=False)}, "it does not run until nothing changes at all"),
        ({"control": replace(control, tolerance=tolerance)}, "it does not run until nothing changes at all"),
        ({"control": replace(control, alternate=True)}, "it alternates the sides of the graph"),
        ({"stages": (reduction,)}, "its superstep is not one reduction over edges and the vertices' steps after it"),
        ({"stages": (step, reduction)}, "its superstep is not one reduction over edges and"),
        ({"stages": (reduction, step, reduction)}, "its superstep is not one reduction over edges and"),
        ({"properties": {**taken.properties, "best": replace(taken.properties["best"], role="state")}}, "or is kept"),
    ):
        found = activity(replace(taken, **changed))
        assert isinstance(found, str), changed
        assert why in found


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_step_that_goes_on_by_itself_is_bulk_synchronous(by_itself):
    """An infected vertex recovers after one superstep, whether a message reaches it or not."""

    def build(p, self):
        p.vertex("x", start=0.0)
        p.over_edges(into="near", reduce="sum")(lambda src: src.x)

        @p.over_vertices
        def infect(v):
            infected = where(v.near > 0.5, 1.0, v.x)
            return {"x": where(v.x > 0.5, -1.0, infected) if by_itself else infected}

        p.until_settled(at_most=50)
        p.output("x", bound=0.0)

    found = activity(traced(build, "epidemic"))
    assert isinstance(found, Activity) is not by_itself
    if by_itself:
        assert "may change it again though nothing has reached the vertex" in found


@pytest.mark.parametrize("option", [{"filter": "jit"}, {"bin_size": 8}, {"pull_share": 0.2}, {"fusion": "all"}])
def test_programs_without_active_vertices_refuse_their_options(option):
    answer = SimdxCudaEngine(SimdxSchedule(**option)).supports(program("pagerank"), small("rmat"), 1, Device("cuda"))
    assert isinstance(answer, No)
    assert next(iter(option)) in answer.reason


def test_resident_blocks_by_registers():
    """The paper's example of eq. 1: 110 registers and 128 threads on a K40 are 60 blocks."""
    device = Residency(multiprocessors=15, registers=65536, registers_of_thread=110, threads=128, occupancy=16)
    assert device.blocks == 60
    assert device.take("push", None, "") == 60
    assert device.take("push", 7, "") == 7
    with pytest.raises(EngineFailure, match="60 blocks resident at once"):
        device.take("push", 61, "")
    with pytest.raises(EngineFailure, match="fusion=none"):
        Residency(15, 65536, 255, 1024, 0).take("push", None, "set fusion=none")


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
@pytest.mark.parametrize(
    ("algorithm", "features", "options"),
    [
        ("bfs", 5, {"filter": "online", "fusion": "all"}), ("kcore", 1, {"filter": "online", "fusion": "none"}),
        ("sssp", 20, {"filter": "ballot"}),
    ],
)  # fmt: skip
def test_filters_compile(algorithm, features, options):
    engine = SimdxCudaEngine(SimdxSchedule(**options))
    plan = plan_of(engine, program(algorithm), small("rmat"), features)
    found = compiled(plan.source, headers(plan.templates), "sm_90").resources()
    assert set(found) == {kernel.name for kernel in plan.kernels} | {"end_of_superstep"}
    assert all(taken["registers"] <= 65536 // plan.threads for taken in found.values())


def test_steps_that_do_not_wait_for_each_other_share_a_phase():
    """PageRank's phases: the sum over the graph, which its last block ends, with the messages; lists; ranks. The
    last block to arrive at the last barrier ends the superstep."""
    engine = SimdxCudaEngine(SimdxSchedule(fusion="push_pull"))
    source = plan_of(engine, program("pagerank"), small("rmat"), 1).source
    body = source[source.index("void __launch_bounds__(BLOCK) fused_pull") :]
    phases = body[: body.index("\n}\n")].split("barrier.wait();")
    names = ("note_rank(", "dangling(", "make(", "large(", "small(", "::rank(", "measure_rank(", "decide_settled(")
    calls = [[name for name in names if name in one] for one in phases]
    steps = [["dangling(", "make("], ["large(", "small("], ["::rank("]]
    measured = [["measure_rank("], ["decide_settled("]]  # by separate blocks, each after a barrier
    assert calls == [["note_rank("], *steps, *measured]
    assert phases[-1].count("barrier.wait([&] {") == 1


def test_edges_change_places_with_their_next_values():
    engine = SimdxCudaEngine(SimdxSchedule(fusion="push_pull"))
    graph = small("rmat").with_reverse_edges()
    plan = plan_of(engine, program("belief_propagation"), graph, 3)
    assert "odd ? next_csc_msg : csc_msg" in plan.source
    assert "odd ? csc_msg : next_csc_msg" in plan.source
    assert [launch.swaps for launch in plan.launches] == [("csc_msg",)]


def test_edges_that_change_places_twice_are_where_they_were():
    plan = fused("two updates", EDGE_PROGRAMS["two updates"][0])
    assert [launch.swaps for launch in plan.launches] == [("csc_trust",)]
    assert "odd ? next_csc_trust : csc_trust" in plan.source
    assert "odd ? next_csc_flow" not in plan.source


def test_reductions_in_one_phase_have_separate_tickets():
    """A block may complete the second one before another begins the first."""
    plan = fused("whole graph", whole_graph)
    assert {"ticket_top", "ticket_low", "ticket_moments"} <= set(plan.named)
    phase = plan.source[plan.source.index("fused_pull(") :].partition("barrier.wait();")[0]
    for name in ("top", "low", "moments"):
        (call,) = (line for line in phase.splitlines() if line.strip().startswith(f"::{name}(run, "))
        assert f", ticket_{name}, " in call


def fused(title, build):
    engine = SimdxCudaEngine(SimdxSchedule(fusion="push_pull"))
    return plan_of(engine, traced(build, title), edges_and_loops(), 1)


def test_vertices_are_in_one_of_three_lists_by_their_degrees():
    schedule, degrees = SimdxSchedule(warp_degree=3, block_degree=9), np.array([0, 2, 3, 8, 9, 10, 500])
    small, middle, large = (np.flatnonzero(mask).tolist() for mask in by_degree(degrees, schedule))
    assert (small, middle, large) == ([0, 1], [2, 3, 4], [5, 6])
    same = SimdxSchedule(warp_degree=4, block_degree=4)
    assert [np.flatnonzero(mask).tolist() for mask in by_degree(np.array([3, 4, 5]), same)] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("fields", "launches"),
    [
        ([(0, 3), (0, 10)], 2), ([(0, 3), (0, 11)], 2), ([(1, 3)], 1), ([(0, 9), (1, 9)], 2), ([(0, 0), (0, 0)], None),
        ([(0, 3), (0, 3)], None),
    ],
)  # fmt: skip
def test_fused_kernels_alternate_until_the_run_ends(fields, launches):
    """``fields``: whether the run has settled, and its superstep, after each launch. None: it stands still."""
    queued, left = [], iter(fields)
    loop = SimpleNamespace(launch=lambda _, names: queued.append(names), blocks={"fused_push": 3, "fused_pull": 2})
    state = SimpleNamespace(fields=lambda: dict(zip(("settled", "superstep"), next(left), strict=True)))
    if launches is None:
        with pytest.raises(EngineFailure, match=f"the fused kernels stand still at superstep {fields[0][1]}; run with"):
            AlternatingLoop.__call__(loop, SimpleNamespace(state=state), 0, 10)
    else:
        AlternatingLoop.__call__(loop, SimpleNamespace(state=state), 0, 10)
        assert len(queued) == launches
    assert queued[0] == ["fused_push", "fused_pull"] * 2

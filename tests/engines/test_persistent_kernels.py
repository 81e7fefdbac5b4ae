"""Persistent kernels of Onyx without a device: their phases, their registers, and the plans that have none."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_persistent import threads_at_once
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.pagerank import PageRank
from harness.contract import No
from harness.device.compilation import compiled
from harness.language import K
from harness.lowering.cuda.conditions import NEVER, Condition, dense, sparse, when
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.modules import headers
from harness.lowering.cuda.movement import Measuring
from harness.lowering.cuda.parameters import Parameter
from harness.lowering.cuda.persistent import _buffers, _work, persistent_kernel
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.run_extension import RunExtension
from tests.engines.cuda_modules import problem
from tests.engines.problems import program
from tests.engines.programs import edges_and_loops, traced

WAYS = {
    "pull edges": {"balance": "edge"},
    "pull": {"balance": "warp"},
    "push": {"direction": "push"},
    "adaptive": {"direction": "adaptive", "balance": "edge"},
    "all edges": {"change_driven": False, "balance": "edge"},
}
ALGORITHMS = (
    "bfs",
    "sssp",
    "components",
    "manifold_ranking",
    "pagerank",
    "label_propagation",
    "kcore",
    "multimodal",
    "belief_propagation",
    "als",
)
TODAY = (("pagerank", "pull edges", 1), ("manifold_ranking", "adaptive", 32))
# Steps of vertices with many edges are in the kernels too.
LISTS = replace(DEFAULT, hub_edges=(6, 6), middle_edges=2, middle_share=0.0, fewest_owners=1)


def planned(algorithm, features=1, **options):
    program, graph = problem(algorithm)
    engine = OnyxCudaEngine(OnyxSchedule(persistent=True, **options))
    engine.policy = LISTS if options.get("direction") == "adaptive" else engine.policy
    return engine.plan(program, graph.facts, features)


def phases(plan, names):
    """Return the steps that are called before every barrier of a superstep, and the conditions of the barriers."""
    body = plan.source[plan.source.index(" supersteps(") :]
    found = re.split(r"(?:if \((.*)\) )?barrier\.wait\(", body[: body.index("\n}\n")])
    return [[name for name in names if f"::{name}(" in part] for part in found[:-1:2]], found[1::2]


def test_steps_with_nothing_to_do_have_no_barrier():
    plan = planned("bfs", balance="edge")
    assert isinstance(plan, CudaPlan)
    assert plan.combined is not None
    steps = [launch.kernel.name for launch in plan.combined.steps]
    calls, conditions = phases(plan, steps)
    assert calls == [
        ["clear_nearest_untracked", "mark_visit"], ["visit_untracked"], ["clear_nearest"], ["visit"],
        ["visit_middle", "visit_dirty"],
        ["settle_untracked"], ["settle"],
    ]  # fmt: skip
    assert conditions[-1] is None  # the end of the superstep
    assert all(conditions[:-1])


@pytest.mark.parametrize(
    ("algorithm", "way", "sides"),
    [("belief_propagation", "pull edges", 1), ("pagerank", "pull", 1), ("bfs", "push", 1), ("als", "pull", 2)],
)
def test_every_step_has_bounds_of_its_own(algorithm, way, sides):
    """The launches of a superstep come first, then those that measure it."""
    plan = planned(algorithm, **WAYS[way])
    launches = [*plan.combined.steps, *plan.combined.measuring.launches]
    source = plan.source[plan.source.index(" supersteps(") :]
    for number, launch in enumerate(launches):
        (call,) = (line for line in source.splitlines() if f"::{launch.kernel.name}(" in line)
        bounds = [int(place) for place in re.findall(r"Id\(bound\[(\d+)\]\)", call)]
        ends = {"first", "last"} & set(launch.kernel.arguments)
        assert bounds == ([2 * number, 2 * number + 1] if ends else [])
    (buffer,) = (one for one in plan.buffers if one.name == "bounds")
    assert buffer.length == 2 * sides * len(launches)
    assert f"superstep % {sides} * {2 * len(launches)};" in source


@pytest.mark.parametrize(
    ("algorithm", "way"), [("belief_propagation", "pull edges"), ("pagerank", "pull"), ("bfs", "push")]
)
def test_an_array_is_constant_where_no_step_writes_it(algorithm, way):
    """A pointer to constants lets the compiler read through a cache that is not coherent."""
    plan = planned(algorithm, **WAYS[way])
    written, read = set(), set()
    for launch in plan.combined.steps:
        for kind, name in re.findall(r"(const \w+|\w+)\*(?: __restrict__)? (\w+)[,)]", signature(launch.kernel.source)):
            written |= set() if kind.startswith("const ") else {name}
            read |= {name} if kind.startswith("const ") else set()
    whole = plan.source[plan.source.index(" supersteps(") :]
    kinds = dict(
        reversed(pair) for pair in re.findall(r"(const \w+|\w+)\*(?: __restrict__)? (\w+)[,)]", whole.partition("{")[0])
    )
    assert {name for name in kinds if kinds[name].startswith("const ")} <= (read - written) | {"bounds"}
    assert written & kinds.keys() == {name for name in written & kinds.keys() if not kinds[name].startswith("const ")}
    assert (read - written) & kinds.keys()


def test_a_kernel_takes_the_shared_memory_of_its_largest_step():
    first, *others = planned("als", **WAYS["pull"]).combined.steps
    larger = replace(others[-1], kernel=replace(others[-1].kernel, tile_floats=9, thread_floats=7))
    made = persistent_kernel("supersteps", [first, *others[:-1], larger], 2, Measuring(), {}, RunExtension())
    assert (made.tile_floats, made.thread_floats) == (9, 7)


def test_steps_find_the_buffers_that_earlier_ones_have_swapped():
    def launch(*swaps):
        return Launch(
            CudaKernel("step", tuple(Parameter(name, "float*") for name in ("run", "x", "next_x", "y"))),
            Over.VERTICES,
            1.0,
            swaps,
        )

    pairs = {"x": "next_x", "next_x": "x", "y": "next_y"}
    launches = [launch(), launch("x"), launch("y"), launch("x"), launch()]
    places = [[list(one.values())[1:] for one in _buffers(launches, parity, pairs)] for parity in (0, 1)]
    plain, swapped = ["x", "next_x"], ["next_x", "x"]
    assert places[0] == [[*plain, "y"], [*plain, "y"], [*swapped, "y"], [*swapped, "next_y"], [*plain, "next_y"]]
    assert places[1] == [[*plain, "next_y"], [*plain, "next_y"], [*swapped, "next_y"], [*swapped, "y"], [*plain, "y"]]


def accented(p, self):
    p.vertex("größe", K, start=1.0)
    p.over_edges(into="süm", reduce="sum")(lambda src: src.größe)
    p.over_vertices(lambda v: {"größe": 0.5 * v.süm})
    p.repeat(3)
    p.output("größe", bound=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
def test_steps_take_arrays_whose_names_are_not_ascii():
    engine = OnyxCudaEngine(OnyxSchedule(persistent=True, **WAYS["pull"]))
    plan = engine.plan(traced(accented, "accented"), edges_and_loops().facts, 4)
    assert "vertex_größe" in {buffer.name for buffer in plan.buffers}
    assert "supersteps" in compiled(plan.source, headers(plan.templates), "sm_90").resources()


def signature(source):
    """Return the parameters of a kernel."""
    return source.partition("__launch_bounds__(BLOCK) ")[2].partition("{")[0]


def test_hubs_and_other_vertices_are_gathered_in_one_phase():
    engine = OnyxCudaEngine(OnyxSchedule(persistent=True, balance="warp"))
    engine.policy = replace(DEFAULT, hub_edges=(1, 1))
    program, graph = problem("label_propagation")
    plan = engine.plan(program, graph.facts, 1)
    calls, _ = phases(plan, ["spread_hubs", "spread"])
    assert ["spread_hubs", "spread"] in calls


def test_a_step_that_counts_a_frontier_is_behind_a_barrier():
    """A block that is late must not evaluate a condition on a frontier that others already count."""
    plan = planned("belief_propagation", balance="edge")
    names = [launch.kernel.name for launch in plan.combined.steps]
    calls, conditions = phases(plan, names)
    (at,) = (number for number, part in enumerate(calls) if "count_message" in part)
    assert None in conditions[:at]
    before = max(number for number in range(at) if conditions[number] is None)
    unless = {launch.kernel.name: launch.kernel.unless for launch in plan.combined.steps}
    assert not any(unless[name].frontier for part in calls[before + 1 : at + 1] for name in part)


@dataclass(frozen=True)
class Planned:
    """A step of a phase: its condition, and whether it counts a frontier."""

    statement: str
    condition: Condition
    counts: bool

    @property
    def launch(self):
        return SimpleNamespace(kernel=SimpleNamespace(counts_frontier=self.counts))


OF_RUN = st.sampled_from([NEVER, when("run->rebuilding"), when("b")])
OF_FRONTIER = st.sampled_from([sparse(0), dense(1), when("a") | sparse(2)])
PHASES = st.lists(  # a step that counts a frontier is in another phase than those whose conditions read one
    st.one_of(
        st.lists(st.tuples(OF_RUN, st.booleans()), min_size=1, max_size=3),
        st.lists(st.tuples(st.one_of(OF_RUN, OF_FRONTIER), st.just(False)), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(PHASES)
def test_no_block_counts_a_frontier_while_another_may_still_read_it(chosen):
    """Phases are separated by a barrier wherever a step of the former runs; the last one has none."""
    made = [
        [Planned(f"step_{n}_{i}();", condition, counts) for i, (condition, counts) in enumerate(phase)]
        for n, phase in enumerate(chosen)
    ]
    lines, counting = _work(made), [one.statement for phase in made for one in phase if one.counts]
    read = False  # since the latest barrier of all blocks
    for line in lines:
        assert not (read and any(statement in line for statement in counting)), lines
        read = (read or "sparse(" in line) and line != "barrier.wait();"
    calls = [[i for i, line in enumerate(lines) if f" step_{n}_" in f" {line}"] for n in range(len(made))]
    assert [len(found) for found in calls] == [len(phase) for phase in made]
    for phase, one, other in zip(made, calls, calls[1:], strict=False):
        between = lines[one[-1] + 1 : other[0]]
        assert any("barrier.wait();" in line for line in between)
        assert all(step.condition for step in phase) or "barrier.wait();" in between
    assert not any("barrier" in line for line in lines[calls[-1][-1] + 1 :])


# Bytes. In a plan that is no default NVRTC 13.2 finds no place for two variables in 64 registers, and 13.0 does.
KNOWN_SPILLS = {("kcore", "pull edges", 1): 8}


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
@pytest.mark.parametrize(
    ("algorithm", "way", "features"),
    [
        pytest.param(*case, marks=() if case in TODAY else (pytest.mark.full,))
        for case in dict.fromkeys([*TODAY, *((a, way, k) for a in ALGORITHMS for way in WAYS for k in (1, 8, 32))])
    ],
)
def test_persistent_kernels_do_not_spill(algorithm, way, features):
    plan = planned(algorithm, features, **WAYS[way])
    if isinstance(plan, No):
        pytest.skip(plan.reason)
    found = compiled(plan.source, headers(plan.templates), "sm_90").resources()["supersteps"]
    assert found["spills"] in (0, KNOWN_SPILLS.get((algorithm, way, features), 0))
    assert found["registers"] * plan.threads <= 65536


def test_kernels_that_need_a_whole_grid_are_refused():
    answer = planned("label_propagation", 128, balance="edge")
    assert isinstance(answer, No)
    assert "panels" in answer.reason


def test_few_edges_have_persistent_kernels_by_default_where_they_can():
    program, graph = problem("multimodal")
    facts = replace(graph.facts, num_edges=4 * graph.num_vertices, max_in_degree=DEFAULT.skewed_degree - 1)
    engine = OnyxCudaEngine(OnyxSchedule())
    found = {features: engine.plan(program, facts, features).schedule for features in (4, 64)}
    assert {features: (one.persistent, one.change_driven) for features, one in found.items()} == {
        4: (True, False),
        64: (False, False),  # a row takes a whole warp
    }
    engine.policy = replace(DEFAULT, measured_edges=facts.num_edges)
    assert engine.plan(program, facts, 4).schedule.persistent is False
    streamed = OnyxCudaEngine(OnyxSchedule(persistent=True, edges="streamed"))
    assert "edges=resident" in streamed.plan(program, graph.facts, 4).reason


@pytest.mark.full
def test_the_memory_model_counts_the_steps_of_a_persistent_kernel():
    program, graph = problem("pagerank")
    inputs = PageRank().inputs(graph, 1)
    found = {
        persistent: OnyxCudaEngine(OnyxSchedule(persistent=persistent)).memory_model(program, graph, 1, inputs)
        for persistent in (False, True)
    }
    assert set(found[True].kernels) == set(found[False].kernels)
    assert found[True].kernels["mark_share"] == found[False].kernels["mark_share"]


def test_explain_and_the_options_show_it():
    program, graph = problem("pagerank")
    engine = OnyxCudaEngine(OnyxSchedule(persistent=True))
    engine.planned = engine.plan(program, graph.facts, 1)
    assert engine.explain().startswith("persistent: one launch runs all supersteps, in steps dangling, ")
    assert engine.resolved_options()["persistent"] is True
    engine = OnyxCudaEngine(OnyxSchedule(persistent=False))
    engine.planned = engine.plan(program, graph.facts, 1)
    assert engine.resolved_options()["persistent"] is False
    assert "persistent:" not in engine.explain()


@pytest.mark.parametrize(
    ("name", "features", "tracks", "threads"),
    [
        ("bfs", 1, False, 1024), ("bfs", 2, False, 768), ("bfs", DEFAULT.long_row, False, 512),
        ("bfs", DEFAULT.long_tracked_row - 1, True, 768), ("bfs", DEFAULT.long_tracked_row, True, 512),
        ("belief_propagation", 1, False, 512),  # updates edges
        ("multimodal", 1, False, 512),  # sums matrices
    ],
)  # fmt: skip
def test_threads_that_must_fit_on_a_multiprocessor(name, features, tracks, threads):
    assert threads_at_once(program(name), features, DEFAULT, tracks=tracks) == threads

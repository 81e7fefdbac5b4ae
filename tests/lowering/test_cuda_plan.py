"""A plan for a CUDA device is a value that depends only on program, schedule and facts."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contract import Device, No
from harness.facts import GraphFacts
from harness.lowering.buffers import Holds
from harness.lowering.cuda.buffers import work
from harness.lowering.cuda.draft import PlanDraft
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.parameters import Parameter
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.thread_planner import thread_setting
from harness.lowering.setting import LoweredProgram
from tests.covering import covering
from tests.engines.cuda_modules import DECLARED, accepted, algorithms, pairs, problem
from tests.engines.cuda_schedules import cuda_engine, plan_of
from tests.engines.problems import new_engine, program, small
from tests.lowering.test_cpu_plan import FACTS, NAMES, SCHEDULES, example, unresolved

ATOMS = (str, int, float, NoneType, Enum, Path, frozenset)
FEATURES = (1, 8, 33, 128)


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("name", DECLARED)
def test_planning_twice_gives_equal_plans_and_changes_nothing_else(name, algorithm):
    traced_program, graph = problem(algorithm)
    facts, planned = graph.facts, 0
    for number, schedule in enumerate(covering(list(DECLARED[name].schedules()), pairs)):
        engine, features = DECLARED[name].build(schedule), FEATURES[number % len(FEATURES)]
        before = pickle.dumps((traced_program, facts, vars(engine)))
        first, second = (engine.plan(traced_program, facts, features) for _ in range(2))
        assert first == second
        assert pickle.dumps((traced_program, facts, vars(engine))) == before
        planned += not isinstance(first, No)
    assert bool(planned) == bool(accepted(DECLARED[name], algorithm))


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.sampled_from(SCHEDULES), FACTS, st.integers(1, 128))
def test_any_program_is_planned_from_facts_twice_alike(name, schedule, facts, features):
    """Without a graph, and hence without arrays."""
    traced_program, (engine_name, options) = example(name), schedule
    engine = new_engine(engine_name, dict(options)).on(Device("cuda"))
    before = pickle.dumps((traced_program, facts, vars(engine)))
    first = engine.plan(traced_program, facts, features)
    assert first == engine.plan(traced_program, facts, features)
    assert pickle.dumps((traced_program, facts, vars(engine))) == before
    if isinstance(first, No):
        assert first.reason
    else:
        assert mutable(first) == []
        assert first.bytes_needed > 0
        assert set(first.ping_pong.values()) <= first.named.keys()
        assert all(one.partner for one in first.buffers if one.flips)
        assert unresolved(engine_name, first, "cuda") == set()


def mutable(value: object, at: str = "plan") -> list[str]:
    """Return the mutable parts of a value; a mapping counts by its values, because a frozen dataclass holds it."""
    if isinstance(value, ATOMS):
        return []
    if isinstance(value, tuple):
        return [found for i, one in enumerate(value) for found in mutable(one, f"{at}[{i}]")]
    if isinstance(value, Mapping):
        return [found for key, one in value.items() for found in mutable(one, f"{at}[{key!r}]")]
    if dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen:
        parts = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value) if one.compare]
        return [found for name, one in parts for found in mutable(one, f"{at}.{name}")]
    return [f"{at}: {type(value).__name__}"]


@pytest.mark.parametrize("schedule", ["changes-pull", "pull-edges", "changes-push", "gunrock", "tigr", "simdx"])
def test_a_plan_is_frozen_in_depth(schedule):
    plan = plan_of(cuda_engine(schedule), program("pagerank"), small("rmat"), 4)
    assert mutable(plan) == []
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.threads = 32


@pytest.mark.parametrize("schedule", ["pull", "changes-pull-edges", "changes-push", "gunrock", "tigr", "simdx"])
def test_a_graph_that_is_known_by_facts_only_can_be_planned(schedule):
    vertices, edges = 1 << 28, 1 << 31
    plan = cuda_engine(schedule).plan(program("pagerank"), GraphFacts(vertices, edges, 1 << 20), 8)
    assert isinstance(plan, CudaPlan)
    assert plan.many_edges
    assert "typedef long long EdgeId;" in plan.source
    assert plan.bytes_needed > 4 * edges + 8 * vertices
    offsets = [one for one in plan.buffers if one.holds is Holds.STRUCTURE and one.rows == vertices + 1]
    assert {one.dtype for one in offsets} == {"int64"}


def test_support_counts_the_bytes_of_the_buffers(monkeypatch):
    graph, traced_program = small("rmat"), program("pagerank")
    engine = cuda_engine("pull")
    plan = plan_of(engine, traced_program, graph, 4)
    needs = {one.name: one.nbytes for one in plan.buffers}
    assert needs["vertex_rank"] == 4 * graph.num_vertices * 4
    assert needs["in_neighbours"] == 4 * graph.num_edges
    assert needs["in_offsets"] == 4 * (graph.num_vertices + 1)
    assert engine.supports(traced_program, graph, 4, Device("cuda")).bytes_needed == sum(needs.values())
    more = dataclasses.replace(plan, buffers=(*plan.buffers, work("more", 1000)))
    monkeypatch.setattr(type(engine), "plan", lambda *_: more)
    assert engine.supports(traced_program, graph, 4, Device("cuda")).bytes_needed == sum(needs.values()) + 4000


@pytest.mark.parametrize("edges", ["resident", "managed"])
def test_explanations_state_the_bytes_on_the_device(edges):
    graph, traced_program = small("rmat"), program("pagerank")
    engine = new_engine("onyx", {"edges": edges}).on(Device("cuda"))
    engine.generate(traced_program, graph, 4, Device("cuda"))
    needed = engine.supports(traced_program, graph, 4, Device("cuda")).bytes_needed
    assert f"\nedge arrays {edges}: {needed:,} bytes on the device\n" in engine.explain()


def drafted():
    lowered = LoweredProgram.of(program("pagerank"), masked=True)
    return PlanDraft(thread_setting(lowered, small("rmat").facts, 4, "pull"))


def test_a_kernel_only_takes_buffers_of_the_plan():
    draft = drafted()
    draft.add(
        CudaKernel("lost", tuple(Parameter(name, "float*") for name in ("run", "vertex_rank", "nowhere"))),
        Over.VERTICES,
    )
    with pytest.raises(ValueError, match=r"kernels take arrays that the plan does not describe: \['nowhere'\]"):
        draft.finish(None, Path())


def test_two_buffers_have_two_names():
    draft = drafted()
    draft.own(work("vertex_rank", 3))
    with pytest.raises(ValueError, match="two buffers of program 'pagerank' are named 'vertex_rank'"):
        draft.finish(None, Path())

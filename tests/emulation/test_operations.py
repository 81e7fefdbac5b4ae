"""Every engine for CUDA devices on every operation of the language, emulated, against the float64 reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_plan import OnyxPlanner
from harness.graph import Graph
from harness.language import K, where
from harness.language.reference import ReferenceRun
from tests.emulation.device import THREADS
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, plan_of
from tests.engines.programs import edges_and_loops, graph_for, inputs_for, program_named, traced
from tests.engines.test_cuda import (
    GATHERED,
    LEFT_OVER,
    PAIRED,
    SUPERSTEPS,
    check_every_superstep,
    check_lists,
    prepared,
)

EVERY = 23  # of the pairs of a schedule and a program, one is not marked as full


@pytest.mark.short_run(rows=6)
@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(PAIRED)],
)
def test_operations(schedule, name, features, emulated):
    program = program_named(name)
    graph = graph_for(name)
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, emulated, SUPERSTEPS, repeatable=True)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("listed", ["hubs", "middle"])
@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(GATHERED)],
)
def test_vertices_of_many_edges(schedule, name, features, listed, emulated, monkeypatch):
    check_lists(listed, schedule, name, features, emulated, monkeypatch)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("listed", ["hubs", "middle"])
@pytest.mark.parametrize(("schedule", "features"), LEFT_OVER)
def test_many_edges_and_left_over_lanes(schedule, features, listed, emulated, monkeypatch):
    check_lists(listed, schedule, "inverse_of_a_destination", features, emulated, monkeypatch)


@pytest.mark.parametrize("schedule", ["pull", "changes-pull"])
def test_the_second_buffer_of_flags_holds_flags(schedule, emulated, monkeypatch):
    """After an odd number of supersteps, it has the state with which a warm start continues."""
    monkeypatch.setattr(OnyxCudaEngine, "policy", replace(OnyxCudaEngine.policy, made_degree=99))
    program, graph = program_named("guarded_steps"), graph_for("guarded_steps")
    inputs = inputs_for(program, graph, 3, seed=3)
    engine, run = prepared(schedule, program, graph, 3, emulated), ReferenceRun(program, graph, 3)
    assert engine.planned.named["vertex_done"].partner == "next_vertex_done"
    for one in (engine, run):
        one.reset(inputs)
        one.run(1)
    found = engine.values("done")
    assert found.dtype == np.bool_
    assert 0 < found.sum() < len(found)
    np.testing.assert_array_equal(found, run.values("done"))
    engine.close()


def a_number_beside_a_vector(p, self):
    """Use a vertex's scalar that all lanes of a lane group read and its leader then writes."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("scale", start=1.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(src):
        return src.x

    @p.over_vertices
    def scaled(v):
        return {"y": v.scale * v.got, "scale": 0.5 * v.scale + 0.125}

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.01 * v.y}

    p.repeat(4)
    p.output("x", bound=1e-5)


@pytest.mark.parametrize("schedule", ["pull-unfolded", "push-edges-unfolded", "changes-pull"])
def test_a_leader_writes_after_the_others_have_read(schedule, emulated):
    program, graph = traced(a_number_beside_a_vector, "number"), edges_and_loops()
    inputs = inputs_for(program, graph, 9, seed=1)
    check_every_superstep(schedule, program, graph, inputs, 9, emulated, SUPERSTEPS, repeatable=True)


@pytest.mark.parametrize("schedule", ["changes-pull", "changes-pull-sparse"])
def test_buffers_that_two_kernels_of_a_superstep_write(schedule, emulated):
    program, graph = program_named("gathered_twice"), edges_and_loops()
    inputs = inputs_for(program, graph, 5, seed=1)
    check_every_superstep(schedule, program, graph, inputs, 5, emulated, SUPERSTEPS, repeatable=True)


def a_row_or_a_number(p, self):
    """Select a row or a scalar by a condition on the vertex: the row is read only where it is selected."""
    p.vertex("x0", K)
    p.vertex("row", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="got", reduce="sum")
    def gather(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.01 * v.got + where(v.in_degree > 4, v.row, 0.25)}

    p.repeat(4)
    p.output("x", bound=1e-5)


@pytest.mark.parametrize("schedule", ["pull", "push-loops", "changes-push"])
def test_a_row_or_a_number(schedule, emulated):
    program, graph = traced(a_row_or_a_number, "row or number"), edges_and_loops()
    inputs = inputs_for(program, graph, 5, seed=1)
    check_every_superstep(schedule, program, graph, inputs, 5, emulated, SUPERSTEPS, repeatable=True)


@pytest.mark.parametrize("shape", [(), K], ids=["a number", "features"])
def test_every_warp_of_a_block_has_edges_of_a_hub(shape, emulated, monkeypatch):
    """The block of a hub adds up what each of its warps gathered."""
    monkeypatch.setattr(OnyxPlanner, "hub", 2 * THREADS)
    monkeypatch.setitem(SCHEDULES, "owners", ("onyx", {"change_driven": False, "balance": "warp"}))

    def sums(p, self):
        p.vertex("given", shape)
        p.vertex("x", shape, start="given")
        p.over_edges(into="total", reduce="sum")(lambda src: 0.1 * src.x)
        p.over_vertices(lambda v: {"x": v.total})
        p.repeat(SUPERSTEPS)
        p.output("x", bound=1e-5)

    leaves = np.arange(1, 3 * THREADS)
    hub = np.zeros_like(leaves)
    graph = Graph.from_edges(np.append(hub, leaves), np.append(leaves, hub), name="star")
    program, features = traced(sums, "sums"), 3
    plan = plan_of(cuda_engine("owners"), program, graph, features)
    assert any("gather_hubs<" in launch.kernel.source for launch in plan.launches)
    inputs = inputs_for(program, graph, features)
    check_every_superstep("owners", program, graph, inputs, features, emulated, SUPERSTEPS, repeatable=True)

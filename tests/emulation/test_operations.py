"""Every engine for CUDA devices on every operation of the language, emulated, against the float64 reference."""

from __future__ import annotations

import pytest

from harness.language import K
from tests.engines.programs import arcs_and_loops, inputs_for, program_named, traced, two_sides
from tests.engines.test_cuda import PAIRED, SUPERSTEPS, check_every_superstep

EVERY = 17  # of the pairs of a schedule and a program, one is not marked as full


@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(PAIRED)],
)
def test_operations(schedule, name, features, emulated):
    program = program_named(name)
    graph = two_sides() if name in ("sides", "beliefs") else arcs_and_loops()
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, emulated, SUPERSTEPS)


def a_number_beside_a_vector(p, self):
    """A vertex's number that all lanes of a team read, and its leader then writes."""
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
def test_a_leader_writes_what_the_others_have_read(schedule, emulated):
    program, graph = traced(a_number_beside_a_vector, "number"), arcs_and_loops()
    inputs = inputs_for(program, graph, 9, seed=1)
    check_every_superstep(schedule, program, graph, inputs, 9, emulated, SUPERSTEPS)

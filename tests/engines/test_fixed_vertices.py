"""Vertices that never move: their steps choose a given value by a given condition."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.fixed_vertices import never_moving
from harness.language import Inputs, where
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.setting import LoweredProgram
from tests.engines.problems import prepared, problem
from tests.engines.programs import traced

CONDITIONS = {  # of a step that writes ``x``, and whether it is given: nothing that it reads changes in a run
    "a given property": (lambda v: v.known > 0.5, True),
    "two given properties": (lambda v: (v.known > 0.5) & (v.fixed > 0.5), True),
    "the value that is written": (lambda v: v.x > 0.5, False),
    "another value that is written": (lambda v: v.y > 0.5, False),
    "a given property and a value": (lambda v: (v.known > 0.5) & (v.y > 0.5), False),
    "a reduction": (lambda v: v.heard > 0.5, False),
}
CHOSEN = {
    "a given property": (lambda v: v.fixed, True),
    "an expression of given properties": (lambda v: v.fixed + 2.0 * v.known, True),
    "a constant": (lambda v: 0.0 * v.fixed + 1.0, True),
    "the value itself": (lambda v: v.x, False),
    "another value": (lambda v: v.y + v.fixed, False),
    "a reduction": (lambda v: v.heard, False),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("value", CHOSEN)
@pytest.mark.parametrize("other", [None, "same", "else", "free"])
def test_a_vertex_never_moves_only_if_the_condition_and_all_chosen_values_are_given(condition, value, other):
    """``other``: the second value is chosen by the same condition, by another, or without one."""
    (holds, given), (taken, fixed) = CONDITIONS[condition], CHOSEN[value]

    def build(p, self):
        for name in ("known", "fixed", "x", "y"):
            p.vertex(name, **({} if name in ("known", "fixed") else {"start": 0.0}))
        p.over_edges(into="heard", reduce="sum")(lambda src: src.x + src.y)

        @p.over_vertices
        def step(v):
            free = 0.5 * v.heard
            second = {
                None: {}, "same": {"y": where(holds(v), v.fixed, free)}, "free": {"y": free},
                "else": {"y": where(v.known > 0.25, v.fixed, free)},
            }  # fmt: skip
            return {"x": where(holds(v), taken(v), free), **second[other]}

        if other is None:
            p.over_vertices(lambda v: {"y": v.y + v.x})
        p.repeat(3)
        p.output("x", bound=1e-5)

    lowered = LoweredProgram.of(traced(build, "chosen")).program
    steps = next(stage for stage in lowered.stages if getattr(stage, "values", None))
    found = never_moving(lowered, steps.values)
    assert (found is not None) == (given and fixed and other in (None, "same"))


@pytest.mark.full
@pytest.mark.parametrize("name", ["grid", "rmat"])
def test_vertices_that_begin_to_meet_a_condition_of_values_are_written_in_both_buffers(name):
    """A vertex whose clock is beyond an hour takes its given value."""

    def build(p, self):
        for name in ("hour", "fixed"):
            p.vertex(name)
        p.vertex("x", start="fixed")
        p.vertex("clock", start=0.0)
        p.over_edges(into="heard", reduce="sum")(lambda src: src.x)

        @p.over_vertices
        def step(v):
            late = v.clock > v.hour
            return {"x": where(late, v.fixed, 0.1 * v.heard + v.fixed), "clock": where(late, v.hour, v.clock + 1.0)}

        p.repeat(12)
        p.output("x", bound=1e-5)

    program_, (graph, _) = traced(build, "clocks"), problem("pagerank", name, 1)
    rng = np.random.default_rng(2)
    inputs = Inputs({"hour": rng.integers(0, 9, graph.num_vertices).astype(np.float32),
                     "fixed": rng.random(graph.num_vertices).astype(np.float32)})  # fmt: skip
    engine, run = prepared("onyx", {"direction": "pull"}, program_, graph, 1, 2), ReferenceRun(program_, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    for superstep in range(12):
        for one in (engine, run):
            one.run(1)
        found = compare(program_, {"x": engine.values("x")}, {"x": run.values("x")})
        assert found.ok, f"superstep {superstep}: {found.detail}"
    engine.close()

"""Programs with sources that move before a superstep propagates them, and mostly send the same value again."""

from __future__ import annotations

from typing import Any

from harness.contract import Engine
from harness.graph import Graph
from harness.language import Inputs, Program, maximum, minimum, where
from harness.language.reference import ReferenceRun
from tests.engines.programs import traced

# A value of 9 decreases by one; or it falls to 0 at once, which an array may hold before anything was sent, and then
# rises.
STEPS = {
    "falling": lambda v: {"x": maximum(v.x - 1.0, 0.0)},
    "rising from nothing": lambda v: {"x": where(v.x > 7.0, 0.0, minimum(v.x + 1.0, 6.0))},
    "a condition": lambda v: {"x": v.x, "lit": v.x < 1.0},
}


def moving(name: str) -> Program:
    """Return the program of these steps."""

    def build(p: Any, _: object) -> None:
        p.vertex("x", start=9.0)
        p.vertex("lit", dtype=bool, start=True)
        p.vertex("y", start=0.0)
        p.over_vertices(STEPS[name])
        p.over_edges(into="heard", reduce="sum")(
            (lambda src: where(src.lit, 1.0, 0.0))
            if name == "a condition"
            else (lambda src: where(src.x > 3.5, 1.0, 0.0))
        )
        p.over_vertices(lambda v: {"y": v.heard * 0.0 if name == "a condition" else v.heard})
        p.until_settled(at_most=50)
        for output in ("x", "y"):
            p.output(output, bound=1e-6)

    return traced(build, name)


def pair() -> Graph:
    """Return two vertices that are connected in both directions."""
    return Graph.from_edges([0, 1], [1, 0], num_vertices=2, name="pair")


def check_twice(engine: Engine, program: Program) -> None:
    """Check that a prepared engine settles with the reference, also after another run."""
    for stopped in (50, 1, 50):
        run = ReferenceRun(program, pair(), 1)
        for one in (run, engine):
            one.reset(Inputs({}))
        expected, taken = run.run(stopped), engine.run(stopped)
        assert (taken.settled, len(taken.supersteps)) == (expected.settled, len(expected.supersteps))
        for output in program.outputs:
            assert engine.values(output).tolist() == run.values(output).tolist()

"""Changes that float32 loses when they are added to a much larger sum, unless the rounding errors are kept.

Also values that change by less than the tolerance in every superstep.
"""

from __future__ import annotations

import numpy as np

from harness.graph import Graph
from harness.language import Inputs, K
from harness.language.criterion import PROPAGATED_SHARE
from tests.engines.programs import traced

GIANTS = (2.0**20, np.inf)  # in units in the last place of the first: 1/8
STEP, LEAVES, SUPERSTEPS = 1 / 64, 3, 40  # all leaves together change the sum by less than half a unit
FEATURES = 2


def growing(p, self):
    """Sum values of which some grow."""
    p.vertex("first", K)
    p.vertex("step", K)
    p.vertex("x", K, start="first")
    p.vertex("y", K, start=0.0)

    @p.over_edges(into="heard", reduce="sum")
    def gather(src):
        return src.x

    @p.over_vertices
    def grow(v):
        return {"y": v.heard, "x": v.x + v.step}

    p.repeat(SUPERSTEPS)
    p.output("y", bound=1e-7)


def program():
    return traced(growing, "growing")


def star():
    """Return a large value and leaves, all with an edge to vertex 0."""
    leaves = np.arange(1, LEAVES + 2)
    return Graph.from_edges(leaves, np.zeros_like(leaves), num_vertices=LEAVES + 2, name="star")


def inputs(giant):
    first, step = (np.zeros((LEAVES + 2, FEATURES), np.float32) for _ in range(2))
    first[1], step[2:] = giant, STEP
    return Inputs({"first": first, "step": step}, dict(program().parameters))


def check(engine, giant):
    """Check the sum of a prepared engine after every superstep: the error is at most half a unit in its last place."""
    engine.reset(inputs(giant))
    for superstep in range(SUPERSTEPS):
        engine.run(1)
        wanted = giant + LEAVES * STEP * superstep
        found = engine.values("y")[0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - wanted) <= 1 / 16
        assert np.all((found == wanted) | near), f"after {superstep}: {found}, {wanted}"


UNSENT = 0.5  # the largest difference between a source of `creeping` and the value that it has sent


def creeping(p, self):
    """Let values grow, some of them by less than the tolerance."""
    p.vertex("pace")
    p.vertex("x", start=0.0)
    p.vertex("y", start=0.0)

    @p.over_edges(into="heard", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"y": v.heard, "x": v.x + v.pace}

    p.until_settled(self.tolerance, at_most=50)
    p.output("y", bound=1e-5)


def creeping_program():
    """Return the program of `creeping`."""
    return traced(creeping, "creeping", tolerance_value=UNSENT / PROPAGATED_SHARE)

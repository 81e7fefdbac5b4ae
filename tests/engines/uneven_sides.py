"""Programs that alternate sides, on a bipartite graph with more edges to one side than to the other."""

from __future__ import annotations

import functools

import numpy as np

from harness.graph import Graph
from harness.language import Inputs, K
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import outputs_of

LEFT, RIGHT, TO_RIGHT, TO_LEFT = 9, 14, 40, 25
AT_REST = ("neither", "left", "right", "both")


@functools.cache
def uneven() -> Graph:
    """Return the graph; some vertices have no edge in one direction."""
    rng = np.random.default_rng(6)
    left, right = rng.integers(0, LEFT, TO_RIGHT + TO_LEFT), LEFT + rng.integers(0, RIGHT, TO_RIGHT + TO_LEFT)
    to_right = np.arange(TO_RIGHT + TO_LEFT) < TO_RIGHT
    return Graph.from_edges(
        np.where(to_right, left, right), np.where(to_right, right, left), num_vertices=LEFT + RIGHT, name="uneven",
        duplicates="keep", bipartite=(LEFT, RIGHT), weights=rng.uniform(0.25, 1.0, len(left)).astype(np.float32),
    )  # fmt: skip


def gains(p, self):
    """Add the weighted sum of neighbours, times a gain of the vertex, to its own input."""
    p.edge("weight")
    p.vertex("own", K)
    p.vertex("gain", K)
    p.vertex("x", K, start="own")
    p.over_edges(into="heard", reduce="sum")(lambda src, edge: edge.weight * src.x)
    p.over_vertices(lambda v: {"x": v.own + v.gain * v.heard})
    p.alternate_sides()
    p.until_settled(self.tolerance, at_most=20)
    p.output("x", bound=1e-4)


def inputs_at_rest(rest: str, features: int) -> Inputs:
    """Return inputs of :func:`gains` with which the vertices of a side, or of both, never move."""
    rng, graph = np.random.default_rng(7), uneven()
    own, gain = (rng.uniform(0.25, 1.0, (graph.num_vertices, features)).astype(np.float32) for _ in range(2))
    gain *= np.float32(0.1)
    moves = {"neither": (True, True), "left": (False, True), "right": (True, False), "both": (False, False)}[rest]
    gain *= np.repeat(np.array(moves, np.float32), [LEFT, RIGHT])[:, None]
    return Inputs({"own": own, "gain": gain}, {"tolerance": 1e-6})


def first_distances(rest: str, features: int) -> Inputs:
    """Return inputs of ``sides_settle`` whose sources let a side, or both, not move at first."""
    first = np.full((LEFT + RIGHT, features), np.inf, np.float32)
    if rest != "both":
        first[{"neither": [1, LEFT + 2], "left": [2], "right": [LEFT + 1]}[rest]] = 0.25
    return Inputs({"first": first}, {})


def check_sides(engine, program, inputs, features, *, every_edge, most=7):
    """Compare a run, and the same in parts of one superstep, with the reference.

    ``every_edge``: each superstep visits all edges to its side. Others visit all of them in the first superstep of each
    side, and later those of the vertices that moved.
    """
    reference = ReferenceRun(program, uneven(), features)
    reference.reset(inputs)
    engine.reset(inputs)
    wanted, whole = reference.run(most), engine.run(most)
    to_side = [(TO_LEFT, TO_RIGHT)[number % 2] for number in range(len(whole.supersteps))]
    found = [step.edges for step in whole.supersteps]
    assert (whole.settled, len(found)) == (wanted.settled, len(wanted.supersteps))
    assert [step.active for step in whole.supersteps] == [step.active for step in wanted.supersteps]
    assert found == to_side if every_edge else found[:2] == to_side[:2]
    engine.reset(inputs)
    reference.reset(inputs)
    steps = []
    for _ in whole.supersteps:
        reference.run(1)
        steps += engine.run(1).supersteps
        answer = compare(program, outputs_of(engine, program), outputs_of(reference, program))
        assert answer.ok, answer.detail
    assert steps == whole.supersteps

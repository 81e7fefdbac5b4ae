"""What the tests of edge properties that change share, whatever the device."""

from __future__ import annotations

import numpy as np

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun


def check_every_superstep(engine, program, graph, inputs, features, names, rounding, supersteps):
    """The values of ``names`` after every superstep of two runs of a prepared engine, with tolerance 0; the edges
    visited in those of the second."""
    run = ReferenceRun(program, graph, features)
    exactly = Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0})
    for _ in range(2):  # nothing of a run may be left in the next one
        engine.reset(exactly)
        run.reset(exactly)
        visited = []
        for superstep in range(supersteps):
            run.run(1)
            visited.append(engine.run(1).edges)
            for name in names:
                off = np.abs(engine.values(name) - run.values(name)).max(initial=0)
                assert off <= rounding, f"{name} after superstep {superstep}: {off}"
    engine.close()
    return visited


def posed(graph, features, **options):
    """Program, graph, inputs and features of belief propagation on a network."""
    algorithm = BeliefPropagation(**options)
    graph = algorithm.prepare_graph(graph)
    return trace(algorithm), graph, algorithm.inputs(graph, features), features


def lone_evidence(length=400, features=3):
    """A long chain with a potential at its head alone, posed: messages upwards stay even, those downwards move one edge
    a superstep."""
    unary = np.ones((length, features))
    unary[0] = [0.2, 0.8, 0.2]
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True,
        vertex_data={"unary": unary},
    )  # fmt: skip
    return posed(chain, features, smoothness=5.0, truncation=1.0)


def check_that_little_is_visited(engine, program, graph, inputs, features, supersteps, *, first=3):
    """Of :func:`lone_evidence`, on a prepared engine: few edges are active or visited from superstep ``first`` on, and
    the beliefs are right."""
    engine.reset(inputs)
    taken = engine.run(supersteps).supersteps[first:]
    assert all(1 <= step.active <= 3 for step in taken)  # an edge, an aggregate
    assert max(step.edges for step in taken) <= 30
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(supersteps)
    assert np.abs(engine.values("belief") - run.values("belief")).max() < 1e-4
    engine.close()

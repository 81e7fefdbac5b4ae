"""Shared parts of the tests of changing edge properties, independent of the device."""

from __future__ import annotations

import numpy as np

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from tests.engines.edge_programs import echoes
from tests.engines.programs import inputs_for, traced


def check_every_superstep(engine, program, graph, inputs, features, names, rounding, supersteps):
    """Check the values of ``names`` after every superstep of two runs of a prepared engine, with tolerance 0; return
    the edges visited in the supersteps of the second run."""
    run = ReferenceRun(program, graph, features)
    exactly = Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0})
    for _ in range(2):  # nothing of a run may remain in the next one
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
    """Return program, graph, inputs and features of belief propagation on a network."""
    algorithm = BeliefPropagation(**options)
    graph = algorithm.prepare_graph(graph)
    return trace(algorithm), graph, algorithm.inputs(graph, features), features


def lone_evidence(length=400, features=3):
    """Return the problem of a long chain with a potential only at its head: upward messages stay uniform, downward
    messages move one edge per superstep."""
    unary = np.ones((length, features))
    unary[0] = [0.2, 0.8, 0.2]
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True,
        vertex_data={"unary": unary},
    )  # fmt: skip
    return posed(chain, features, smoothness=5.0, truncation=1.0)


def lone_speakers(features, length=400):
    """Return program, graph and inputs of :func:`echoes` on a chain with three vertices that move, far apart."""
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True
    )
    program = traced(echoes, "echoes")
    moves = np.isin(np.arange(length), [0, length // 3, length // 2])
    inputs = inputs_for(program, chain, features, seed=2)
    return program, chain, Inputs({**inputs.properties, "moves": moves}, inputs.parameters)


def check_readers_of_reverse_edges(engine, program, graph, inputs, features):
    """Check on a prepared engine and :func:`lone_speakers` that sums and updates follow the reverse edges they read,
    although no other edge or vertex makes the engine visit them."""
    visited = check_every_superstep(engine, program, graph, inputs, features, ("x", "y", "said", "heard"), 1e-5, 6)
    assert max(visited[2:]) < graph.num_edges / 10


def check_that_little_is_visited(engine, program, graph, inputs, features, supersteps, *, first=3):
    """Check on a prepared engine and :func:`lone_evidence` that few edges are active or visited from superstep
    ``first`` on, and that the beliefs are right."""
    engine.reset(inputs)
    taken = engine.run(supersteps).supersteps[first:]
    assert all(1 <= step.active <= 3 for step in taken)  # an edge, an aggregate
    assert max(step.edges for step in taken) <= 30
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(supersteps)
    assert np.abs(engine.values("belief") - run.values("belief")).max() < 1e-4
    engine.close()

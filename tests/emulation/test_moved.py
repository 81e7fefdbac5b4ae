"""The active vertices of a superstep are those that moved in the one before, however many lanes hold a row."""

from __future__ import annotations

import itertools

from harness.graph.generators import rmat
from harness.language import trace
from tests.engines.test_cuda import algorithms, prepared

FEATURES = 5


def test_a_vertex_that_moves_is_counted_once(emulated):
    algorithm = algorithms()["sssp"]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=4, seed=4, max_weight=4))
    program, inputs = trace(algorithm), algorithm.inputs(graph, FEATURES)
    engine = prepared("changes-pull", program, graph, FEATURES, emulated)
    engine.reset(inputs)
    values, active = [engine.values("distance")], []
    for _ in range(6):
        active += [step.active for step in engine.run(1).supersteps]
        values.append(engine.values("distance"))
    moved = [int((one != other).any(axis=1).sum()) for one, other in itertools.pairwise(values)]
    assert min(moved[:4]) > 0
    assert active[1:] == moved[: len(active) - 1]

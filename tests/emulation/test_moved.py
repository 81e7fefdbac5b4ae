"""The active vertices of a superstep are those that moved in the one before, however many lanes hold a row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, prepared

FEATURES = 5
FUSED = [("push_pull", "jit"), ("push_pull", "ballot"), ("all", "jit"), ("none", "jit")]


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


@pytest.mark.short_run(rows=8)
@pytest.mark.parametrize(("fusion", "filter_"), FUSED)
@pytest.mark.parametrize("name", ["sssp", "kcore"])
def test_counts_are_those_of_the_vertices_that_moved_whatever_is_fused(name, fusion, filter_, emulated, monkeypatch):
    """A superstep pushes the edges of the vertices that moved, or pulls if they are more than a share of all edges."""
    share = 0.3
    options = {"fusion": fusion, "filter": filter_, "pull_share": share, "warp_degree": 4, "block_degree": 30}
    monkeypatch.setitem(SCHEDULES, "alternating", ("simdx", options))
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=8, edge_factor=6, seed=3, max_weight=20))
    program, inputs = trace(algorithm), algorithm.inputs(graph, 1)
    engine, run = prepared("alternating", program, graph, 1, emulated), ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    (output, *_), senders, wanted = program.outputs, None, []
    while not wanted or wanted[-1][0]:
        before = np.array(run.values(output)).reshape(graph.num_vertices)
        if senders is not None:
            edges = int(graph.out_degrees[senders].sum())
            pulls = edges > share * graph.num_edges
            wanted.append((int(senders.sum()), "pull" if pulls else "push", graph.num_edges if pulls else edges))
        run.run(1)
        senders = np.array(run.values(output)).reshape(graph.num_vertices) != before
    taken = engine.run(1000)
    found = [(step.active, step.direction, step.edges) for step in taken.supersteps]
    np.testing.assert_array_equal(engine.values(output), run.values(output))
    assert found[1:] == wanted[: len(found) - 1]
    assert {way for _, way, _ in found} == {"push", "pull"}
    engine.close()

"""The active vertices of a superstep are those that moved in the one before, however many lanes hold a row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.graph.generators import grid, rmat
from harness.language import Inputs, K, maximum, minimum, trace
from harness.language.reference import ReferenceRun
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.programs import traced
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


@pytest.mark.short_run(rows=3)
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


def two_searches(p, self):
    """Find the shortest paths and those of the fewest edges; each moves vertices that the other does not."""
    p.edge("weight")
    p.vertex("near", K)
    p.vertex("early", K)
    p.vertex("distance", K, start="near")
    p.vertex("level", K, start="early")
    p.over_edges(into="nearest", reduce="min")(lambda src, edge: src.distance + edge.weight)
    p.over_vertices(lambda v: {"distance": minimum(v.distance, v.nearest)})
    p.over_edges(into="earliest", reduce="min")(lambda src: src.level + 1.0)
    p.over_vertices(lambda v: {"level": minimum(v.level, v.earliest)})
    p.until_settled(at_most=200)
    p.output("distance", bound=1e-5)
    p.output("level", bound=0.0)


def in_the_other_order(p, self):
    """Find the widest paths, by maxima, before those of the fewest edges, with both steps at the end."""
    p.edge("weight")
    p.vertex("early", K)
    p.vertex("wide", K)
    p.vertex("level", K, start="early")
    p.vertex("width", K, start="wide")
    p.over_edges(into="earliest", reduce="min")(lambda src: src.level + 1.0)
    p.over_edges(into="widest", reduce="max")(lambda src, edge: minimum(src.width, edge.weight))
    p.over_vertices(lambda v: {"width": maximum(v.width, v.widest)})
    p.over_vertices(lambda v: {"level": minimum(v.level, v.earliest)})
    p.until_settled(at_most=200)
    p.output("level", bound=0.0)
    p.output("width", bound=0.0)


PUSHED = ("tigr", "tigr-short", "gunrock", "emogi", "simdx-lists", "changes-push", "changes-push-edges")
TOGETHER = (*PUSHED, "changes-pull")


@pytest.mark.short_run(rows=3, always="two_searches-tigr-")
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("schedule", TOGETHER)
@pytest.mark.parametrize("build", [two_searches, in_the_other_order])
def test_searches_of_one_superstep_move_vertices_of_their_own(build, schedule, features, emulated):
    """What only one of the searches moves is sent along as well, in every superstep."""
    program, graph = traced(build, build.__name__), grid(rows=9, columns=9)
    weights = np.random.default_rng(7).uniform(1.0, 20.0, graph.num_edges).astype(np.float32)
    vertex, column = np.ogrid[: graph.num_vertices, :features]
    given = {
        "weight": weights, "early": np.where(vertex == 7 * column, 0.0, np.inf),
        "near": np.where(vertex == 70 - column, 0.0, np.inf), "wide": np.where(vertex == 70 - column, 99.0, 0.0),
    }  # fmt: skip
    inputs = Inputs({name: given[name].astype(np.float32) for name in given if name in program.properties}, {})
    engine, run = prepared(schedule, program, graph, features, emulated), ReferenceRun(program, graph, features)
    for one in (engine, run):
        one.reset(inputs)
    alone = set()
    for superstep in range(200):
        before = [np.array(run.values(name)) for name in program.outputs]
        settled = run.run(1).settled, engine.run(1).settled
        for name in program.outputs:
            np.testing.assert_allclose(engine.values(name), run.values(name), 1e-5, err_msg=f"{name} after {superstep}")
        moved = [run.values(name) != old for name, old in zip(program.outputs, before, strict=True)]
        alone |= {name for name, one in zip(program.outputs, moved, strict=True) if (one > moved[0] & moved[1]).any()}
        if any(settled):
            break
    assert settled == (True, True)
    assert alone == {*program.outputs}
    engine.close()

"""Few active vertices among many, on graphs that take hundreds of supersteps.

Change-driven propagation equals full propagation after every superstep, with dense supersteps before, between and
after sparse ones. Sparse supersteps visit only active vertices.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.kcore import KCore
from harness.graph import Graph
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.lowering.cpu.engine import CpuEngine
from harness.lowering.cpu.policy import CpuPolicy
from tests.engines.problems import CHANGE_DRIVEN, prepared


def renumbered(pairs, name):
    """Return an undirected graph with randomly numbered vertices, so that a frontier lies in many blocks of flags."""
    pairs = np.asarray(pairs)
    order = np.random.default_rng(4).permutation(int(pairs.max()) + 1)
    graph = Graph.from_edges(*order[pairs].T, num_vertices=len(order), name=name, symmetrize=True)
    return graph, order


def path(length=200):
    return renumbered([(i, i + 1) for i in range(length)], "path")


def lattice(rows=9, columns=41):
    number = np.arange(rows * columns).reshape(rows, columns)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    return renumbered([(*pair,) for a, b in (across, down) for pair in zip(a.flat, b.flat, strict=True)], "lattice")


def pulses(leaves=200, length=50):
    """Return a path to a hub whose leaves all lead to a second hub, where the next path begins; twice."""
    pairs, last = [], 0
    for _ in range(2):
        pairs += [(i, i + 1) for i in range(last, last + length)]
        hub = last + length
        second = hub + leaves + 1
        pairs += [(hub, leaf) for leaf in range(hub + 1, second)] + [(leaf, second) for leaf in range(hub + 1, second)]
        last = second
    pairs += [(i, i + 1) for i in range(last, last + length)]
    return renumbered(pairs, "pulses")


GRAPHS = {"path": path, "lattice": lattice, "pulses": pulses}


@functools.cache
def job(algorithm, graph_name):
    """Return program, graph, inputs, features, and the true values after every superstep until the run has settled."""
    graph, order = GRAPHS[graph_name]()
    given = BFS(sources=f"{order[0]} {order[0]} {order[7]}") if algorithm == "bfs" else KCore(core=2)
    graph = given.prepare_graph(graph)
    program, features = trace(given), 3 if algorithm == "bfs" else 1
    inputs = given.inputs(graph, features)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    (output,) = program.outputs
    wanted = []
    while not run.run(1).settled:
        wanted.append(run.values(output))
    return program, graph, inputs, features, [*wanted, run.values(output)]


@pytest.fixture
def small_parts(monkeypatch):
    """Use parts of a few vertices with arbitrary bounds, and all threads even for little work."""
    monkeypatch.setattr(CpuEngine, "runs", CpuPolicy(few=0, smallest_part=16))


def by_turns():
    """Return every strategy of Onyx with every graph, half of them with two threads; all combinations under ``-m
    full``."""
    for i, strategy in enumerate(CHANGE_DRIVEN):
        for j, graph_name in enumerate(GRAPHS):
            for algorithm in ("bfs", "kcore"):
                for threads in (1, 2):
                    first = (i + j + threads + (algorithm == "bfs")) % 2 == 0 and strategy != "gunrock"
                    yield pytest.param(
                        strategy, algorithm, graph_name, threads, marks=() if first else (pytest.mark.full,)
                    )


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("strategy", "algorithm", "graph_name", "threads"), list(by_turns()))
def test_equals_full_after_every_superstep(strategy, algorithm, graph_name, threads):
    program, graph, inputs, features, wanted = job(algorithm, graph_name)
    engine = prepared(*CHANGE_DRIVEN[strategy], program, graph, features, threads)
    for _ in range(2):  # the second run starts from the state that the first one left
        engine.reset(inputs)
        for superstep, values in enumerate(wanted):
            engine.run(1)
            found = engine.values(program.outputs[0])
            assert np.array_equal(found, values), f"after superstep {superstep}"
    engine.close()


@pytest.mark.parametrize("strategy", ["pull", "push"])
def test_sparse_supersteps_visit_active_vertices(strategy):
    """On the path one vertex per source is active; at the hubs all others are reached at once."""
    program, graph, inputs, features, wanted = job("bfs", "path")
    engine = prepared(*CHANGE_DRIVEN[strategy], program, graph, features)
    engine.reset(inputs)
    steps = engine.run(len(wanted) + 3).supersteps
    assert steps[0].active == (graph.num_vertices if strategy == "pull" else 2), "a push begins with the sources"
    assert all(step.active <= 3 for step in steps[1:])  # one source, and two directions of the other
    assert all(step.edges <= 30 for step in steps[1:])


def test_dense_supersteps_stand_between_sparse_ones():
    program, graph, inputs, features, wanted = job("bfs", "pulses")
    engine = prepared("onyx", {"direction": "pull"}, program, graph, features)
    engine.reset(inputs)
    dense = [step.direction != "pull" for step in engine.run(len(wanted) + 3).supersteps]
    changes = np.count_nonzero(np.diff(np.array(dense, int)))
    assert dense[0]
    assert changes == 9  # sparse, then dense and sparse for each of two frontiers at each of two pairs of hubs

"""Graphs, programs and comparisons for near-far."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device, Phases, Yes
from harness.graph import Graph
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, K, maximum, minimum
from tests.engines.programs import traced

SERIAL = Device(threads=1)


def paths(combine, reducer="min", title="paths", at_most=1_000_000, better=None, weighted=True, repeat=0, also=False):
    """Return a program of paths from k starts; ``combine``: the message of a source's value and an edge's length."""
    better = better or {"min": minimum, "max": maximum}[reducer]

    def build(p, algorithm):
        if weighted:
            p.edge("weight")
        p.vertex("own", K)
        p.vertex("x", K, start="own")

        @p.over_edges(into="best", reduce=reducer)
        def send(src, edge):
            return combine(src.x, edge.weight if weighted else None, algorithm)

        @p.over_vertices
        def take(v):
            return {"x": better(v.x, v.best)}

        if also:
            p.once.over_vertices(lambda v: {"twice": 2.0 * v.own})
        if repeat:
            p.repeat(repeat)
        else:
            p.until_settled(at_most=at_most)
        p.output("x", bound=1e-5)

    return traced(build, title)


PROGRAMS = {
    "lengths": paths(lambda x, w, _: x + w),
    "hops": paths(lambda x, w, _: x + 1.0, weighted=False),
    "largest edge": paths(lambda x, w, _: maximum(x, w)),
    "smallest edge": paths(lambda x, w, _: minimum(x, w), "max"),
    "losses": paths(lambda x, w, it: minimum(x - it.rate, w), "max"),
    "copies": paths(lambda x, w, _: x, weighted=False),
    "longer of two": paths(lambda x, w, it: maximum(x + w, x + it.rate)),
}


def weighted(graph, seed, lengths):
    """Return the graph with lengths drawn from ``lengths``."""
    rng = np.random.default_rng(seed)
    weights = rng.choice(np.asarray(lengths, np.float32), graph.num_edges)
    sources = graph.csr.row_of_edge.astype(np.int64)
    return Graph.from_edges(
        sources, graph.csr.neighbours, num_vertices=graph.num_vertices, weights=weights, name=graph.name,
        duplicates="keep",
    )  # fmt: skip


def scattered(seed, vertices=200, edges=500, lengths=(0.0, 0.5, 1.0, 2.25, 40.0)):
    """Return a directed graph with loops, parallel edges, edges of length 0, and vertices that nothing reaches."""
    ends = np.random.default_rng(seed).integers(0, vertices, (2, edges))
    graph = Graph.from_edges(*ends, num_vertices=vertices, name="scattered", duplicates="keep")
    return weighted(graph, seed, lengths)


def hub(leaves=3000):
    """Return a vertex with many edges in both directions, whose leaves are also on a path."""
    at = np.arange(1, leaves + 1)
    sources = np.concatenate([np.zeros(leaves, np.int64), at, at[:-1]])
    ends = np.concatenate([at, np.zeros(leaves, np.int64), at[1:]])
    graph = Graph.from_edges(sources, ends, num_vertices=leaves + 1, name="hub", duplicates="keep")
    return weighted(graph, 3, np.linspace(0, 9, 64))


GRAPHS = {
    "scattered": lambda: scattered(1),
    "equal lengths": lambda: scattered(2, lengths=(3.0,)),
    "no lengths": lambda: scattered(3, lengths=(0.0,)),
    "roads": lambda: weighted(grid(17, 23, removed=0.3), 4, np.linspace(0.1, 30, 200)),
    "mesh": lambda: delaunay(300).with_reverse_edges(),
    "skewed": lambda: weighted(rmat(9, edge_factor=8), 5, np.linspace(0, 1, 99)),
    "hub": hub,
    "loops": lambda: Graph.from_edges([0, 0, 1], [0, 1, 1], num_vertices=2, weights=[0, 2, 0], name="loops"),
    "one vertex": lambda: Graph.from_edges([0], [0], num_vertices=1, weights=[1], name="one"),
    "no edges": lambda: Graph.from_edges([], [], num_vertices=5, weights=[], name="bare"),
    "nothing": lambda: Graph.from_edges([], [], num_vertices=0, weights=[], name="nothing"),
}  # fmt: skip


def starts(graph, features, reducer, seed=0):
    """Return a start value at some vertices for each feature, and the worst elsewhere."""
    rng = np.random.default_rng(seed)
    own = np.full((graph.num_vertices, features), np.inf if reducer == "min" else -np.inf, np.float32)
    for feature in range(features if graph.num_vertices else 0):
        own[rng.integers(0, graph.num_vertices, 1 + feature), feature] = 2.5 * np.arange(1 + feature)
    return own


def by_supersteps(program, graph, features, inputs):
    """Return the values of a settled bulk-synchronous run that visits every edge in each superstep."""
    engine = OnyxEngine(OnyxSchedule(direction="pull", change_driven=False))
    engine.prepare(program, graph, features, SERIAL, Phases())
    engine.reset(inputs)
    assert engine.run(program.max_supersteps).settled
    found = engine.values("x")
    engine.close()
    return found


def by_dijkstra(graph, own):
    """Return lengths of paths in float64 by SciPy, from a vertex that leads to those with a start value."""
    edges = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    found = np.full(own.shape, np.inf)
    for feature in range(own.shape[1]):
        seeds = np.flatnonzero(np.isfinite(own[:, feature]))
        if not len(seeds):
            continue
        first = np.full(len(seeds), graph.num_vertices)
        sources, ends = np.concatenate([edges[0], first]), np.concatenate([edges[1], seeds])
        lengths = np.concatenate([graph.weights.astype(np.float64), own[seeds, feature]])
        order = np.lexsort((lengths, ends, sources))
        kept = order[np.r_[True, np.diff(sources[order] * 1e9 + ends[order]) != 0]]  # the least of parallel edges
        size = graph.num_vertices + 1
        matrix = csr_matrix((lengths[kept], (sources[kept], ends[kept])), shape=(size, size))
        found[:, feature] = dijkstra(matrix, indices=size - 1)[:-1]
    return found


def run(engine, program, graph, features, device, inputs):
    """Return the values and the counts of a run of near-far."""
    assert isinstance(engine.supports(program, graph, features, device), Yes)
    assert not engine.stepwise
    engine.prepare(program, graph, features, device, Phases())
    for _ in range(2):
        engine.reset(inputs)
        assert np.array_equal(engine.values("x"), inputs.properties["own"])
        statistics = engine.run(1)
        assert statistics.settled
        assert not statistics.supersteps
    values, options = engine.values("x"), engine.resolved_options()
    engine.close()
    return values, options


def check(engine, name, graph, features, device, seed=0):
    """Compare near-far with supersteps, bit for bit, and lengths of paths with SciPy's; return the counts."""
    program = PROGRAMS[name]
    own = starts(graph, features, program.stages[0].reducer, seed)
    inputs = Inputs({"own": own})
    values, options = run(engine, program, graph, features, device, inputs)
    assert np.array_equal(values, by_supersteps(program, graph, features, inputs))
    if name == "lengths":
        np.testing.assert_allclose(values, by_dijkstra(graph, own), rtol=1e-5)
    return dict(options["solved"])


# Two parameters, an input of edges, and a message that tells them apart.
TOLLS = paths(lambda x, w, it: maximum(x + w, x + it.tolerance) + it.rate, title="tolls")


def by_relaxing(graph, own, weight, rate, tolerance):
    """Return the values of :data:`TOLLS`, in float32, by relaxing all edges until nothing changes."""
    sources, found = graph.csr.row_of_edge, own.copy()
    while True:
        x, before = found[sources], found.copy()
        sent = np.maximum(x + weight[:, None], x + np.float32(tolerance)) + np.float32(rate)
        np.minimum.at(found, graph.csr.neighbours, sent)
        if np.array_equal(before, found):
            return found


def runs_again(engine, device):
    """Compare runs that differ in one input each, and those of the next problem, with relaxations of all edges."""
    for number, features in enumerate((3, 2)):
        graph, solved = scattered(number, vertices=80 + number, edges=300), None
        rng = np.random.default_rng(number)

        def drawn(most, rng=rng, edges=graph.num_edges):
            return rng.uniform(0, most, edges).astype(np.float32)

        given = {"own": starts(graph, features, "min", number), "weight": drawn(5), "rate": 0.5, "tolerance": 1.0}
        engine.prepare(TOLLS, graph, features, device, Phases())
        assert "solved" not in engine.resolved_options()
        other = starts(graph, features, "min", number + 7)
        for changed in ({}, {"weight": drawn(9)}, {"own": other}, {"rate": 2.5}, {"tolerance": 4.0}):
            given |= changed
            properties = {name: given[name] for name in ("own", "weight")}
            engine.reset(Inputs(properties, {name: given[name] for name in ("rate", "tolerance")}))
            wanted = by_relaxing(graph, **given)
            for _ in range(2):
                assert engine.run(1).settled
                assert np.array_equal(engine.values("x"), wanted), list(changed)
            found = dict(engine.resolved_options()["solved"])
            solved = solved or found
            assert found == solved, "of the first run"
            assert min(found.values()) > 0
        engine.close()

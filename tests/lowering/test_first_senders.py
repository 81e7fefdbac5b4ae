"""Which vertices send in the first superstep of a cold run."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.language import Inputs, minimum, trace
from harness.lowering.first_senders import FirstSenders
from tests.engines.problems import prepared
from tests.engines.programs import traced


def star(leaves=9):
    """Return a directed graph of a hub, vertex 0, with edges to all others, and an edge from each to the next."""
    ends = np.arange(1, leaves + 1)
    pairs = [(0, v) for v in ends] + [(v, v % leaves + 1) for v in ends]
    return Graph.from_edges(*np.array(pairs).T, num_vertices=leaves + 1, name="star", weights=np.ones(len(pairs)))


@pytest.mark.parametrize("search", [BFS, SSSP])
def test_searches_begin_with_their_sources(search):
    graph, algorithm = star(), search(sources="1 4")
    senders = FirstSenders(trace(algorithm), graph, 2, keeps_extrema=True)
    inputs = algorithm.inputs(graph, 2)
    assert np.flatnonzero(senders.of(inputs)).tolist() == [1, 4]
    assert senders.of(inputs) is senders.of(inputs)
    assert np.flatnonzero(senders.of(search(sources="2 2").inputs(graph, 2))).tolist() == [2]


def test_everything_is_sent_if_senders_have_most_of_the_edges():
    graph = star()
    of_hub, of_leaves = BFS(sources="0"), BFS(sources="1")
    senders = FirstSenders(trace(of_hub), graph, 1, keeps_extrema=True)
    assert np.flatnonzero(senders.of(of_hub.inputs(graph, 1))).tolist() == [0], "9 of 18 edges"
    whole = {name: np.zeros_like(one) for name, one in of_leaves.inputs(graph, 1).properties.items()}
    assert senders.of(Inputs(whole)) is None


@pytest.mark.parametrize("algorithm", [PageRank(), Components()], ids=["sums", "every vertex has a label"])
def test_other_programs_send_everything(algorithm):
    graph = algorithm.prepare_graph(star())
    senders = FirstSenders(trace(algorithm), graph, 1, keeps_extrema=True)
    assert senders.of(algorithm.inputs(graph, 1)) is None


def test_everything_is_sent_if_sums_are_kept_or_the_input_is_on_a_device():
    graph, algorithm = star(), BFS(sources="1")
    inputs = algorithm.inputs(graph, 1)
    assert FirstSenders(trace(algorithm), graph, 1, keeps_extrema=False).of(inputs) is None
    elsewhere = Inputs({name: memoryview(one) for name, one in inputs.properties.items()})
    assert FirstSenders(trace(algorithm), graph, 1, keeps_extrema=True).of(elsewhere) is None


def paths(p, _):
    """Find the shortest paths whose lengths are an input of edges."""
    p.vertex("source")
    p.edge("length")
    p.vertex("x", start="source")
    p.over_edges(into="y", reduce="min")(lambda src, edge: src.x + edge.length)
    p.over_vertices(lambda v: {"x": minimum(v.x, v.y)})
    p.until_settled(at_most=100)
    p.output("x", bound=0.0)


@pytest.mark.parametrize(("length", "known"), [(2.0, True), (-3.0, True), (np.inf, False), (-np.inf, False)])
def test_infinite_lengths_may_make_unreached_vertices_send(length, known):
    """Infinity minus infinity is not a number, which is sent."""
    graph = star()
    senders = FirstSenders(traced(paths, "paths"), graph, 1, keeps_extrema=True)
    source = np.full(graph.num_vertices, np.inf, np.float32)
    source[1] = 0
    given = np.ones(graph.num_edges, np.float32)
    assert senders.of(Inputs({"source": source, "length": given})) is not None
    other = given.copy()
    other[3] = length
    assert (senders.of(Inputs({"source": source, "length": other})) is not None) == known


@pytest.mark.parametrize(
    ("engine", "options"), [("onyx", {"direction": "push", "change_driven": True}), ("gunrock", {}), ("emogi", {})]
)
def test_a_graph_without_vertices_settles(engine, options):
    graph = Graph.from_edges([], [], num_vertices=0, name="nothing")
    made = prepared(engine, options, traced(paths, "paths"), graph, 1)
    made.reset(Inputs({"source": np.zeros(0, np.float32), "length": np.zeros(0, np.float32)}))
    assert made.run(10).settled

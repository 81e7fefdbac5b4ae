"""Which vertices send in the first superstep of a cold run."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.lowering.first_senders import FirstSenders


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

"""The example engine's sums are right on graphs with many vertices without out-edges and with hubs."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

from harness.algorithms.pagerank import PageRank
from harness.contract import Device, Phases
from harness.graph import Graph
from harness.graph.formats import load_graph
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import relative_error

EXAMPLE = Path(__file__).parents[1] / "thirdparty"


def dangling_star():
    """Return 100,000 leaves without out-edges, a hub with edges to them, and a cycle of ten vertices through it."""
    leaves, ring = 100_000, np.arange(10)
    source = np.concatenate([np.zeros(leaves, np.int64), ring])
    destination = np.concatenate([np.arange(10, leaves + 10), (ring + 1) % 10])
    return Graph.from_edges(source, destination, num_vertices=leaves + 10, name="dangling star")


def published(file):
    folder = os.environ.get("HARNESS_DATA")
    if folder is None:
        pytest.skip("HARNESS_DATA names no folder of real graphs")
    return load_graph(Path(folder) / file)


@pytest.mark.parametrize(
    "make", [dangling_star, lambda: published("cit-HepTh.npz"), lambda: published("wiki-Vote.txt")]
)
def test_sums_of_many_rows_keep_their_digits(make, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE)
    schedule = importlib.import_module("onyx_example").ExampleSchedule(blocks=2)
    engine = importlib.import_module("onyx_example_engine").ExampleEngine(schedule)
    graph, features = make(), 16
    algorithm = PageRank(personalise="vertices", tolerance=1e-30)  # no run settles: the difference is only rounding
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    supersteps = 20
    engine.prepare(program, graph, features, Device(threads=1), Phases())
    engine.reset(inputs)
    reference = ReferenceRun(program, graph, features)
    reference.reset(inputs)
    assert len(engine.run(supersteps).supersteps) == len(reference.run(supersteps).supersteps) == supersteps
    error = relative_error(engine.values("rank"), reference.values("rank")).max()
    assert error < 4 * 2.0**-24 / (1 - algorithm.alpha)  # a few rounding errors per superstep

"""Writes of an engine to anything that it was given are detected."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import fingerprint
from harness.campaign.fingerprint import Fingerprint, InputsChanged
from harness.graph import Graph
from harness.language import Inputs
from harness.language.warm import WarmStart


@pytest.fixture
def problem():
    """Return the fingerprint's inputs for a problem with a warm start."""
    inputs = Inputs({"x0": np.ones(3, np.float32), "total": np.array(2, np.float32)}, {"alpha": 0.5})
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="chain", weights=np.ones(2, np.float32))
    return SimpleNamespace(inputs=inputs, graph=graph, start=WarmStart("warm", {"x": np.zeros(3, np.float32)}))


def add_one(array):
    array.setflags(write=True)
    array += array.dtype.type(1)


WRITES = {
    "input total": lambda problem: add_one(problem.inputs.properties["total"]),
    "input x0": lambda problem: add_one(problem.inputs.properties["x0"]),
    "state x": lambda problem: add_one(problem.start.state["x"]),
    "parameter alpha": lambda problem: problem.inputs.parameters.update(alpha=0.25),
}


def test_nothing_is_reported_without_a_write(problem):
    Fingerprint(problem).check()


@pytest.mark.parametrize("written", WRITES)
def test_a_write_is_reported_by_name(problem, written):
    before = Fingerprint(problem)
    WRITES[written](problem)
    assert before.changes() == [written]
    with pytest.raises(InputsChanged, match=f"the engine wrote to {written};"):
        before.check()


def test_a_write_to_any_array_of_the_graph_is_reported_by_name(problem):
    graph = problem.graph
    arrays = {f"graph {place}": array for place, array in graph.arrays()}
    arrays |= {"graph csc.offsets": graph.csc.offsets, "graph csc.neighbours": graph.csc.neighbours}
    arrays |= {"graph csc.edge_ids": graph.in_edge_ids, "graph csc.weights": graph.in_weights}
    assert len(arrays) >= 7
    for name, array in arrays.items():
        before = Fingerprint(problem)
        ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_uint8))[0] ^= 1  # past the flag that forbids writing
        assert before.changes() == [name]


def test_a_cold_problem_has_no_state(problem):
    problem.start = None
    Fingerprint(problem).check()


def test_a_write_to_any_part_of_a_long_array_is_reported_once(problem, monkeypatch):
    monkeypatch.setattr(fingerprint, "PART", 16)
    draw = np.random.default_rng(2)
    problem.graph = Graph.from_edges(*draw.integers(0, 40, (2, 101)), name="parts", duplicates="keep")
    neighbours = problem.graph.csr.neighbours
    Fingerprint(problem).check()
    for at in (0, 3, 4, 57, 100):
        before = Fingerprint(problem)
        ctypes.cast(neighbours.ctypes.data, ctypes.POINTER(ctypes.c_uint32))[at] ^= 1
        assert before.changes() == ["graph neighbours"]

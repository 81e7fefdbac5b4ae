"""The kernels written by hand: they compile without spilling, and on a device give the program's answer."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.potentials import truncated_linear
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.benchmarks.hand_written.kernels import BeliefPropagationByHand, LabelPropagationByHand, built

GRAPHS = {
    "rmat": lambda: rmat(scale=9, edge_factor=8, symmetric=True, max_weight=4),
    "grid": lambda: grid(rows=40, columns=30),
    "delaunay": lambda: delaunay(num_vertices=2000),
}
SUPERSTEPS = 5


@pytest.mark.skipif(sys.platform != "linux", reason="the compiler for CUDA is installed on Linux alone")
@pytest.mark.parametrize("features", [2, 4, 8, 32, 128])
@pytest.mark.parametrize(("name", "constants"), [("label_propagation", {"SKIP": 1}), ("belief_propagation", {})])
def test_they_compile_and_do_not_spill(name, constants, features):
    for chip in ("sm_80", "sm_90", "sm_100") if features == 8 else ("sm_90",):
        found = built(name, features, chip, **constants).resources()
        assert found
        assert all(kernel["spills"] == 0 for kernel in found.values()), found


def test_other_numbers_of_features_are_refused():
    with pytest.raises(ValueError, match="powers of two up to 128"):
        built("label_propagation", 12, "sm_90", SKIP=0)


@pytest.fixture(scope="module")
def cuda_device():
    cupy = pytest.importorskip("cupy")
    try:
        assert cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no CUDA device: {error}")


def reference(algorithm, graph, inputs, features, supersteps):
    program = trace(algorithm)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(supersteps)
    return program, {name: run.values(name) for name in program.outputs}


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda_device")
@pytest.mark.parametrize("features", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("skip", [False, True])
def test_label_propagation(graph_name, features, skip):
    algorithm, graph = LabelPropagation(seeds="random"), GRAPHS[graph_name]()
    inputs = algorithm.inputs(graph, features)
    by_hand = LabelPropagationByHand(graph, inputs, features, skip=skip)
    by_hand.next.fill(float("nan"))
    by_hand.run(SUPERSTEPS)
    program, expected = reference(algorithm, graph, inputs, features, SUPERSTEPS)
    found = compare(program, {"lp": by_hand.values()}, expected)
    assert found.ok, found.detail


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda_device")
@pytest.mark.parametrize("features", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("graph_name", ["rmat", "grid"])
def test_belief_propagation(graph_name, features):
    algorithm = BeliefPropagation()
    graph = algorithm.prepare_graph(GRAPHS[graph_name]())
    phi = np.random.default_rng(3).uniform(0.05, 1.0, (graph.num_vertices, features)).astype(np.float32)
    psi = truncated_linear(features, algorithm.smoothness, algorithm.truncation)
    inputs = Inputs({"phi": phi, "psi": psi}, algorithm.parameter_values())
    by_hand = BeliefPropagationByHand(graph, inputs, features)
    by_hand.next.fill(float("nan"))
    by_hand.run(SUPERSTEPS - 1)
    program, expected = reference(algorithm, graph, inputs, features, SUPERSTEPS)
    found = compare(program, {"belief": by_hand.values()}, expected)
    assert found.ok, found.detail

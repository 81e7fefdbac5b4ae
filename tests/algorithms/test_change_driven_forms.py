"""With tolerance 0, propagating only changes equals full recomputation after every superstep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.sssp import SSSP
from harness.language import InvalidInput, trace
from harness.language.reference import ReferenceRun
from tests.algorithms.multigraphs import multigraphs
from tests.algorithms.networks import networks
from tests.language.interpreter import ChangeDrivenInterpreter

ALGORITHMS = [BFS(), SSSP(), Components(), KCore(core=3), ManifoldRanking(alpha=0.9), Multimodal()]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
@given(multigraphs(), st.sampled_from([1, 3]))
@settings(max_examples=15)
def test_propagating_only_changes_gives_the_same_values(algorithm, graph, features):
    program, prepared = trace(algorithm), algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(prepared, features)
    full = ReferenceRun(program, prepared, features)
    full.reset(inputs)
    lazy = ChangeDrivenInterpreter(program, prepared, features, inputs)
    (output,) = program.outputs
    for _ in range(8):
        full.superstep()
        lazy.superstep()
        np.testing.assert_allclose(lazy.value[output], full.values(output), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", ["sum", "max"])
@given(networks(trees=False), st.sampled_from([0.0, 0.5]))
@settings(max_examples=40)
def test_messages_of_edges_that_changed_give_the_same_beliefs(rule, graph, damping):
    """Factors are exchanged, and only edges with an input that has moved are updated."""
    algorithm = BeliefPropagation(rule=rule, potentials="edge", damping=damping)
    program, k = trace(algorithm), graph.vertex_data["unary"].shape[1]
    try:
        inputs = algorithm.inputs(graph, k)
    except InvalidInput:  # a variable or an edge without a possible state
        assume(False)
    full = ReferenceRun(program, graph, k)
    full.reset(inputs)
    lazy = ChangeDrivenInterpreter(program, graph, k, inputs)
    for _ in range(8):
        full.superstep()
        lazy.superstep()
        for name in ("belief", "msg"):
            np.testing.assert_allclose(lazy.value[name], full.values(name), rtol=1e-9, atol=1e-12)

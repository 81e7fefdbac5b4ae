"""SciPy's matrices of blocks, compared with sums edge by edge, and the messages that have them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import onyx_harness
from engines.libraries.blocks import as_blocks, block_structure
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.contract import Device, Phases
from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, trace, where
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine
from tests.engines.programs import program_named


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("entries", [1, 3])
def test_a_matrix_of_blocks_gives_the_sums_edge_by_edge(entries, outer):
    generator = np.random.default_rng(1)
    offsets = np.array([0, 3, 3, 4, 9])  # four destinations, the second without edges
    sources = generator.integers(0, 5, 9)
    coefficient, x = generator.random((9, entries)), generator.random((5, 2 if outer else entries))
    columns, cuts, order = block_structure(sources, offsets, entries, outer)
    shape = (4 * entries, 5 if outer else 5 * entries)
    matrix = scipy.sparse.csr_array((coefficient.reshape(-1)[order], columns, cuts), shape=shape)
    expected = np.zeros((4, entries, 2) if outer else (4, entries))
    for v in range(4):
        for edge in range(offsets[v], offsets[v + 1]):
            one = x[sources[edge]]
            expected[v] += np.outer(coefficient[edge], one) if outer else coefficient[edge] * one
    found = matrix @ (x if outer else x.reshape(-1))
    np.testing.assert_allclose(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("algorithm", [Multimodal(supersteps=30), ManifoldRanking(alpha=0.9, supersteps=30)])
@pytest.mark.parametrize("features", [1, 6])
def test_a_hub_is_summed_in_runs(algorithm, features):
    leaves = np.arange(1, 3000)
    weights = np.random.default_rng(2).random(len(leaves), np.float32) + np.float32(0.5)
    star = Graph.from_edges(
        leaves, np.zeros_like(leaves), num_vertices=3000, weights=weights, name="star", symmetrize=True
    )
    program, prepared = trace(algorithm), algorithm.prepare_graph(star)
    inputs = algorithm.inputs(prepared, features)
    reference, engine = ReferenceRun(program, prepared, features), new_engine("scipy", {})
    engine.prepare(program, prepared, features, Device(threads=1), Phases())
    for run in (reference, engine):
        run.reset(inputs)
        run.run(30)
    [name] = program.outputs
    found = compare(program, {name: engine.values(name)}, {name: reference.values(name)})
    assert found.ok, found.detail
    assert "CSR of blocks" in engine.explain()
    engine.close()


def test_a_constant_sum_is_added_up_once():
    algorithm = ManifoldRanking(alpha=0.9)
    ring = np.arange(30)
    graph = Graph.from_edges(ring, (ring + 1) % 30, num_vertices=30, name="ring", symmetrize=True)
    program = trace(algorithm)
    engine = new_engine("scipy", {})
    engine.prepare(program, graph, 3, Device(threads=1), Phases())
    for _ in range(2):
        engine.reset(algorithm.inputs(graph, 3))
        assert [step.edges for step in engine.run(3).supersteps] == [120, 60, 60]
    engine.close()


@pytest.mark.parametrize("name", ["reads_destination", "largest_label", "products"])
def test_messages_without_blocks_are_reported(name):
    program = program_named(name)
    reductions = [stage for stage in program.stages if hasattr(stage, "reducer") and hasattr(stage, "message")]
    assert any(as_blocks(program, stage) is None for stage in reductions)


def test_a_masked_coefficient_may_read_an_input_of_the_source():
    class Masked(Algorithm):
        name = "masked"

        def build(self, p):
            p.edge("weight")
            p.vertex("given", K)
            p.vertex("x", K, start=0.0)
            p.over_edges(into="sum", reduce="sum")(
                lambda src, edge: where(edge.weight > 1.0, src.given * edge.weight, 0.0)
            )
            p.over_vertices(lambda v: {"x": v.sum})
            p.repeat(1)
            p.output("x", bound=1e-5)

        def inputs(self, graph, features):
            return Inputs({"given": np.arange(graph.num_vertices * features, dtype=np.float32).reshape(-1, features)})

    graph = Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 1], weights=[1, 2, 3, 4], name="four")
    found = onyx_harness.run("scipy", Masked, graph, features=2, validate=True).answer("x")
    np.testing.assert_allclose(found, [[12, 15], [16, 20], [4, 6]])

"""Supersteps checked on a sample of vertices: what it has is what a whole superstep of the reference gives it."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph.generators import rmat
from harness.language import Algorithm, Inputs, K, trace
from harness.language.reference import ReferenceRun
from harness.language.sampled import Sample, not_sampled
from harness.language.warm import kept_properties
from tests.engines.problems import program


def algorithms():
    from harness.algorithms.als import ALS
    from harness.algorithms.belief_propagation import BeliefPropagation
    from harness.algorithms.bfs import BFS
    from harness.algorithms.label_propagation import LabelPropagation
    from harness.algorithms.manifold_ranking import ManifoldRanking
    from harness.algorithms.multimodal import Multimodal

    return {
        "label_propagation": LabelPropagation(clamp=False, seeds="random"),
        "als": ALS(sides="all", ratings="drawn"),
        "belief_propagation": BeliefPropagation(vertices="drawn", smoothness=0.5),
        "manifold_ranking": ManifoldRanking(),
        "multimodal": Multimodal(seeds="random"),
        "bfs": BFS(),
    }


def run_of(name, features=3):
    """The algorithm's run on a small graph with its inputs, and a sample of a tenth of the vertices."""
    algorithm = algorithms()[name]
    traced = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=8, edge_factor=6, seed=3, symmetric=True, max_weight=4))
    inputs = algorithm.inputs(graph, features)
    run = ReferenceRun(traced, graph, features)
    run.reset(inputs)
    return traced, graph, inputs, run, Sample.draw(traced, graph, 4, seed=1)


def results(run, sample, traced):
    return {name: sample.results_of(name, run.values(name)) for name in traced.outputs}


@pytest.mark.parametrize("name", list(algorithms()))
def test_supersteps_of_the_whole_are_those_of_the_sample(name):
    traced, _, inputs, run, sample = run_of(name)
    assert not not_sampled(traced)
    before = None
    for _ in range(4):
        run.run(1)
        found = sample.compared(inputs, 3, before, results(run, sample, traced))
        assert found.ok, found.detail
        assert found.error < 1e-9
        before = {prop: sample.part_of(prop, run.values(prop)) for prop in kept_properties(traced)}


def test_vertices_have_the_degrees_that_they_have_in_the_whole():
    class Spread(Algorithm):
        name = "spread"

        def build(self, p):
            p.vertex("start", K)
            p.vertex("x", K, start="start")

            @p.over_edges(into="aggr", reduce="sum")
            def share(src, dst):
                return src.x / src.out_degree + dst.x / dst.in_degree

            @p.over_vertices
            def step(v):
                return {"x": v.aggr + 0.5 * v.in_degree}

            p.repeat(4)
            p.output("x", bound=1e-4)

    traced, graph = trace(Spread()), rmat(scale=8, edge_factor=6, seed=3)
    inputs = Inputs({"start": np.random.default_rng(1).random((graph.num_vertices, 3))}, {})
    run, sample = ReferenceRun(traced, graph, 3), Sample.draw(traced, graph, 4, seed=1)
    run.reset(inputs)
    run.run(1)
    assert (sample.graph.csr.degrees != sample.graph.out_degrees).any()
    found = sample.compared(inputs, 3, None, results(run, sample, traced))
    assert found.ok, found.detail


@pytest.mark.parametrize("name", ["label_propagation", "belief_propagation"])
def test_a_wrong_value_in_the_sample_is_found(name):
    traced, _, inputs, run, sample = run_of(name)
    run.run(1)
    right = results(run, sample, traced)
    (output, values), *_ = right.items()
    for row in (0, len(values) - 1):
        wrong = values.copy()
        wrong[row, 0] += 0.01
        assert not sample.compared(inputs, 3, None, {**right, output: wrong}).ok


def test_a_superstep_that_was_not_made_is_found():
    traced, _, inputs, run, sample = run_of("label_propagation")
    run.run(2)
    before = {prop: sample.part_of(prop, run.values(prop)) for prop in kept_properties(traced)}
    assert not sample.compared(inputs, 3, before, results(run, sample, traced)).ok


def test_the_part_is_what_the_sample_hears():
    _, graph, _, _, sample = run_of("label_propagation")
    assert sample.graph.num_edges == int(graph.in_degrees[sample.vertices].sum())
    assert set(sample.vertices) <= set(sample.near)
    assert np.array_equal(sample.graph.in_degrees[sample.rows], graph.in_degrees[sample.vertices])


def test_hubs_and_others_are_drawn():
    graph = rmat(scale=10, edge_factor=16, seed=1, symmetric=True)
    drawn = np.frexp(graph.in_degrees[Sample.draw(program("label_propagation"), graph, 3).vertices])[1]
    classes, counts = np.unique(drawn, return_counts=True)
    assert set(classes) == set(np.frexp(graph.in_degrees)[1])
    assert counts.max() == 3


def test_what_cannot_be_checked_so_is_told():
    assert "reduces over the whole graph" in not_sampled(program("pagerank"))
    assert "alternates" in not_sampled(program("als"))

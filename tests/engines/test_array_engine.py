"""Engines over whole arrays of a library: what they convert and build, and how often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.libraries.products import as_product
from engines.libraries.schedules import ScipySchedule
from engines.libraries.scipy_engine import ScipyEngine
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.campaign.problem import inputs_of
from harness.contract import Device, Phases
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, K, trace, where
from harness.language.reference import ReferenceRun
from tests.engines.programs import traced, two_sides
from tests.language.programs import WeightedWalks

CPU = Device(threads=1)


@pytest.fixture
def posed():
    graph = rmat(scale=7, edge_factor=4)
    return trace(PageRank()), graph, PageRank().inputs(graph, 2)


def test_matrices_are_built_once_for_the_same_inputs(posed, monkeypatch):
    program, graph, inputs = posed
    built, fill = [], ScipyEngine._filled

    def counted(self, product):
        built.append(product)
        return fill(self, product)

    monkeypatch.setattr(ScipyEngine, "_filled", counted)
    engine = ScipyEngine(ScipySchedule())
    engine.prepare(program, graph, 2, CPU, Phases())
    answers = []
    for _ in range(2):
        engine.reset(inputs)
        engine.run(3)
        answers.append(engine.values("rank"))
    assert len(built) == len(engine.products) > 0
    assert (answers[0] == answers[1]).all()
    engine.reset(replace(inputs))
    assert len(built) == 2 * len(engine.products), "other inputs may have other coefficients"


def test_the_structure_is_converted_before_the_device_is_used(posed, monkeypatch):
    program, graph, _ = posed
    engine = ScipyEngine(ScipySchedule())
    engine.build(program, graph, 2, CPU, Phases())
    monkeypatch.setattr(Graph, "csc", property(lambda _: pytest.fail("the structure is converted again")))
    engine.prepare(program, graph, 2, CPU, Phases())
    assert engine.ends == {}, "no function of an edge reads its ends"
    assert engine._hosted == ()


class Elsewhere(ScipyEngine):
    """Reorders edge properties as if its arrays were on a device."""

    on_host = False


def test_edge_properties_are_reordered_on_a_device_as_on_the_host():
    graph = rmat(scale=7, edge_factor=4)
    algorithm = ManifoldRanking(alpha=0.85)
    graph = algorithm.prepare_graph(graph)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 3)
    values = []
    for kind in (ScipyEngine, Elsewhere):
        engine = kind(ScipySchedule())
        engine.prepare(program, graph, 3, CPU, Phases())
        engine.reset(inputs)
        values.append({name: engine.values(name) for name in inputs.properties})
    for name, array in inputs.properties.items():
        for found in values:
            np.testing.assert_array_equal(found[name], array, strict=True)


def test_edges_that_send_nothing_are_not_multiplied_by_undefined_values():
    """The copies of edges in the other direction begin at vertices without a strength: weight / 0."""
    algorithm = WeightedWalks()
    graph = algorithm.prepare_graph(rmat(scale=7, edge_factor=4, max_weight=4))
    program = trace(algorithm)
    inputs = inputs_of(algorithm, program, graph, 3)
    assert (inputs.properties["strength"] == 0).any()
    engine, reference = ScipyEngine(ScipySchedule()), ReferenceRun(program, graph, 3)
    engine.prepare(program, graph, 3, CPU, Phases())
    assert engine.products
    for one in (engine, reference):
        one.reset(inputs)
        one.run(3)
    np.testing.assert_allclose(engine.values("share"), reference.values("share"), rtol=1e-5, atol=1e-7)


def test_a_message_that_divides_by_changing_values_is_no_product_where_edges_send_nothing():
    def build(divisor):
        class Divided(WeightedWalks):
            def build(self, p):
                p.vertex("start", K)
                p.vertex("share", K, start="start")
                p.edge("taken", dtype=bool)
                p.over_edges(into="arriving", reduce="sum")(
                    lambda src, edge: where(edge.taken, src.share / divisor(src), 0.0)
                )
                p.over_vertices(lambda v: {"share": v.arriving})
                p.repeat(3)
                p.output("share", bound=1e-5)

        return trace(Divided())

    changing, constant = build(lambda src: src.share + 1.0), build(lambda src: src.out_degree)
    assert isinstance(as_product(changing, changing.stages[0]), str)
    assert not isinstance(as_product(constant, constant.stages[0]), str)


def weights_on_sides(p, self):
    """Sum the weights of the edges into a vertex, one side at a time."""
    p.edge("weight")
    p.vertex("x", start=1.0)
    p.over_edges(into="weights", reduce="sum")(lambda edge: edge.weight)
    p.over_vertices(lambda v: {"x": 0.5 * v.x + v.weights})
    p.alternate_sides()
    p.repeat(5)
    p.output("x", bound=1e-5)


def test_a_constant_reduction_is_computed_for_either_side():
    program, graph = traced(weights_on_sides, "weights_on_sides"), two_sides()
    run, engine = ReferenceRun(program, graph, 1), ScipyEngine(ScipySchedule())
    run.reset(Inputs({}, {}))
    engine.prepare(program, graph, 1, CPU, Phases())
    engine.reset(Inputs({}, {}))
    for _ in range(5):
        run.run(1)
        engine.run(1)
        np.testing.assert_allclose(engine.values("x"), run.values("x"), rtol=1e-6)

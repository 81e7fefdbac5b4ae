"""Engines over whole arrays of a library: what they convert and build, and how often."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.libraries import scipy_engine
from engines.libraries.products import as_product
from engines.libraries.schedules import ScipySchedule
from engines.libraries.scipy_engine import ScipyEngine
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.api import Arrays
from harness.campaign.problem import inputs_of
from harness.contract import Device, Phases, RunStatistics
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, K, full, trace, where
from harness.language.initial_state import initial_values
from harness.language.reference import ReferenceRun
from tests.engines.problems import problem, program
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named, traced, two_sides
from tests.engines.test_operations import NO_PRODUCT
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


# what is kept, and what is made again ---------------------------------------------------------------------------------
def others(posed):
    """Return the problem, and one that differs in the program, the graph, the features, or the device."""
    program, graph, _ = posed
    same = trace(PageRank()), rmat(scale=7, edge_factor=4)
    return [
        (program, graph, 2, CPU), (same[0], graph, 2, CPU), (program, same[1], 2, CPU), (program, graph, 3, CPU),
        (program, graph, 2, Device(threads=2)),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(5))
def test_what_was_built_is_used_for_the_same_problem_only(posed, monkeypatch, number):
    engine, built, build = ScipyEngine(ScipySchedule()), [], ScipyEngine.build
    monkeypatch.setattr(ScipyEngine, "build", lambda self, *given: built.append(given[:4]) or build(self, *given))
    first, second = others(posed)[0], others(posed)[number]
    engine.build(*first, Phases())
    engine.prepare(*second, Phases())
    assert len(built) == (1 if number == 0 else 2)
    assert built[-1][0] is engine.program is second[0]
    assert built[-1][1] is engine.graph is second[1]
    assert (engine.features, built[-1][3]) == second[2:]
    engine.prepare(*second, Phases())
    assert len(built) == (2 if number == 0 else 3), "it is used once"


@pytest.mark.parametrize("name", ["num_edges", "num_vertices"])
@pytest.mark.parametrize(("count", "kind"), [(2**31 - 1, np.int32), (2**31, np.int64), (2**31 + 1, np.int64)])
def test_numbers_of_edges_and_vertices_that_int32_cannot_count_are_int64(name, count, kind):
    graph = SimpleNamespace(**{"num_edges": 5, "num_vertices": 5, name: count})
    assert ScipyEngine.index.fget(SimpleNamespace(graph=graph)) is kind


@pytest.mark.parametrize(
    ("edges", "vertices", "kind"),
    [
        (2**29 - 1, 5, np.int32), (2**29, 5, np.int64), (2**28, 2**29 - 1, np.int32), (5, 2**29, np.int64),
        (2**30, 5, np.int64), (5, 5, np.int32),
    ],
)  # fmt: skip
def test_entries_of_blocks_that_int32_cannot_count_are_int64(monkeypatch, edges, vertices, kind):
    sides = [SimpleNamespace(edges=slice(0, 2), offsets=np.array([0, 1, 2]))]
    graph = SimpleNamespace(num_edges=edges, num_vertices=vertices, csc=SimpleNamespace(neighbours=np.array([1, 0])))
    self = SimpleNamespace(features=4, graph=graph, sides=sides, arrays=None, csr=None)
    monkeypatch.setattr(scipy_engine.Pattern, "of", lambda columns, offsets, *_: (columns.dtype, offsets.dtype))
    coefficient = SimpleNamespace(shape=(4,))
    [(dtypes, order)] = ScipyEngine._structure(self, SimpleNamespace(coefficient=coefficient, outer=False))
    assert dtypes == (kind, kind)
    assert order.dtype == np.int64


@pytest.mark.parametrize("changed", [{"alpha": 0.3}, {"alpha": 0.9, "tolerance": 0.5}, {}], ids=str)
def test_parameters_of_the_inputs_take_the_place_of_those_of_the_program(posed, changed):
    program, graph, inputs = posed
    assert program.parameters["alpha"] not in changed.values()
    engine, reference = ScipyEngine(ScipySchedule()), ReferenceRun(program, graph, 2)
    engine.prepare(program, graph, 2, CPU, Phases())
    for parameters in (changed, {}):  # those of the run before are forgotten
        for one in (engine, reference):
            one.reset(Inputs(inputs.properties, parameters))
        found, expected = engine.run(30), reference.run(30)
        assert (found.settled, len(found.supersteps)) == (expected.settled, len(expected.supersteps))
        np.testing.assert_allclose(engine.values("rank"), reference.values("rank"), rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NO_PRODUCT])
def test_every_property_begins_as_the_language_says(name):
    program, graph = program_named(name), graph_for(name)
    inputs = inputs_for(program, graph, 3)
    engine = ScipyEngine(ScipySchedule())
    engine.prepare(program, graph, 3, CPU, Phases())
    wanted = initial_values(program, graph, 3, inputs, {}, np.float32)
    state = {one: value[::-1].copy() for one, value in wanted.items() if program.properties[one].role == "state"}
    for warm in ({}, state, {}):
        engine.reset(inputs, warm)
        for one, values in initial_values(program, graph, 3, inputs, warm, np.float32).items():
            np.testing.assert_array_equal(engine.values(one), values, strict=True)
        engine.run(2)
    index = np.array([2, 0, 1, 2])
    for one, prop in program.properties.items():
        if prop.place != "graph":
            np.testing.assert_array_equal(engine.rows(one, index), engine.values(one)[index])
    assert engine.device_values(program.outputs[0]) is None


def uniform(p, self):
    """Write the same row for every vertex, and one of a reduction over all."""
    p.vertex("first", K)
    p.vertex("x", K, start="first")
    p.vertex("y", start=1.0)
    p.edge("weight")
    p.over_edges(into="weights", reduce="sum")(lambda edge: edge.weight)
    p.over_vertices(lambda v: {"x": full(K, 2.0), "y": v.y + v.weights})
    p.repeat(2)
    p.output("x", bound=1e-6)
    p.output("y", bound=1e-6)


def test_values_that_are_equal_everywhere_are_rows_of_every_vertex():
    program, graph = traced(uniform, "uniform"), graph_for("shortest_paths")
    engine = ScipyEngine(ScipySchedule())
    engine.prepare(program, graph, 3, CPU, Phases())
    engine.reset(inputs_for(program, graph, 3))
    engine.run(2)
    np.testing.assert_array_equal(engine.values("x"), np.full((graph.num_vertices, 3), 2.0, np.float32), strict=True)
    reference = ReferenceRun(program, graph, 3)
    reference.reset(inputs_for(program, graph, 3))
    reference.run(2)
    np.testing.assert_allclose(engine.values("y"), reference.values("y"), rtol=1e-5)


@pytest.mark.parametrize("graph_name", ["rmat", "chain", "no edges", "scattered"])
def test_the_statistics_of_a_run_are_those_of_the_reference(graph_name):
    """Cores are whole numbers, so that the same vertices move in float32."""
    posed, (graph, inputs) = program("kcore"), problem("kcore", graph_name, 1)
    engine, reference = ScipyEngine(ScipySchedule()), ReferenceRun(posed, graph, 1)
    engine.prepare(posed, graph, 1, CPU, Phases())
    for one in (engine, reference):
        one.reset(inputs)
    found = None
    for most in (1, 2, 100):
        if found is not None and found.settled:
            break
        found, wanted = engine.run(most), reference.run(most)
        assert found.settled == wanted.settled
        assert [(step.active, step.edges) for step in found.supersteps] == [
            (step.active, step.edges) for step in wanted.supersteps
        ]
    assert engine.run(3) == RunStatistics(settled=True)


def test_a_superstep_after_a_state_computes_constant_reductions_once_and_keeps_the_state():
    program, graph = traced(uniform, "uniform"), graph_for("shortest_paths")
    engine, edges = ScipyEngine(ScipySchedule()), []
    engine.prepare(program, graph, 3, CPU, Phases())
    engine.reset(inputs_for(program, graph, 3))
    step = engine.step
    engine.step = lambda: edges.append(step())
    state = {"y": np.arange(graph.num_vertices, dtype=np.float32)}
    for _ in range(3):
        found = engine.after(state)["y"] - state["y"]
    np.testing.assert_allclose(found, engine.values("weights"), rtol=1e-5, atol=1e-6)
    assert edges == [graph.num_edges, 0, 0]
    assert np.array_equal(state["y"], np.arange(graph.num_vertices))


def test_the_explanation_names_the_implementation_of_every_stage():
    program, graph = program_named("power_iteration"), graph_for("power_iteration")
    engine = ScipyEngine(ScipySchedule())
    engine.prepare(program, graph, 3, CPU, Phases())
    first, schedule, *stages = engine.explain().splitlines()
    assert (first, schedule.startswith("schedule ScipySchedule()")) == ("ScipyEngine", True)
    assert [line.split(":")[0].strip() for line in stages] == [stage.name for stage in program.stages]
    for line, stage in zip(stages, program.stages, strict=True):
        product = engine.products.get(stage.name)
        way = "array functions over all vertices"
        if product is not None:
            way = f"CSR of {product.coefficient!r} times dense {product.dense!r}"
        assert line == f"  {stage.name}: scipy.sparse {way}"


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 5), st.sampled_from([None, 1, 2, 3, 8, 9]),
    st.integers(1, 3), st.sampled_from([np.int32, np.int64]),
)  # fmt: skip
@settings(max_examples=40)
def test_a_matrix_with_rows_cut_into_runs_is_the_same_product(degrees, width, run, n, index):
    random, shapes = np.random.default_rng(sum(degrees)), []
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(index)
    columns = random.integers(0, width, offsets[-1]).astype(index)
    coefficient = random.normal(size=len(columns)).astype(np.float32)
    dense = random.normal(size=(width, n)).astype(np.float32)

    def csr(values, columns, offsets, shape):
        assert columns.dtype == offsets.dtype == index
        assert (len(values), len(offsets)) == (len(columns), shape[0] + 1)
        assert len(values) <= shape[0] * shape[1], "libraries refuse more entries than places"
        shapes.append((shape, int(np.diff(offsets).max(initial=0)), len(values)))
        made = scipy.sparse.csr_array((values, columns, offsets), shape=shape)
        made.columns = columns
        return made

    pattern = scipy_engine.Pattern.of(columns, offsets, width, Arrays(), csr, run)
    cut = bool(run) and max(degrees) > run
    assert len(pattern.structures()) == (3 if cut else 1)
    found = pattern.matrix(coefficient) @ dense
    wanted = np.zeros((len(degrees), n))
    for row, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
        for place in range(first, last):
            wanted[row] += coefficient[place].astype(np.float64) * dense[columns[place]]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    if cut:
        assert max(most for _, most, _ in shapes[1:]) <= run, "no sum of a product is longer"
    (rows, _), _, entries = shapes[-1]  # the matrix of all rows is made last
    assert rows == max(len(degrees), -(-entries // width))

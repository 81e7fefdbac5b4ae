"""Krylov plans of Onyx: right answers under every schedule, symmetric inner products, refusals, what is recorded."""

from __future__ import annotations

import functools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.krylov_solvers import MOST_ITERATIONS
from engines.onyx.krylov_symmetry import bytes_needed, weights
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.campaign.guarded_engine import GuardedEngine
from harness.contract import Device, EngineFailure, No, Phases, ScheduleError, Unsupported
from harness.graph.generators import rmat
from harness.language import Inputs, K, maximum, trace
from harness.language.affine import symmetry
from harness.language.converged import fixed_point
from harness.language.criterion import Criterion
from harness.language.reference import ReferenceRun
from harness.language.residual import residual
from harness.language.validation import compare
from tests.engines.problems import ALGORITHMS, new_engine, outputs_of, prepared, problem, program, small
from tests.engines.programs import traced

SYSTEMS = {"pagerank": "rank", "manifold_ranking": "mm", "multimodal": "mmode"}
GRAPHS = ("scattered", "chain", "rmat", "one loop", "no edges", "grid")
FEATURES = 3
SCHEDULES = {
    "pull": {},
    "push": {"direction": "push"},
    "loops over features": {"feature_aware": False},
    "a kernel for each stage": {"fold": False},
    "push, a kernel for each stage": {"direction": "push", "fold": False},
    "push, loops over features": {"direction": "push", "feature_aware": False},
    "mapped": {"edges": "mapped"},
    "streamed": {"edges": "streamed", "window_mb": 0.01},
}


@functools.cache
def truth(algorithm, graph_name, features):
    graph, inputs = problem(algorithm, graph_name, features)
    traced_program = program(algorithm)
    return fixed_point(traced_program, graph, features, inputs, traced_program.max_supersteps)


def solved(algorithm, graph_name, options, features=FEATURES, threads=2):
    """Return an engine that has run, and its statistics."""
    graph, inputs = problem(algorithm, graph_name, features)
    engine = prepared("onyx", options, program(algorithm), graph, features, threads)
    engine.reset(inputs)
    return engine, engine.run(program(algorithm).max_supersteps)


def assert_right(engine, algorithm, graph_name, features=FEATURES):
    expected = truth(algorithm, graph_name, features)
    found = compare(program(algorithm), outputs_of(engine, program(algorithm)), expected.values, expected.allowances)
    assert found.ok, f"{graph_name}: {found.detail}"


# answers --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("algorithm", "solver", "graphs"),
    [
        ("multimodal", "auto", ("grid",)),
        *(
            pytest.param(algorithm, solver, GRAPHS, marks=pytest.mark.full)
            for algorithm in SYSTEMS
            for solver in ("bicgstab", "auto")
        ),
    ],
)
def test_a_solver_finds_the_fixed_point(algorithm, solver, graphs):
    for graph_name in graphs:
        engine, statistics = solved(algorithm, graph_name, {"solver": solver})
        assert_right(engine, algorithm, graph_name)
        assert statistics.settled
        assert not statistics.supersteps
        engine.close()


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("algorithm", SYSTEMS)
@pytest.mark.parametrize("solver", ["bicgstab", "auto"])
def test_every_schedule_is_an_operator(algorithm, schedule, solver, threads):
    for graph_name in ("grid", "rmat"):
        engine, _ = solved(algorithm, graph_name, {"solver": solver, **SCHEDULES[schedule]}, threads=threads)
        assert_right(engine, algorithm, graph_name)
        engine.close()


@pytest.mark.full
@pytest.mark.parametrize("features", [1, 16, 17, 33, 64, 100])
@pytest.mark.parametrize("algorithm", SYSTEMS)
@pytest.mark.parametrize("solver", ["bicgstab", "auto"])
def test_rows_of_every_length(algorithm, features, solver):
    engine, _ = solved(algorithm, "rmat", {"solver": solver}, features)
    assert_right(engine, algorithm, "rmat", features)


@pytest.mark.parametrize("solver", [pytest.param("bicgstab", marks=pytest.mark.full), "cg"])
def test_the_answer_is_at_rest_by_the_criterion_of_the_program(solver):
    graph, inputs = problem("multimodal", "grid", FEATURES)
    engine, _ = solved("multimodal", "grid", {"solver": solver})
    state = {"mmode": engine.values("mmode")}
    found = residual(program("multimodal"), graph, FEATURES, inputs, state)
    assert found.ok, found.detail
    loose = Inputs(inputs.properties, {**inputs.parameters, "tolerance": 10.0})  # met by the first superstep
    engine.reset(loose)
    engine.run(program("multimodal").max_supersteps)
    state = {"mmode": engine.values("mmode")}
    assert residual(program("multimodal"), graph, FEATURES, loose, state).ok
    assert not residual(program("multimodal"), graph, FEATURES, inputs, state).ok


def test_a_tolerance_of_a_few_roundings_is_met():
    """An absolute tolerance of 1e-6 with values near 1, as in the tutorial: a hundredth of it is below float32."""

    def build(p, self):
        p.edge("weight")
        p.vertex("source", K)
        p.vertex("heat", K, start="source")

        @p.over_edges(into="flow", reduce="sum")
        def flow(src, edge):
            return edge.weight * src.heat

        @p.over_edges(into="capacity", reduce="sum")
        def capacity(edge):
            return edge.weight

        @p.over_vertices
        def mix(v):
            return {"heat": 0.2 * v.source + 0.8 * v.flow / maximum(v.capacity, 1e-30)}

        p.until_settled(self.tolerance, at_most=100)
        p.output("heat", bound=1e-4)

    heat, graph = traced(build, "heat", tolerance_value=1e-6), small("rmat")
    source = np.random.default_rng(0).random((graph.num_vertices, FEATURES), np.float32)
    inputs = Inputs({"source": source}, {"tolerance": 1e-6})
    engine = GuardedEngine(prepared("onyx", {"solver": "auto"}, heat, graph, FEATURES))
    engine.reset(inputs)
    assert engine.run(100).settled
    assert engine.resolved_options()["solver"] == "bicgstab"
    expected = fixed_point(heat, graph, FEATURES, inputs, 100)
    found = compare(heat, outputs_of(engine, heat), expected.values, expected.allowances)
    assert found.ok, found.detail
    engine.close()


@pytest.mark.full
def test_the_run_ends_with_a_superstep_that_meets_the_criterion():
    """In float64, the answer moves by at most the tolerance plus the rounding of one float32 superstep."""
    graph, inputs = problem("pagerank", "rmat", FEATURES)
    engine, _ = solved("pagerank", "rmat", {"solver": "bicgstab"})
    run = ReferenceRun(program("pagerank"), graph, FEATURES)
    before = engine.values("rank").astype(np.float64)
    run.reset(inputs, {"rank": before})
    run.run(1)
    now = run.values("rank")
    criterion = Criterion.of(program("pagerank"))
    parameters = {**program("pagerank").parameters, **inputs.parameters}
    assert criterion.met({"rank": before}, {"rank": now}, parameters)


def test_a_run_is_repeatable_and_continues_nothing():
    _, inputs = problem("multimodal", "grid", FEATURES)
    engine, _ = solved("multimodal", "grid", {"solver": "auto"})
    first = engine.values("mmode")
    assert engine.run(5).settled
    assert np.array_equal(engine.values("mmode"), first)
    engine.reset(inputs)
    assert not np.array_equal(engine.values("mmode"), first)
    engine.run(5)
    assert np.array_equal(engine.values("mmode"), first)


@pytest.mark.full
def test_far_fewer_products_than_supersteps():
    """On a grid, manifold ranking with alpha = 0.99 takes over a thousand supersteps."""
    algorithm, graph = ManifoldRanking(), small("grid")
    ranking, graph = trace(algorithm), algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(graph, FEATURES)
    plain = prepared("onyx", {}, ranking, graph, FEATURES)
    plain.reset(inputs)
    supersteps = len(plain.run(ranking.max_supersteps).supersteps)
    for solver in ("cg", "bicgstab"):
        engine = prepared("onyx", {"solver": solver}, ranking, graph, FEATURES)
        engine.reset(inputs)
        engine.run(ranking.max_supersteps)
        counts = dict(engine.resolved_options()["solved"])
        assert 3 * counts["products"] < supersteps
        assert counts["edges"] == counts["products"] * 2 * graph.num_edges  # two reductions over the edges


# the inner product ----------------------------------------------------------------------------------------------------
def matrix(traced_program, graph, inputs, state, feature):
    """Return A of one feature in float64, by supersteps of unit vectors."""
    features = inputs.properties[next(iter(inputs.properties))].shape[-1]
    run = ReferenceRun(traced_program, graph, features)

    def after(values):
        run.reset(inputs, {state: values})
        run.superstep()
        return run.values(state)[:, feature].copy()

    zero = after(np.zeros((graph.num_vertices, features)))
    columns = []
    for v in range(graph.num_vertices):
        unit = np.zeros((graph.num_vertices, features))
        unit[v, feature] = 1.0
        columns.append(after(unit) - zero)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("algorithm", [pytest.param("manifold_ranking", marks=pytest.mark.full), "multimodal"])
def test_the_matrix_is_symmetric_in_the_weighted_product(algorithm):
    features = 2
    graph, inputs = problem(algorithm, "grid", features)
    form = symmetry(program(algorithm))
    found = weights(form, program(algorithm), graph, features, inputs)
    assert found.shape == (graph.num_vertices, features)
    for feature in range(features):
        operator = matrix(program(algorithm), graph, inputs, SYSTEMS[algorithm], feature)
        scaled = found[:, feature, None] * operator
        assert np.abs(scaled - scaled.T).max() <= 1e-6 * np.abs(scaled).max()
        assert np.abs(operator).max() > 0


def test_asymmetric_inputs_are_told_apart():
    graph, inputs = problem("multimodal", "grid", FEATURES)
    affinity = inputs.properties["affinity"].copy()
    affinity[0] *= 2.0
    skewed = Inputs({**inputs.properties, "affinity": affinity}, inputs.parameters)
    form = symmetry(program("multimodal"))
    assert weights(form, program("multimodal"), graph, FEATURES, skewed) == (
        "'affinity' differs between the two directions of an edge"
    )
    engine = prepared("onyx", {"solver": "cg"}, program("multimodal"), graph, FEATURES)
    with pytest.raises(Unsupported, match="solver=cg needs a symmetric matrix: 'affinity' differs"):
        engine.reset(skewed)
    engine = prepared("onyx", {"solver": "auto"}, program("multimodal"), graph, FEATURES)
    for given, chosen in ((skewed, "bicgstab"), (inputs, "cg"), (skewed, "bicgstab")):
        engine.prepared._first = None
        engine.reset(given)
        engine.run(1)
        assert engine.resolved_options()["solver"] == chosen


def test_a_directed_graph_has_no_symmetric_matrix():
    engine, _ = solved("multimodal", "chain", {"solver": "auto"})
    assert engine.resolved_options()["solver"] == "bicgstab"
    with pytest.raises(Unsupported, match="some edges have no reverse edge"):
        solved("multimodal", "chain", {"solver": "cg"})


# refusals -------------------------------------------------------------------------------------------------------------
REFUSED = {
    "label_propagation": "n_aggr is not an affine function of 'lp'",
    "bfs": "bfs does not converge to a tolerance",
    "components": "components does not converge to a tolerance",
    "hits": "hits does not change one scalar or vector",
    "feature_diffusion": "feature_diffusion does not converge to a tolerance",
    "als": "als does not converge to a tolerance",
    "belief_propagation": "belief_propagation does not change one scalar or vector",
}


@pytest.mark.parametrize("algorithm", REFUSED)
def test_other_programs_are_refused_with_the_reason(algorithm):
    graph = ALGORITHMS[algorithm].prepare_graph(small("ratings" if algorithm == "als" else "grid"))
    found = new_engine("onyx", {"solver": "auto"}).supports(program(algorithm), graph, 2, Device(threads=1))
    assert isinstance(found, No)
    assert found.reason.startswith("solver=auto needs a program whose superstep is A x + b for each feature")
    assert REFUSED[algorithm] in found.reason


def test_features_that_are_not_independent_are_refused():
    def build(p, self):
        p.vertex("given", K)
        p.graph("mixing", (K, K))
        p.vertex("x", K, start="given")
        p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v, graph: {"x": 0.01 * (v.sum @ graph.mixing) + v.given})
        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-4)

    mixed = traced(build, "mixing", tolerance_value=1e-5)
    found = new_engine("onyx", {"solver": "auto"}).supports(mixed, small("grid"), 2, Device(threads=1))
    assert isinstance(found, No)
    assert "rows belong to different features" in found.reason


def test_conjugate_gradients_need_a_symmetric_program():
    engine = new_engine("onyx", {"solver": "cg"})
    found = engine.supports(program("pagerank"), small("grid"), FEATURES, Device(threads=1))
    assert isinstance(found, No)
    assert found.reason == (
        "solver=cg needs a symmetric matrix: pagerank is not known to be symmetric: dangling sums 'rank' over the "
        "graph; give bicgstab or auto"
    )


def test_a_gpu_is_refused():
    found = new_engine("onyx", {"solver": "auto"}).supports(program("pagerank"), small("grid"), 1, Device("cuda"))
    assert found == No("solver=auto is built for the CPU only; leave it unset")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"solver": "cg", "tune": True}, "tune has no meaning with a solver"),
        ({"solver": "cg", "change_driven": True}, "change_driven has no meaning with a solver"),
        ({"solver": "cg", "panel": 4}, "panel has no meaning with a solver"),
        ({"solver": "cg", "dense_share": 0.0}, "dense_share has no meaning with a solver"),
        ({"solver": "auto", "dense_share": 0.5}, "dense_share has no meaning with a solver"),
        ({"solved": (("products", 1),)}, "solved is set by solver"),
    ],
)
def test_options_without_a_meaning_are_refused(options, reason):
    with pytest.raises(ScheduleError, match=reason):
        OnyxSchedule(**options)


def test_a_solver_that_does_not_get_there_fails():
    short = replace(program("multimodal"), control=replace(program("multimodal").control, max_supersteps=6))
    graph, inputs = problem("multimodal", "grid", FEATURES)
    engine = prepared("onyx", {"solver": "bicgstab"}, short, graph, FEATURES)
    engine.reset(inputs)
    with pytest.raises(EngineFailure, match="within 6 products, as many as the program has supersteps"):
        engine.run(6)


# descriptions ---------------------------------------------------------------------------------------------------------
def test_the_record_has_the_solver_and_what_the_first_run_did():
    graph, inputs = problem("multimodal", "grid", FEATURES)
    engine, _ = solved("multimodal", "grid", {"solver": "auto"})
    options = engine.resolved_options()
    assert options["solver"] == "cg"
    assert options["change_driven"] is False
    counts = dict(options["solved"])
    assert list(counts) == ["iterations", "products", "edges"]
    assert 0 < counts["iterations"] < counts["products"]
    assert counts["iterations"] <= MOST_ITERATIONS * counts["products"]
    assert counts["edges"] == counts["products"] * graph.num_edges
    engine.reset(Inputs(inputs.properties, {**inputs.parameters, "tolerance": 1e-2}))
    engine.run(1)
    assert engine.resolved_options()["solved"] == options["solved"]


def test_explain_names_the_plan():
    engine = new_engine("onyx", {"solver": "auto"})
    graph, _ = problem("pagerank", "grid", FEATURES)
    engine.generate(program("pagerank"), graph, FEATURES, Device(threads=1))
    text = engine.explain()
    assert text.startswith("Krylov plan: leaves bulk-synchronous order")
    assert "solver: auto: bicgstab, for corrections of 'rank'" in text
    assert "missed: cg: pagerank is not known to be symmetric: dangling sums 'rank' over the graph" in text
    graph, _ = problem("multimodal", "grid", FEATURES)
    engine.generate(program("multimodal"), graph, FEATURES, Device(threads=1))
    assert "solver: auto: cg if the inputs are symmetric, else bicgstab" in engine.explain()


def test_the_memory_of_the_vectors_is_priced():
    graph, _ = problem("multimodal", "grid", FEATURES)
    device = Device(threads=1)
    needed = {
        name: new_engine("onyx", options).supports(program("multimodal"), graph, FEATURES, device).bytes_needed
        for name, options in {
            "supersteps": {"change_driven": False}, "bicgstab": {"solver": "bicgstab"}, "auto": {"solver": "auto"}
        }.items()
    }  # fmt: skip
    vector = 4 * FEATURES * graph.num_vertices
    assert needed["bicgstab"] - needed["supersteps"] == 9 * vector
    assert needed["auto"] > needed["bicgstab"]
    engine = new_engine("onyx", {"solver": "auto"})
    engine.prepare(program("multimodal"), graph, FEATURES, device, Phases())
    arrays = engine.prepared.executor.memory.arrays
    assert sum(array.nbytes for name, array in arrays.items() if name.startswith("krylov_")) == 8 * vector


@pytest.mark.full
@pytest.mark.parametrize(("algorithm", "sums"), [("manifold_ranking", True), ("multimodal", False)])
def test_the_memory_of_an_inner_product_is_priced(algorithm, sums):
    """``sums``: the weights depend on sums over edges, whose messages are the largest part of what is priced."""
    features = 8
    algorithm = ALGORITHMS[algorithm]
    graph = algorithm.prepare_graph(rmat(scale=12, edge_factor=16, symmetric=True))
    inputs, traced_program = algorithm.inputs(graph, features), trace(algorithm)
    form = symmetry(traced_program)
    assert graph.has_reverse_edges
    weights(form, traced_program, graph, features, inputs)  # checks inputs, and makes the graph's own tables
    tracemalloc.start()
    try:
        found = weights(form, traced_program, graph, features, inputs)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not isinstance(found, str)
    priced = bytes_needed(form, traced_program, graph.facts, features)
    assert (priced / 4 if sums else 0) < most <= priced

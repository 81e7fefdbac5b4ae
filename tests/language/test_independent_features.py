"""Independent features: which programs have them, and that these give the same answer column by column."""

from __future__ import annotations

import numpy as np
import pytest

from harness.conformance.matrix import built_in
from harness.graph import Graph
from harness.language import (
    Inputs,
    K,
    all_features,
    any_feature,
    dot,
    exp,
    eye,
    full,
    largest,
    max_product,
    maximum,
    mean,
    minimum,
    norm,
    normalize,
    outer,
    smallest,
    solve_spd,
    stack,
    total,
    trace,
    where,
)
from harness.language.evaluation import concrete
from harness.language.expressions import Expression
from harness.language.independent_features import _mixes, independent_features, not_in_panels
from harness.language.reference import ReferenceRun
from tests.engines.programs import PROGRAMS, edges_and_loops, graph_for, program_named
from tests.language.programs import WeightedWalks, program_of

FEATURES, SUPERSTEPS = 4, 3


def state(p, shape=K):
    """Declare a state ``x`` that starts as the input ``x0``, and end the program."""
    p.vertex("x0", shape)
    p.vertex("x", shape, start="x0")
    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-5)


def elementwise(p, self):
    state(p)
    p.over_edges(into="got", reduce="sum")(lambda src, dst: where(src.x > dst.x, exp(-src.x), minimum(src.x, 0.5)))
    p.over_vertices(lambda v: {"x": maximum(abs(v.got - v.x), full(K, 0.25)) / (1 + v.in_degree)})


def vectors_on_edges(p, self):
    state(p)
    p.edge("w", K)
    p.edge("flow", K, start="w")
    p.over_edges(updates="flow")(lambda src, edge: 0.5 * edge.flow + 0.125 * src.x)
    p.over_edges(into="got", reduce="max")(lambda src, edge: edge.w * src.x + edge.flow)
    p.over_vertices(lambda v: {"x": where(v.in_degree > 0, 0.5 * v.got, v.x)})


def short_vectors(p, self):
    """Reduce and multiply vectors of three entries, and rows of a matrix of three by k."""
    state(p)
    p.vertex("a", 3)
    p.vertex("m", (3, K))
    p.over_edges(into="rows", reduce="sum")(lambda src: src.m + outer(normalize(src.a), src.x))
    p.over_vertices(lambda v: {"y": v.a @ v.rows + max_product(v.a, v.m) + total(v.a) * v.rows[1]})
    p.over_vertices(lambda v: {"x": 0.1 * (stack(v.y, v.x)[0] + dot(v.a, v.a) * v.x + largest(v.a))})


def matrices_of_three(p, self):
    state(p)
    p.vertex("a", 3)
    p.over_edges(into="got", reduce="sum")(lambda src: 0.1 * src.x)
    p.over_vertices(lambda v: {"x": v.got + total(solve_spd(outer(v.a, v.a) + eye(3), v.a))})


def over_all_vertices(p, self):
    state(p)
    p.graph("scale", K)
    p.over_graph(into="most", reduce="max")(lambda v: v.x)
    p.over_graph(into="vertices", reduce="sum")(lambda v: where(v.in_degree > 0, 1.0, 0.0))
    p.over_edges(into="got", reduce="sum")(lambda src, graph: src.x / graph.most)
    p.over_vertices(lambda v, graph: {"x": 0.1 * v.got + graph.scale / graph.vertices})


def named(p, self):
    state(p)
    p.vertex("to")
    p.over_vertices(into="least", reduce="min", at=lambda v: where(v.to > 0.75, 3.0, v.out_degree))(lambda v: v.to)
    p.over_vertices(lambda v: {"x": 0.5 * v.x + 0.25 * v.at(v.out_degree).x + where(v.least < 9.0, v.least, 0.0)})


INDEPENDENT = (elementwise, vectors_on_edges, short_vectors, matrices_of_three, over_all_vertices, named)


def mixing(value):
    """Return a program whose vertex step uses ``value(v)``, a vector or a scalar."""

    def build(p, self):
        state(p)
        p.vertex("a", 3)
        p.over_edges(into="got", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": 0.5 * v.got + value(v)})

    return build


MIXING = {
    "reduces over features (sum)": [lambda v: total(v.x), lambda v: mean(v.x), lambda v: norm(v.x)],
    "reduces over features (reduce_max)": [lambda v: largest(v.x), lambda v: norm(v.x, "max")],
    "reduces over features (reduce_min)": [lambda v: smallest(v.x)],
    "reduces over features (any)": [lambda v: where(any_feature(v.x > 1), 1.0, 0.0)],
    "reduces over features (all)": [lambda v: where(all_features(v.x > 1), 1.0, 0.0)],
    "normalises over features (l1)": [lambda v: normalize(v.x)],
    "normalises over features (softmax)": [lambda v: normalize(v.x, "softmax")],
    "sums over features (dot)": [lambda v: dot(v.x, v.got)],
    "sums over features (matmul)": [lambda v: total(outer(v.a, v.x) @ v.x)],
    "shape k x k": [lambda v: v.x @ outer(v.x, v.got), lambda v: v.x @ eye(), lambda v: max_product(v.x, eye())],
    "shape k x 3": [lambda v: total(outer(v.x, v.a) @ v.a), lambda v: v.a @ outer(v.x, v.a).T],
}


def drawn_inputs(program, graph, features, seed=5):
    """Return random inputs of all kinds, floats in 0.25..1.25."""
    random, found = np.random.default_rng(seed), {}
    counts = {"vertex": (graph.num_vertices,), "edge": (graph.num_edges,), "graph": ()}
    for prop in program.properties.values():
        if prop.role == "input" and prop.name != "weight":
            values = random.uniform(0.25, 1.25, (*counts[prop.place], *concrete(prop.shape, features)))
            found[prop.name] = values > 0.75 if prop.dtype == "bool" else values.astype(np.float32)
    return Inputs(found, dict(program.parameters))


def answer(program, graph, features, inputs):
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(SUPERSTEPS)
    return {name: run.values(name) for name in program.outputs}


def check_columns(program, graph):
    """Compare all features at once with each column of the inputs, in float64."""
    inputs = drawn_inputs(program, graph, FEATURES)
    vectors = {prop.name for prop in program.properties.values() if prop.shape and prop.shape[-1] is K}
    whole = answer(program, graph, FEATURES, inputs)
    for column in range(FEATURES):
        properties = {
            name: values[..., column : column + 1] if name in vectors else values
            for name, values in inputs.properties.items()
        }
        alone = answer(program, graph, 1, Inputs(properties, inputs.parameters))
        for name, values in whole.items():
            one = values[..., column : column + 1] if name in vectors else values
            np.testing.assert_allclose(alone[name], one, rtol=1e-13, err_msg=f"{name}, column {column}")


@pytest.mark.parametrize("build", INDEPENDENT, ids=lambda build: build.__name__)
def test_independent_features_are_recognised_and_give_the_answer_column_by_column(build):
    program = program_of(build)
    assert independent_features(program) == ""
    assert not_in_panels(program) == ""
    check_columns(program, edges_and_loops())


def test_every_example_with_independent_features_gives_its_answer_column_by_column():
    found = [name for name in PROGRAMS if not independent_features(program_named(name))]
    for name in found:
        check_columns(program_named(name), graph_for(name))
    assert {"shortest_paths", "own_aggregate", "chained_reductions", "without_own", "sides_settle"} <= set(found)
    assert "factors scales its products" in independent_features(program_named("a_product_of_itself"))


@pytest.mark.parametrize("reason", MIXING)
def test_what_combines_features_is_named(reason):
    for value in MIXING[reason]:
        program = program_of(mixing(value))
        assert reason in independent_features(program)
        assert not_in_panels(program) == independent_features(program)


def test_stages_that_run_once_and_initial_factors_count():
    def once(p, self):
        state(p)
        p.once.over_vertices(lambda v: {"share": normalize(v.x0)})
        p.over_edges(into="got", reduce="sum")(lambda src: src.share)
        p.over_vertices(lambda v: {"x": v.got})

    assert "normalises over features" in independent_features(program_of(once))
    assert independent_features(trace(WeightedWalks())) == ""


def test_properties_decide_too():
    def square(p, self):
        state(p)
        p.vertex("table", (K, K))
        p.over_edges(into="got", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": v.got})

    assert "'table' has the shape k x k" in independent_features(program_of(square))
    assert "no value of components has an entry for each feature" in independent_features(
        trace(built_in()["components"])
    )


def test_an_unknown_operation_is_refused():
    value = Expression("fold", (Expression("const", attribute=1.0),), shape=(K,))
    assert "fold, of which it is not known" in _mixes(value)


def test_built_in_algorithms():
    reasons = {name: not_in_panels(trace(algorithm)) for name, algorithm in built_in().items()}
    run = {name for name, reason in reasons.items() if not reason}
    assert {"pagerank", "bfs", "sssp", "feature_diffusion", "hits", "multimodal"} <= run
    assert "n_aggr normalises over features (l1)" in reasons["label_propagation"]
    assert "shape k x k" in reasons["belief_propagation"]
    assert "step sums over features (dot)" in reasons["sgd_mf"]


# features that are independent, but not in panels -------------------------------------------------------------------
def settling_with_a_scalar(p, self):
    p.vertex("n", start=0.0)
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.over_edges(into="got", reduce="min")(lambda src: src.x + src.n)
    p.over_vertices(lambda v: {"x": minimum(v.x, v.got), "n": v.n + 1.0})
    p.until_settled(at_most=20)
    p.output("x", bound=1e-5)


def counting(p, self):
    state(p)
    p.over_edges(into="got", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v, graph: {"x": v.got / (1.0 + graph.superstep)})


def in_place(p, self):
    state(p)
    p.over_edges(update="both")(lambda src, dst: {"src": {"x": 0.5 * dst.x}, "dst": {"x": 0.5 * src.x}})


def keeping_a_product(p, self):
    state(p)
    p.edge("weight")
    p.vertex("all", start=1.0)
    p.over_edges(into="got", reduce="sum")(lambda src, edge: src.all.without(edge.weight) * src.x)
    p.over_edges(into="all", reduce="prod")(lambda edge: edge.weight)
    p.over_vertices(lambda v: {"x": 0.1 * v.got})


def test_values_without_features_may_not_change_in_a_run_that_settles():
    program = program_of(settling_with_a_scalar)
    assert independent_features(program) == ""
    assert "'n' has no features and changes during a run" in not_in_panels(program)


def test_a_panel_that_needs_more_than_its_values_cannot_be_continued():
    for build, reason in (
        (counting, "reads the number of the superstep"), (in_place, "in an order that may differ"),
        (keeping_a_product, "keeps a product, whose factors are not known"),
    ):  # fmt: skip
        program = program_of(build)
        assert independent_features(program) == ""
        assert reason in not_in_panels(program)


def test_a_product_that_every_superstep_makes_anew_can_be_continued():
    def build(p, self):
        state(p)
        p.edge("weight")
        p.over_edges(into="all", reduce="prod")(lambda edge: edge.weight)
        p.over_edges(into="got", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": 0.1 * v.got * v.all})

    assert not_in_panels(program_of(build)) == ""


def test_panels_cannot_alternate():
    program = program_named("sides_settle")
    assert independent_features(program) == ""
    assert "two sides of the graph in turn" in not_in_panels(program)


def test_a_graph_without_edges_or_vertices_has_columns_too():
    check_columns(
        program_of(elementwise), Graph.from_edges(np.empty(0, int), np.empty(0, int), num_vertices=2, name="two")
    )

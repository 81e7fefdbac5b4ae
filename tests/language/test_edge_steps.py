"""Steps that update both ends of edges: tracing, refusals, and the float64 reference against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.campaign.cell import load
from harness.contract import Device, No
from harness.graph import Graph
from harness.graph.generators import random_ratings
from harness.language import Inputs, InvalidInput, K, LanguageError, dot, trace, where
from harness.language.analysis import change_driven, fold_groups, unfolded
from harness.language.edge_steps import levels
from harness.language.explain import explain_program
from harness.language.program import edge_steps
from harness.language.reference import ReferenceRun
from harness.language.sampled_stages import not_sampled
from harness.plugins import load_plugins
from tests.language.programs import program_of

FEATURES = 3


def stepping(p, self, *, update="both", **options):
    p.edge("rating")
    p.vertex("seed", K)
    p.vertex("x", K, start="seed")

    @p.over_edges(update=update, **options)
    def step(src, dst, edge, graph):
        down = self.rate / (1.0 + graph.superstep) * (edge.rating - dot(src.x, dst.x))
        return {"src": {"x": src.x + down * dst.x}, "dst": {"x": dst.x + down * src.x}}

    p.repeat(3)
    p.output("x", bound=1e-5)


@pytest.fixture(scope="module")
def small():
    algorithm = SGDMatrixFactorisation(epochs=4, alpha=0.1, bias="both")
    graph = algorithm.prepare_graph(random_ratings(users=12, items=8, num_ratings=40, seed=3))
    return algorithm, graph, algorithm.inputs(graph, FEATURES)


def one_rating_after_another(algorithm, graph, inputs, orders):
    """Return factors and biases in float64, by a loop over ratings."""
    x = inputs.properties["initial"].astype(np.float64)
    b = np.zeros(graph.num_vertices)
    rating = inputs.properties["rating"].astype(np.float64)
    u, v = graph.csr.row_of_edge, graph.csr.neighbours
    for sweep, order in enumerate(orders):
        rate = algorithm.alpha / (1 + algorithm.beta * sweep**1.5)
        for e in order:
            user, item = x[u[e]].copy(), x[v[e]].copy()
            error = rating[e] - user @ item - b[u[e]] - b[v[e]]
            x[u[e]] += rate * (error * item - algorithm.lam * user)
            x[v[e]] += rate * (error * user - algorithm.lam * item)
            b[u[e]] += rate * (error - algorithm.lam * b[u[e]])
            b[v[e]] += rate * (error - algorithm.lam * b[v[e]])
    return {"x": x, "b": b}


def test_the_reference_is_a_loop_over_the_edges_in_the_given_order(small):
    algorithm, graph, inputs = small
    run = ReferenceRun(trace(algorithm), graph, FEATURES)
    rng = np.random.default_rng(0)
    orders = [np.arange(graph.num_edges), *(rng.permutation(graph.num_edges) for _ in range(3))]
    run.reset(inputs)
    for order in orders:
        run.orders = {"step": order}
        run.run(1)
    wanted = one_rating_after_another(algorithm, graph, inputs, orders)
    for name, values in wanted.items():
        np.testing.assert_allclose(run.values(name), values, rtol=1e-10, atol=1e-12)
    run.orders = {}
    run.reset(inputs)
    run.run(4)
    csr = one_rating_after_another(algorithm, graph, inputs, [np.arange(graph.num_edges)] * 4)
    np.testing.assert_allclose(run.values("x"), csr["x"], rtol=1e-10, atol=1e-12)
    assert abs(csr["x"] - wanted["x"]).max() > 1e-3  # another order is another result


@pytest.mark.parametrize("options", [{"rates": "adagrad"}, {"normalise": "largest"}, {"sides": "double"}])
def test_sweeps_reduce_the_error(options):
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=8, **options)
    given_graph = random_ratings(users=30, items=20, num_ratings=250)
    graph = algorithm.prepare_graph(given_graph)
    program = trace(algorithm)
    run = ReferenceRun(program, graph, 4)
    run.reset(algorithm.inputs(graph, 4))
    errors = []
    for _ in range(8):
        run.run(1)
        errors.append(algorithm.metrics(given_graph, {name: run.values(name) for name in program.outputs}))
    found = [error["train_rmse"] for error in errors]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.9 * found[0]


def test_held_out_ratings_are_no_training_ratings():
    algorithm = SGDMatrixFactorisation(holdout=0.25, epochs=1)
    both = random_ratings(users=30, items=20, num_ratings=250)
    graph = algorithm.prepare_graph(both.with_reverse_edges())
    assert graph.num_edges < 250
    assert (graph.csr.row_of_edge < 30).all()
    found = algorithm.metrics(both.with_reverse_edges(), {"x": np.zeros((50, 2), np.float32)})
    offset = graph.weights.mean(dtype=np.float64)
    assert found["train_rmse"] == pytest.approx(np.sqrt(((graph.weights - offset) ** 2).mean()))
    assert found["rmse"] != found["train_rmse"]


def test_a_graph_without_sides_needs_its_double_cover():
    square = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], name="square", weights=[1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InvalidInput, match="sides=double"):
        SGDMatrixFactorisation().prepare_graph(square)
    cover = SGDMatrixFactorisation(sides="double").prepare_graph(square)
    assert cover.bipartite == (4, 4)
    assert cover.csr.neighbours.tolist() == [5, 6, 7, 4]
    cover.validate()
    with pytest.raises(InvalidInput, match="rates='fast': give one of power, adagrad"):
        SGDMatrixFactorisation(rates="fast").prepare_graph(cover)


# the stage ------------------------------------------------------------------------------------------------------------
def test_a_step_is_described_and_has_no_change_driven_form():
    program = program_of(stepping)
    assert [step.name for step in edge_steps(program)] == ["step"]
    text = explain_program(program)
    assert "step: in place, edge by edge in any order, conflicts serial" in text
    assert "graph.superstep" in text
    assert "step moves both ends of an edge in place each time it runs" in change_driven(program)
    assert [group.kind for group in (*unfolded(program), *fold_groups(program, "pull"))] == ["step", "step"]
    assert "depends on all edges" in not_sampled(program)


def test_order_and_conflicts_are_part_of_the_program():
    variants = [{}, {"order": "given"}, {"conflicts": "lossy"}]
    prints = {program_of(lambda p, self, o=options: stepping(p, self, **o)).fingerprint for options in variants}
    assert len(prints) == 3


def written(p, **steps):
    p.vertex("x", K, start=1.0)
    p.vertex("flag", dtype=bool, start=False)
    p.vertex("given", K)
    p.repeat(1)
    p.output("x", bound=1e-5)


def settling(p, self):
    written(p)
    p.over_edges(update="both")(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}})
    p.until_settled(at_most=3)


def alternating(p, self):
    written(p)
    p.over_edges(update="both")(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}})
    p.alternate_sides()


def stepped(function, **options):
    def build(p, self):
        written(p)
        p.edge("w", start=1.0)
        p.over_edges(update="both", **options)(function)

    return build


MALFORMED = {
    "one end": (stepped(lambda src: {"src": {"x": src.x}}), "updates both ends"),
    "no dict": (stepped(lambda src: src.x), "updates both ends"),
    "no dict of an end": (stepped(lambda src, dst: {"src": src.x, "dst": {"x": src.x}}), "for 'src' it gives no prop"),
    "no dict of the other end": (stepped(lambda src, dst: {"src": {"x": src.x}, "dst": 1.0}), "for 'dst' it gives no"),
    "a third end": (stepped(lambda src: {"src": {"x": src.x}, "dst": {"x": src.x}, "edge": {}}), "updates both ends"),
    "nothing": (stepped(lambda src: {"src": {"x": src.x}, "dst": {}}), "gives no property"),
    "shape": (stepped(lambda src, dst: {"src": {"x": 1.0}, "dst": {"x": src.x}}), "of shape"),
    "bool": (stepped(lambda src, dst: {"src": {"flag": src.flag}, "dst": {"x": src.x}}), "float of vertices"),
    "input": (stepped(lambda src, dst: {"src": {"given": dst.x}, "dst": {"x": src.x}}), "with a start"),
    "unknown": (stepped(lambda src, dst: {"src": {"y": dst.x}, "dst": {"x": src.x}}), "no declared property"),
    "reverse": (
        stepped(lambda src, dst, edge: {"src": {"x": edge.reverse.w * dst.x}, "dst": {"x": src.x}}), "edge.reverse",
    ),
    "order": (stepped(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}}, order="csr"), "any or given"),
    "conflicts": (stepped(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.x}}, conflicts="no"), "or lossy"),
    "settling": (settling, "use p.repeat"),
    "alternating": (alternating, "alternate_sides"),
    "other argument": (lambda p, self: p.over_edges(update="both", into="x"), "order=, conflicts= and when= only"),
    "other stage": (lambda p, self: p.over_edges(into="x", reduce="sum", order="given"), "belong to"),
    "reserved": (lambda p, self: p.graph("superstep"), "not a property name"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_steps_are_refused(build, message):
    with pytest.raises(LanguageError, match=message):
        program_of(build)


def test_a_false_guard_skips_the_edge():
    def build(p, self):
        p.edge("rating")
        p.vertex("x", start=1.0)

        @p.over_edges(update="both", when=lambda edge: edge.rating > 2.0)
        def step(src, dst):
            return {"src": {"x": src.x + dst.x}, "dst": {"x": where(dst.x > 0.0, src.x, 0.0)}}

        p.repeat(1)
        p.output("x", bound=1e-5)

    graph = Graph.from_edges([0, 0, 1], [2, 3, 3], name="three", weights=[3.0, 1.0, 4.0])
    run = ReferenceRun(program_of(build), graph, 1)
    run.reset(Inputs({"rating": graph.weights}))
    run.run(1)
    assert run.values("x").tolist() == [2.0, 2.0, 1.0, 1.0]


def test_a_self_loop_is_an_invalid_input():
    loop = Graph.from_edges([0, 1], [1, 1], name="loop")
    with pytest.raises(InvalidInput, match="self-loops"):
        ReferenceRun(program_of(stepping), loop, 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.randoms(use_true_random=False))
def test_levels_keep_the_order_of_edges_with_a_common_end(pairs, random):
    ends = np.asarray([pair for pair in pairs if pair[0] != pair[1]], np.int64).reshape(-1, 2)
    order = np.asarray(random.sample(range(len(ends)), len(ends)), np.int64)
    groups = list(levels(ends[:, 0], ends[:, 1], order))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    level = np.full(len(order), -1)
    for number, group in enumerate(groups):
        assert len(np.unique(ends[group])) == 2 * len(group)
        level[group] = number
    assert (level >= 0).all()
    assert sum(map(len, groups)) == len(order)
    last = {}
    for e in order:  # the level of an edge is one more than the larger of its ends'
        wanted = 1 + max(last.get(v, -1) for v in ends[e])
        assert level[e] == wanted
        last |= dict.fromkeys(ends[e].tolist(), wanted)


# engines --------------------------------------------------------------------------------------------------------------
BULK = ("onyx", "gunrock", "tigr", "simdx", "scipy")  # the others call functions of libraries for known problems


@pytest.mark.parametrize("name", BULK)
def test_engines_that_evaluate_edges_in_bulk_refuse_with_one_sentence(small, name):
    _, graph, _ = small
    spec = load_plugins().engine(name)
    engine = load(spec.factory)(spec.schedule())
    for kind in spec.devices:
        answer = engine.supports(program_of(stepping), graph, FEATURES, Device(kind, threads=1))
        assert isinstance(answer, No)
        wanted = "step updates both ends of an edge in place; this engine evaluates all edges on the values"
        assert answer.reason.startswith(wanted)


def test_programs_that_read_the_number_of_the_superstep_are_refused_too(small):
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v, graph: {"x": v.sum / (1.0 + graph.superstep)})
        p.repeat(2)
        p.output("x", bound=1e-5)

    program, (_, graph, _) = program_of(build), small
    spec = load_plugins().engine("scipy")
    answer = load(spec.factory)(spec.schedule()).supports(program, graph, 1, Device(threads=1))
    assert isinstance(answer, No)
    assert "the number of the superstep" in answer.reason
    assert "the number of the superstep" in change_driven(program)

"""Supersteps checked on a sample of vertices: the sample's values equal those of a whole superstep of the reference."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import (
    Algorithm,
    Inputs,
    K,
    maximum,
    outer,
    sampled,
    smallest,
    total,
    trace,
    where,
    whole_reductions,
)
from harness.language.reference import ReferenceRun
from harness.language.residual import Share
from harness.language.sampled import HEAVIEST, Sample, heaviest
from harness.language.sampled_stages import not_sampled
from harness.language.warm import kept_properties
from tests.engines.problems import program
from tests.engines.programs import PROGRAMS, inputs_for, program_named


def algorithms():
    from harness.algorithms.als import ALS
    from harness.algorithms.bfs import BFS
    from harness.algorithms.label_propagation import LabelPropagation
    from harness.algorithms.manifold_ranking import ManifoldRanking
    from harness.algorithms.multimodal import Multimodal
    from harness.algorithms.pagerank import PageRank

    return {
        "label_propagation": LabelPropagation(clamp=False, seeds="random"),
        "als": ALS(sides="all", ratings="drawn"),
        "belief_propagation": BeliefPropagation(vertices="drawn", smoothness=0.5),
        "manifold_ranking": ManifoldRanking(),
        "multimodal": Multimodal(seeds="random"),
        "bfs": BFS(),
        "pagerank": PageRank(personalise="uniform"),
    }


def run_of(name, features=3):
    """Return the algorithm's run on a small graph with its inputs, and a sample of a tenth of the vertices."""
    algorithm = algorithms()[name]
    graph = rmat(scale=8, edge_factor=6, seed=3, symmetric=name != "pagerank", max_weight=4)
    return posed(trace(algorithm), algorithm.inputs, algorithm.prepare_graph(graph), features)


def posed(traced, inputs_on, graph, features=3):
    inputs = inputs_on(graph, features)
    run = ReferenceRun(traced, graph, features)
    run.reset(inputs)
    return traced, graph, inputs, run, Sample.draw(traced, graph, 4, seed=1)


def state(run, traced):
    return {prop: run.values(prop) for prop in kept_properties(traced)}


def parts(sample, values):
    return {name: sample.part_of(name, whole) for name, whole in values.items()}


def results(run, sample, traced):
    return {name: sample.results_of(name, run.values(name)) for name in sample.compared_names}


@pytest.mark.parametrize("name", list(algorithms()))
def test_supersteps_of_the_whole_are_those_of_the_sample(name):
    supersteps_are_right(*run_of(name))


def supersteps_are_right(traced, graph, inputs, run, sample, features=3):
    """Return whether four supersteps of the whole graph pass the check at the sample, with reductions over the
    whole."""
    assert not not_sampled(traced)
    before = None
    for _ in range(4):
        reduced = sample.reduced(graph, inputs, features, before)
        run.run(1)
        given = None if before is None else parts(sample, before)
        found = sample.compared(inputs, features, given, results(run, sample, traced), reduced=reduced)
        assert found.ok, found.detail
        assert found.error < 1e-9
        before = state(run, traced)


def program_of(write):
    class Small(Algorithm):
        name = write.__name__

        def build(self, p):
            write(p)

    return trace(Small())


def reduces_much(p):
    """Reduce over the graph by all reducers, from vertex values and from one another; other state would break its
    declaration on vertices without in-edges."""
    p.edge("weight")
    p.edge("w", start=1.0)
    p.vertex("start", K, nonnegative=True)
    p.vertex("x", K, start="start", nonnegative=True)

    @p.over_vertices
    def half(v):
        return {"x": 0.5 * v.x + 0.1 * v.in_degree + 0.01 * v.out_degree}

    @p.over_graph(into="mass", reduce="sum")
    def mass(v):
        return v.x

    @p.over_graph(into="top", reduce="max")
    def top(v, graph):
        return v.x / graph.mass

    @p.over_graph(into="least", reduce="min")
    def least(v):
        return smallest(v.x)

    @p.over_graph(into="odds", reduce="prod")
    def odds(v):
        return 1 + 0.001 * v.x

    @p.over_graph(into="moments", reduce="sum")
    def moments(v):
        return outer(v.x, v.x)

    @p.over_edges(updates="w")
    def wear(src, edge, graph):
        return 0.5 * edge.reverse.w + graph.least * smallest(src.x) + 0.1 * edge.weight

    @p.over_edges(into="best", reduce="max")
    def best(src, edge):
        return edge.w * src.x

    @p.over_vertices
    def step(v, graph):
        shared = graph.top + graph.odds / (1 + graph.odds) + (graph.moments @ v.x) / total(graph.mass) ** 2
        return {"x": where(v.in_degree > 0, v.best, 0.0) / (1 + graph.mass) + shared}

    p.repeat(4)
    p.output("x", bound=1e-4)


def keeps_a_promise_that_needs_all_messages(p):
    """Every vertex has an in-edge and so a sum of 1 or more; the part lacks in-edges of vertices outside the sample."""
    p.vertex("x", K, start=2.0, nonnegative=True)
    p.over_edges(into="met", reduce="sum")(lambda src: maximum(src.x, 1.0))
    p.over_vertices(lambda v: {"kept": where(v.met > 0, 0.0, -1.0) + v.met / (1.0 + v.met)})
    p.over_vertices(lambda v: {"x": v.kept})
    p.repeat(4)
    p.output("x", bound=1e-4)


def test_stages_that_depend_on_messages_run_where_all_of_these_are_there():
    ring = np.arange(300)
    graph = Graph.from_edges(
        np.concatenate([ring, ring]), np.concatenate([(ring + 1) % 300, ring * 7 % 300]), num_vertices=300, name="ring"
    )
    supersteps_are_right(*posed(program_of(keeps_a_promise_that_needs_all_messages), lambda *_: Inputs({}), graph))


@pytest.mark.parametrize("each", [1, 4])
def test_the_heaviest_vertices_that_are_added_have_few_in_edges_together(each, monkeypatch):
    """Those with the smallest numbers, as many as have four times the edges of a class."""
    algorithm, graph = algorithms()["pagerank"], rmat(scale=9, edge_factor=8, seed=3)
    traced, state_ = trace(algorithm), {"rank": np.random.default_rng(1).random((graph.num_vertices, 2))}
    drawn = Sample.draw(traced, graph, each)
    for most in (0, 10, 200, 10**9):
        monkeypatch.setattr(sampled, "CLASS_EDGES", most)
        found, ordered = drawn.with_heaviest(graph, state_), heaviest(state_["rank"])
        fits = np.cumsum(graph.in_degrees[ordered]) <= 4 * most
        assert np.array_equal(found.vertices, np.union1d(drawn.vertices, ordered[fits]))
        class_ = found.classes == drawn.classes.max() + 1
        assert np.array_equal(np.flatnonzero(class_), ordered[fits])
        assert found.weights.sum() == pytest.approx(np.isin(found.classes, found.classes[found.vertices]).sum())


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_is_checked_rightly_or_refused(name):
    traced = program_named(name)
    if not not_sampled(traced):
        graph = rmat(scale=8, edge_factor=6, seed=3, symmetric=True, max_weight=4)
        supersteps_are_right(*posed(traced, lambda graph, features: inputs_for(traced, graph, features), graph))


def random_start(graph, features):
    return Inputs({"start": np.random.default_rng(1).random((graph.num_vertices, features), np.float32)}, {})


@pytest.mark.parametrize("at_once", [1, 200, 1 << 20])
def test_reductions_over_the_whole_graph_are_given_to_the_part(at_once, monkeypatch):
    monkeypatch.setattr(whole_reductions, "_AT_ONCE", at_once)
    graph = rmat(scale=8, edge_factor=6, seed=3, symmetric=True, max_weight=4)
    supersteps_are_right(*posed(program_of(reduces_much), random_start, graph))


def test_reductions_over_only_the_part_are_found_wrong():
    traced, graph, inputs, run, sample = run_of("pagerank")
    run.run(1)
    before, reduced = state(run, traced), sample.reduced(graph, inputs, 3, state(run, traced))
    run.run(1)
    assert np.allclose(reduced["dangling"], run.values("dangling"), rtol=1e-12)
    assert sample.compared(inputs, 3, parts(sample, before), results(run, sample, traced), reduced=reduced).ok
    part = ReferenceRun(traced, sample.graph, 3)
    part.reset(Inputs(parts(sample, inputs.properties), inputs.parameters), parts(sample, before))
    part.superstep()
    of_part = {"dangling": part.values("dangling")}
    found = sample.compared(inputs, 3, parts(sample, before), results(run, sample, traced), reduced=of_part)
    assert not found.ok


def test_a_program_without_reductions_over_the_graph_reduces_nothing():
    _, _, inputs, _, sample = run_of("label_propagation")
    assert sample.reduced(None, inputs, 3, None) == {}


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
    before = parts(sample, state(run, traced))
    assert not sample.compared(inputs, 3, before, results(run, sample, traced)).ok


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ranks_that_move_by_five_times_the_tolerance_are_not_at_rest(seed):
    """The movement of all vertices is estimated from a sample of them; the tolerance limits its sum."""
    algorithm, graph = algorithms()["pagerank"], rmat(scale=12, edge_factor=8, seed=seed)
    traced, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    sample, run = Sample.draw(traced, graph, 40, seed=seed), ReferenceRun(traced, graph, 2)
    assert len(sample.vertices) < graph.num_vertices / 5
    run.reset(inputs)
    run.run(3)
    early = run.values("rank")
    run.superstep()
    movement = np.abs(run.values("rank") - early).sum(axis=0).max() / early.sum(axis=0).max()
    assert run.run(200).settled
    settled = run.values("rank")
    for factor, right in ((5, False), (0.5, True)):
        share = factor * algorithm.tolerance / movement  # movements are linear in the distance from the fixed point
        now = {"rank": settled + share * (early - settled)}
        reduced = sample.reduced(graph, inputs, 2, now)
        assert sample.rests(inputs, 2, parts(sample, now), whole=now, reduced=reduced).ok == right


def test_ranks_near_one_source_are_sampled_where_they_are():
    """Most of the movement is at vertices that a sample of all degrees misses."""
    algorithm, graph = algorithms()["pagerank"], grid(rows=120, columns=120)
    traced, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    drawn, run = Sample.draw(traced, graph, 20), ReferenceRun(traced, graph, 2)
    run.reset(inputs)
    run.run(6)
    early = {"rank": run.values("rank")}
    assert run.run(200).settled
    settled = {"rank": run.values("rank")}
    sample = drawn.with_heaviest(graph, early)
    assert len(drawn.vertices) < len(sample.vertices) <= len(drawn.vertices) + HEAVIEST
    for now, right in ((early, False), (settled, True)):
        reduced = sample.reduced(graph, inputs, 2, now)
        found = sample.with_heaviest(graph, now)
        assert found.rests(inputs, 2, parts(found, now), whole=now, reduced=reduced).ok == right


def test_the_heaviest_vertices_are_those_with_the_largest_shares():
    values = np.zeros((1 << 17, 2), np.float32)
    values[[5, 70_000, 100_000]] = [[3, 0], [0, 1e-6], [-4, 0]]  # each feature counts by its own sum
    assert heaviest(values, 3).tolist() == [5, 70_000, 100_000]
    assert heaviest(values, 2).tolist() == [70_000, 100_000]
    assert len(heaviest(np.zeros(4, np.float32), 3)) <= 3


def test_a_standard_error_is_that_of_repeated_samples():
    """As derived from all samples of two of three rows in one class, next to a class sampled whole."""
    population = np.array([1.0, 4.0, 9.0])
    pairs = [population[[a, b]] for a, b in ((0, 1), (0, 2), (1, 2))]
    sums = [1.5 * pair.sum() for pair in pairs]
    rows = [np.append(pair, 7.0)[:, None] for pair in pairs]
    share = Share(np.array([1.5, 1.5, 1.0]), np.array([0, 0, 1]), {})
    variances = [share.standard_error(one)[0] ** 2 for one in rows]
    assert np.mean(variances) == pytest.approx(np.var(sums))


def test_the_part_has_the_samples_in_edges():
    _, graph, _, _, sample = run_of("label_propagation")
    assert sample.graph.num_edges == int(graph.in_degrees[sample.vertices].sum())
    assert set(sample.vertices) <= set(sample.near)
    assert np.array_equal(sample.graph.in_degrees[sample.rows], graph.in_degrees[sample.vertices])


def messages_without_a_way_back(p):
    """Write edges by what their sources receive in the same superstep; no edge is known to lead out of the sample."""
    p.vertex("start", K)
    p.vertex("x", K, start="start")
    p.edge("w", K, start=1.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return edge.w * src.x

    @p.over_vertices
    def halve(v):
        return {"x": 0.01 * v.got}

    @p.over_edges(updates="w")
    def message(src, edge):
        return 0.01 * src.got + 0.1 * edge.w

    p.repeat(4)
    p.output("x", bound=1e-4)


def test_stages_and_edges_that_nothing_compared_needs_are_left_out():
    graph = rmat(scale=8, edge_factor=6, seed=3, symmetric=True)
    traced, graph, _, _, sample = posed(program_of(messages_without_a_way_back), random_start, graph)
    assert [stage.name for stage in traced.stages] == ["gather", "halve", "message"]
    assert [stage.name for stage in sample.part.stages] == ["gather", "halve"]
    assert sample.graph.num_edges == int(graph.in_degrees[sample.vertices].sum())  # none back to the in-neighbours


def test_wrong_messages_are_found_on_the_edges_out_of_the_sample():
    """Beliefs are made from the messages of the superstep before, so that wrong ones agree with their own beliefs."""
    traced, graph, inputs, run, sample = run_of("belief_propagation")
    assert sample.leaving == ("msg",)
    sources = graph.csr.row_of_edge[sample.results("msg")]
    assert np.array_equal(np.unique(sources), sample.vertices[graph.out_degrees[sample.vertices] > 0])
    run.run(2)
    before = state(run, traced)
    run.run(1)
    right = results(run, sample, traced)
    wrong = right["msg"] * np.where(np.arange(len(right["msg"])) == 7, 1.0001, 1.0)[:, None]
    for messages, ok in ((right["msg"], True), (wrong, False), (right["msg"][::-1], False)):
        after = {**right, "msg": messages}
        assert sample.compared(inputs, 3, parts(sample, before), after).ok == ok


def beliefs_in_float32(graph, phi, messages):
    """Multiply by adding logarithms in float32, one in-edge after another."""
    found = np.empty(phi.shape)
    logarithms = np.log(messages.astype(np.float32))[graph.in_edge_ids]
    for v, first in enumerate(np.log(phi.astype(np.float32))):
        edges = slice(*graph.csc.offsets[v : v + 2])
        summed = np.concatenate([first[None], logarithms[edges]]).cumsum(axis=0, dtype=np.float32)[-1]
        belief = np.exp(summed - summed.max())
        found[v] = belief / belief.sum()
    return found


@pytest.mark.parametrize("features", [4, 16])
@pytest.mark.parametrize("smoothness", [1.0, 3.0])
def test_products_may_have_the_errors_of_sums_of_logarithms_in_float32(features, smoothness):
    algorithm = BeliefPropagation(vertices="drawn", smoothness=smoothness)
    graph = algorithm.prepare_graph(rmat(scale=11, edge_factor=8, symmetric=True, seed=5))
    traced, graph, inputs, run, sample = posed(trace(algorithm), algorithm.inputs, graph, features)
    for _ in range(3):
        run.run(1)
        before = state(run, traced)
        beliefs = beliefs_in_float32(graph, inputs.properties["phi"], before["msg"])
        again = run.fork()
        again.run(1)
        exact = again.values("belief")
        for error, ok in ((1, True), (-1, True), (30, False)):
            after = {"belief": sample.results_of("belief", exact + error * (beliefs - exact))}
            found = sample.compared(inputs, features, parts(sample, before), after)
            assert found.ok == ok, found.detail


def answers_on_edges(p):
    """Write edges by values received in the same superstep, and use a temporary before and after messages arrive."""
    p.vertex("start", K)
    p.vertex("x", K, start="start")
    p.edge("w", K, start=1.0)
    p.over_vertices(lambda v: {"scratch": 0.5 * v.x})
    p.over_edges(into="got", reduce="sum")(lambda src, edge: edge.w * src.scratch)
    p.over_edges(updates="w")(lambda src, dst, edge: 0.01 * dst.got + 0.1 * edge.w + 0.1 * edge.reverse.w * src.x)
    p.over_vertices(lambda v: {"scratch": v.got + v.x})
    p.over_vertices(lambda v: {"x": 0.1 * v.scratch})
    p.repeat(4)
    p.output("x", bound=1e-4)
    p.output("w", bound=1e-4)


def test_edges_that_depend_on_messages_are_checked_at_the_sample():
    graph = rmat(scale=8, edge_factor=6, seed=3, symmetric=True)
    traced, graph, inputs, run, sample = posed(program_of(answers_on_edges), random_start, graph)
    supersteps_are_right(traced, graph, inputs, run, sample)
    assert sample.graph.num_edges > int(graph.in_degrees[sample.vertices].sum())  # edges back are read


def test_vertices_are_classed_by_the_bits_of_their_in_degree(monkeypatch):
    monkeypatch.setattr(sampled, "_AT_ONCE", 50)
    graph = rmat(scale=8, edge_factor=16, seed=1, symmetric=True)
    assert sampled.classes_of(graph).tolist() == [int(degree).bit_length() for degree in graph.in_degrees]


def test_hubs_and_others_are_drawn():
    graph = rmat(scale=10, edge_factor=16, seed=1, symmetric=True)
    drawn = np.frexp(graph.in_degrees[Sample.draw(program("label_propagation"), graph, 3).vertices])[1]
    classes, counts = np.unique(drawn, return_counts=True)
    assert set(classes) == set(np.frexp(graph.in_degrees)[1])
    assert counts.max() == 3


def test_programs_that_sampling_cannot_check_are_reported():
    assert "alternates" in not_sampled(program("als"))
    reason = "spread_again reads values that its sources received in the same superstep"
    assert not_sampled(program_named("gathered_twice")) == reason


def sends_back_what_was_heard(p):
    p.vertex("start", K)
    p.vertex("x", K, start="start")
    p.edge("w", K, start=1.0)
    p.over_edges(into="got", reduce="sum")(lambda src, edge: edge.w * src.x)
    p.over_edges(updates="w")(lambda dst, edge: 0.1 * dst.got + 0.1 * edge.w)
    p.over_edges(into="back", reduce="sum")(lambda edge: edge.reverse.w)
    p.over_vertices(lambda v: {"x": v.back})
    p.repeat(2)
    p.output("x", bound=1e-4)


def reduces_what_was_heard(p):
    p.vertex("start", K)
    p.vertex("x", K, start="start")

    @p.over_edges(into="got", reduce="sum")
    def gather(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.got}

    @p.over_graph(into="mass", reduce="sum")
    def mass(v):
        return v.x

    @p.over_vertices
    def scale(v, graph):
        return {"x": v.x / graph.mass}

    p.repeat(2)
    p.output("x", bound=1e-4)


def reduces_twice(p):
    p.vertex("start", K)
    p.vertex("x", K, start="start")
    for _ in range(2):
        p.over_graph(into="mass", reduce="sum")(lambda v: v.x)
        p.over_vertices(lambda v, graph: {"x": v.x / graph.mass})
    p.repeat(2)
    p.output("x", bound=1e-4)


def counts_vertices(p):
    p.vertex("start", K)
    p.vertex("x", K, start="start")
    p.over_graph(into="mean", reduce="sum")(lambda v, graph: v.x / graph.num_vertices)
    p.over_vertices(lambda v, graph: {"x": v.x - graph.mean})
    p.repeat(2)
    p.output("x", bound=1e-4)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (reduces_what_was_heard, "mass reduces over the whole graph values received in the same superstep"),
        (reduces_twice, "reduces over the whole graph into a property that was reduced before"),
        (counts_vertices, "reads the size of the graph"),
        (sends_back_what_was_heard, "reads values that its sources received in the same superstep"),
    ],
)
def test_programs_without_a_sampled_check_are_reported(write, reason):
    assert reason in not_sampled(program_of(write))

"""A run from previous values on a changed graph equals a cold run on it, by the rules of each program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.exact_marginals import exact_marginals
from harness.algorithms.label_propagation import LabelPropagation
from harness.graph import Graph, GraphError
from harness.graph.changes import correspondence
from harness.graph.formats.uai import MarkovNetwork
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import InvalidInput, K, minimum, trace, where
from harness.language.monotone import OneWay, one_way
from harness.language.reference import ReferenceRun
from harness.language.residual import residual
from harness.language.validation import compare
from harness.language.warm import inputs_after, kept_properties, warm_start
from tests.algorithms.multigraphs import multigraphs
from tests.algorithms.networks import forest
from tests.algorithms.warm import ALGORITHMS, kept, outputs, problem, program, run_reference
from tests.engines.programs import traced

ONE_ANSWER = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "manifold_ranking", "multimodal")
KINDS = ("insert", "delete", "heavier", "lighter", "mixed")


def check(name, posed):
    """Return the start; check that all three runs settle and that the warm answer is correct."""
    features = posed.features
    before, old = run_reference(name, features, posed.old)
    start = posed.start(kept(name, old), before.settled)
    cold, wanted = run_reference(name, features, posed.new)
    warm, found = run_reference(name, features, posed.new, start.state)
    assert before.settled
    assert cold.settled
    assert warm.settled
    if ALGORITHMS[name].fixed_points() == "several":
        comparison = residual(program(name), posed.new[0], features, posed.new[1], kept(name, found))
    else:
        comparison = compare(program(name), outputs(name, found), outputs(name, wanted))
    assert comparison.ok, f"{start.summary}: {comparison.detail}"
    return start


@pytest.mark.parametrize("kind", ["insert", "delete"])
@pytest.mark.parametrize("name", ["pagerank", "manifold_ranking", "multimodal"])
def test_vertices_that_a_superstep_changes_are_stale(name, kind):
    """Others may stay as they are: every vertex whose next value differs from the kept one is named."""
    posed = problem(name, rmat(scale=6, seed=3), 2, kind, 0.1, 5)
    before, old = run_reference(name, 2, posed.old)
    start = posed.start(kept(name, old), before.settled)
    assert start.stale is not None
    run = ReferenceRun(program(name), posed.new[0], 2)
    run.reset(posed.new[1], start.state)
    run.run(1)
    moved = np.zeros(posed.new[0].num_vertices, np.bool_)
    for prop, values in start.state.items():
        change = np.abs(np.asarray(run.values(prop), np.float64) - values)
        moved |= change.reshape(len(moved), -1).max(axis=1) > 1e-3 * np.abs(values).max()
    assert not (moved & ~start.stale).any()
    assert moved.any()


@pytest.mark.parametrize("name", ONE_ANSWER)
@given(multigraphs(), st.sampled_from(KINDS), st.sampled_from([1, 2]), st.integers(0, 99))
@settings(max_examples=25)
def test_the_answer_is_that_of_a_cold_run(name, graph, kind, features, seed):
    try:
        posed = problem(name, graph, features, kind, 0.1, seed)
    except (GraphError, InvalidInput):  # nothing to change, or no graph for this algorithm
        assume(False)
    start = check(name, posed)
    assert start.restarted == (name == "kcore" and gained(posed)), start.summary


def gained(posed):
    """Return whether the changed graph has edges that the original lacks."""
    return len(correspondence(posed.old[0], posed.new[0]).added) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["als", "belief_propagation"])
def test_the_answer_is_a_fixed_point_of_the_changed_graph(name, kind):
    if name == "als":
        ratings = random_ratings(users=30, items=20, num_ratings=250)
        start = check(name, problem(name, ratings, 2, kind, 0.02, 1))
        assert not start.restarted
        return
    lattice = grid(rows=8, columns=7)
    picture = Graph.from_edges(
        lattice.csr.row_of_edge, lattice.csr.neighbours, num_vertices=56, name="picture", directed=False,
        weights=lattice.weights, vertex_data={"unary": np.random.default_rng(3).uniform(0.2, 1.0, (56, 3))},
    )  # fmt: skip
    start = check(name, problem(name, picture, 3, kind, 0.02, 1))
    assert not start.restarted


@pytest.mark.parametrize("power", [0.6, 1.5])
def test_beliefs_follow_potentials_that_changed(power):
    """On trees, beliefs are the exact marginals of the changed network."""
    algorithm, graph = BeliefPropagation(potentials="edge"), forest()
    tables = graph.edge_data["pairwise"].copy()
    tables[(graph.csr.row_of_edge < 25) & (graph.csr.neighbours < 25)] **= power
    changed = Graph(graph.csr, name="changed", directed=False, vertex_data=graph.vertex_data,
                    edge_data={"pairwise": tables})  # fmt: skip
    traced_, (old, new) = trace(algorithm), ((g, algorithm.inputs(g, 5)) for g in (graph, changed))
    run = ReferenceRun(traced_, graph, 5)
    run.reset(old[1])
    assert run.run(100).settled
    values = {name: run.values(name) for name in kept_properties(traced_)}
    start = warm_start(traced_, 5, old, new, values, fixed_points=algorithm.fixed_points())
    assert start.summary == "warm"
    assert np.array_equal(start.state["msg"], values["msg"].astype(np.float32))
    exact = exact_marginals(MarkovNetwork.from_graph(changed))
    assert np.abs(run.values("belief") - exact).max() > 0.01
    run = ReferenceRun(traced_, changed, 5)
    run.reset(new[1], start.state)
    assert run.run(100).settled
    np.testing.assert_allclose(run.values("belief"), exact, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ONE_ANSWER)
def test_settled_values_are_kept(name, kind):
    """Most vertices begin with their settled value, which differs from that of a cold start, and settle sooner.

    Exceptions: a k-core that gained an edge restarts, and so does a component that lost an edge that carried its
    label.
    """
    posed = problem(name, rmat(scale=7, edge_factor=6, max_weight=4), 2, kind, 0.005, 1)
    before, old = run_reference(name, 2, posed.old)
    start = posed.start(kept(name, old), before.settled)
    assert start.restarted == (name == "kcore" and gained(posed))
    if start.restarted or (name == "components" and kind in ("delete", "mixed")):
        return
    fresh = ReferenceRun(program(name), posed.new[0], 2)
    fresh.reset(posed.new[1])
    (output,) = program(name).outputs
    found, settled, cold = (v.reshape(128, -1) for v in (start.state[output], old.values(output), fresh.values(output)))
    same = (found == settled.astype(np.float32)).all(axis=1)
    assert same.mean() > 0.9
    assert (same & (found != cold).any(axis=1)).mean() > 0.3
    steps = [len(run_reference(name, 2, posed.new, state)[0].supersteps) for state in (None, start.state)]
    assert steps[1] < steps[0]


def settled_start(name, kind, *, share=0.02, settled=True):
    posed = problem(name, rmat(scale=7, edge_factor=6, max_weight=4), 2, kind, share, 1)
    return posed, posed.start(kept(name, run_reference(name, 2, posed.old)[1]), settled)


@pytest.mark.parametrize("kind", ["insert", "heavier", "lighter", "mixed"])
@pytest.mark.parametrize("name", ["sssp", "manifold_ranking"])
def test_new_and_changed_edges_are_sent_along_again(name, kind):
    posed, start = settled_start(name, kind)
    (old, _), (new, _) = posed.old, posed.new
    found = correspondence(old, new)
    reweighted = found.new[old.weights[found.old] != new.weights[found.new]]
    touched = np.append(found.added, reweighted)
    assert len(found.added if kind == "insert" else reweighted)
    assert start.senders[new.csr.row_of_edge[touched]].all()
    assert start.stale[new.csr.neighbours[touched]].all()
    assert not start.senders.all()


@pytest.mark.parametrize("name", ["bfs", "sssp", "components"])
def test_monotone_programs_keep_all_under_insertions_and_reset_some_under_deletions(name):
    assert settled_start(name, "insert")[1].summary == "warm"
    start = settled_start(name, "delete")[1]
    assert not start.restarted
    assert start.summary == f"warm, {start.vertices_reset} vertices reset"
    assert start.vertices_reset > 1
    assert start.edges_examined > 0
    assert (settled_start("sssp", "lighter")[1].summary, settled_start("bfs", "heavier")[1].summary) == ("warm", "warm")


def test_peeling_restarts_after_insertions():
    assert settled_start("kcore", "delete")[1].summary == "warm"
    start = settled_start("kcore", "insert")[1]
    assert start.restarted
    assert start.summary == "restarted: kcore only removes vertices and cannot continue after insertions"
    assert start.state == {}


@pytest.mark.parametrize("name", ["bfs", "kcore", "pagerank"])
def test_a_run_that_has_not_settled_gives_no_start(name):
    assert settled_start(name, "delete", settled=False)[1].summary == "restarted: the previous run had not settled"


def test_a_change_of_an_out_degree_makes_all_that_it_sends_to_stale():
    posed, start = settled_start("pagerank", "delete", share=0.005)
    old, new = posed.old[0], posed.new[0]
    sources = old.out_degrees != new.out_degrees
    assert sources.any()
    assert start.stale[new.csr.neighbours[sources[new.csr.row_of_edge]]].all()
    assert not start.stale.all()


def test_values_that_no_path_supports_any_more_go_back_to_the_start():
    """A cycle that is cut off from its only source would otherwise keep its values forever."""
    cycle = Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 1, 4], num_vertices=5, name="cycle", labels=[0, -1, -1, -1, 1])
    cut = cycle.select_edges(~((cycle.csr.row_of_edge == 0) & (cycle.csr.neighbours == 1)))
    algorithm = LabelPropagation(seeds="labels", fraction=1.0)
    traced_, inputs = trace(algorithm), algorithm.inputs(cycle, 2)
    run = run_reference("label_propagation", 2, (cycle, inputs))[1]
    values = {name: run.values(name) for name in kept_properties(traced_)}
    new = (cut, inputs_after(traced_, inputs, algorithm.inputs(cut, 2)))
    start = warm_start(traced_, 2, (cycle, inputs), new, values, fixed_points="one")
    assert start.summary == "warm, 3 vertices reset"
    assert (start.state["lp"][1:4] == 0).all()


def test_an_algorithm_without_a_rule_restarts():
    def build(p, self):
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")
        p.over_edges(into="near", reduce="min")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": minimum(0.5 * v.x, v.near)})
        p.until_settled(at_most=10)
        p.output("x", bound=0.0)

    assert isinstance(one_way(traced(build, "halving")), str)


@pytest.mark.parametrize(("name", "kind"), [("bfs", "tightens"), ("sssp", "tightens"), ("components", "tightens"),
                                            ("kcore", "peels")])  # fmt: skip
def test_which_way_programs_move(name, kind):
    way = one_way(program(name))
    assert isinstance(way, OneWay)
    assert way.kind == kind


@pytest.mark.parametrize("name", ["pagerank", "label_propagation", "als", "belief_propagation", "multimodal"])
def test_programs_that_do_not_move_one_way(name):
    assert isinstance(one_way(program(name)), str)


def test_other_vertices_restart():
    posed, _ = settled_start("bfs", "insert")
    larger = problem("bfs", rmat(scale=8, edge_factor=6, max_weight=4), 2, "insert", 0.1)
    posed.new = larger.new
    assert posed.start({}).summary == "restarted: the number of vertices changed"


def removed_by(condition):
    """Return a program that keeps vertices where their number of neighbours meets a condition."""

    def build(p, self):
        p.vertex("alive", start=1.0)
        p.over_edges(into="count", reduce="sum")(lambda src: src.alive)
        p.over_vertices(lambda v: {"alive": where(condition(v.count), v.alive, 0.0)})
        p.until_settled(at_most=10)
        p.output("alive", bound=0.0)

    return traced(build, "removed")


def test_only_vertices_with_few_neighbours_peel():
    assert one_way(removed_by(lambda count: count >= 2.0)).kind == "peels"
    assert one_way(removed_by(lambda count: count > 2.0)).kind == "peels"
    for condition in (lambda count: count < 2.0, lambda count: count <= 2.0):
        assert "does not keep 'alive' where a sum is large enough" in one_way(removed_by(condition))

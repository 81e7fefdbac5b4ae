"""Previous values plus a changed graph equal a cold run on the changed graph, by the rules of each program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.algorithms.label_propagation import LabelPropagation
from harness.graph import Graph, GraphError
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import InvalidInput, K, minimum, trace
from harness.language.residual import residual
from harness.language.settling import OneWay, one_way
from harness.language.validation import compare
from harness.language.warm import inputs_after, kept_properties, warm_start
from tests.algorithms.multigraphs import multigraphs
from tests.algorithms.warm import ALGORITHMS, kept, outputs, problem, program, run_reference
from tests.engines.programs import traced

ONE_ANSWER = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "manifold_ranking", "multimodal")
KINDS = ("insert", "delete", "heavier", "lighter", "mixed")


def check(name, posed):
    """The start, and whether all three runs settled; where they did, the warm answer holds."""
    features = posed.features
    before, old = run_reference(name, features, posed.old)
    start = posed.start(kept(name, old), before.settled)
    cold, wanted = run_reference(name, features, posed.new)
    warm, found = run_reference(name, features, posed.new, start.state)
    if not (cold.settled and warm.settled):
        return start, False
    if ALGORITHMS[name].fixed_points() == "several":
        told = residual(program(name), posed.new[0], features, posed.new[1], kept(name, found))
    else:
        told = compare(program(name), outputs(name, found), outputs(name, wanted))
    assert told.ok, f"{start.told}: {told.detail}"
    return start, before.settled


@pytest.mark.parametrize("name", ONE_ANSWER)
@given(multigraphs(), st.sampled_from(KINDS), st.sampled_from([1, 2]), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_answer_is_that_of_a_cold_run(name, graph, kind, features, seed):
    try:
        posed = problem(name, graph, features, kind, 0.1, seed)
    except (GraphError, InvalidInput):  # nothing to change, or no graph for this algorithm
        assume(False)
    assume(check(name, posed)[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["als", "belief_propagation"])
def test_the_answer_is_a_fixed_point_of_the_changed_graph(name, kind):
    if name == "als":
        ratings = random_ratings(users=30, items=20, num_ratings=250)
        start, settled = check(name, problem(name, ratings, 2, kind, 0.02, 1))
        assert settled
        assert not start.restarted
        return
    if kind in ("heavier", "lighter"):
        pytest.skip("belief propagation does not use weights")
    lattice = grid(rows=8, columns=7)
    picture = Graph.from_edges(
        lattice.csr.row_of_arc, lattice.csr.neighbours, num_vertices=56, name="picture", directed=False,
        vertex_data={"unary": np.random.default_rng(3).uniform(0.2, 1.0, (56, 3))},
    )  # fmt: skip
    start, settled = check(name, problem(name, picture, 3, kind, 0.02, 1))
    assert settled
    assert not start.restarted


def settled_start(name, kind, *, share=0.02, settled=True):
    posed = problem(name, rmat(scale=7, edge_factor=6, max_weight=4), 2, kind, share, 1)
    return posed, posed.start(kept(name, run_reference(name, 2, posed.old)[1]), settled)


@pytest.mark.parametrize("name", ["bfs", "sssp", "components"])
def test_what_tightens_keeps_all_under_insertions_and_resets_some_under_deletions(name):
    assert settled_start(name, "insert")[1].told == "warm"
    start = settled_start(name, "delete")[1]
    assert not start.restarted
    assert start.told == f"warm, {start.vertices_reset} vertices reset"
    assert start.vertices_reset > 1
    assert start.arcs_examined > 0
    assert (settled_start("sssp", "lighter")[1].told, settled_start("bfs", "heavier")[1].told) == ("warm", "warm")


def test_what_peels_starts_anew_after_insertions():
    assert settled_start("kcore", "delete")[1].told == "warm"
    start = settled_start("kcore", "insert")[1]
    assert start.restarted
    assert start.told == "restarted: insertions cannot start kcore warm, which only takes away"
    assert start.state == {}


@pytest.mark.parametrize("name", ["bfs", "kcore", "pagerank"])
def test_a_run_that_has_not_settled_gives_no_start(name):
    assert settled_start(name, "delete", settled=False)[1].told == "restarted: the run before had not settled"


def test_a_change_of_an_out_degree_makes_all_that_it_sends_to_stale():
    posed, start = settled_start("pagerank", "delete", share=0.005)
    old, new = posed.old[0], posed.new[0]
    sources = old.out_degrees != new.out_degrees
    assert sources.any()
    assert start.stale[new.csr.neighbours[sources[new.csr.row_of_arc]]].all()
    assert not start.stale.all()


def test_values_that_no_path_supports_any_more_go_back_to_the_start():
    """A cycle cut off from its only source would keep what it had for ever."""
    cycle = Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 1, 4], num_vertices=5, name="cycle", labels=[0, -1, -1, -1, 1])
    cut = cycle.select_arcs(~((cycle.csr.row_of_arc == 0) & (cycle.csr.neighbours == 1)))
    algorithm = LabelPropagation(seeds="labels", fraction=1.0)
    traced_, inputs = trace(algorithm), algorithm.inputs(cycle, 2)
    run = run_reference("label_propagation", 2, (cycle, inputs))[1]
    values = {name: run.values(name) for name in kept_properties(traced_)}
    new = (cut, inputs_after(traced_, inputs, algorithm.inputs(cut, 2)))
    start = warm_start(traced_, 2, (cycle, inputs), new, values, fixed_points="one")
    assert start.told == "warm, 3 vertices reset"
    assert (start.state["lp"][1:4] == 0).all()


def test_an_algorithm_that_says_nothing_starts_anew():
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


def test_other_vertices_start_anew():
    posed, _ = settled_start("bfs", "insert")
    larger = problem("bfs", rmat(scale=8, edge_factor=6, max_weight=4), 2, "insert", 0.1)
    posed.new = larger.new
    assert posed.start({}).told == "restarted: the graph has other vertices"

"""When a run has settled: a program's criterion in both norms, and the rule for engines that compute everything."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, K, LanguageError, trace
from harness.language.criterion import TEST_EVERY, Criterion, Settling, criterion_text
from harness.language.explain import explain_program
from harness.language.reference import ReferenceRun
from tests.language.programs import program_of


def halving(p, self, **control):
    """Return x = 2^-s after superstep s at every vertex of a graph of loops: its movement equals its value."""
    p.vertex("given", K)
    p.vertex("x", K, start="given")
    p.over_edges(into="aggr", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": v.aggr / 2 + 1})
    p.until_settled(self.tolerance, at_most=60, **control)
    p.output("x", bound=1.0)


def loops(count):
    return Graph.from_edges(np.arange(count), np.arange(count), name="loops")


def settles_after(program, graph, given):
    run = ReferenceRun(program, graph, given.shape[1])
    run.reset(Inputs({"given": given.astype(np.float32)}))
    statistics = run.run(60)
    return len(statistics.supersteps), statistics.settled


@pytest.mark.parametrize("large", [0.0, 3.0])
def test_the_sum_of_a_column_settles_a_run_in_a_tested_superstep(large):
    def build(p, self):
        halving(p, self, relative=True, norm="sum")

    program = program_of(build, tolerance=1e-3)
    # x is 2 + d 2^-s, so superstep s moves it by d 2^-s: 100 vertices at rest beside one that moves, and another
    # feature at rest
    given = np.full((101, 2), 2.0)
    given[0, 1] += 64.0 + large
    still = next(s for s in range(1, 60) if (64 + large) * 2.0**-s <= 1e-3 * (202 + (64 + large) * 2.0**-s))
    assert still % TEST_EVERY == 1
    assert settles_after(program, loops(101), given) == (still + 3, True)
    given[:, 0] = given[:, 1]
    given[:, 1] = 2.0
    assert settles_after(program, loops(101), given) == (still + 3, True)


def test_one_feature_is_not_hidden_behind_another():
    def build(p, self):
        halving(p, self, relative=True, norm="sum")

    given = np.full((4, 2), 2.0)
    given[:, 0] = 1e6
    alone, beside = np.full((4, 2), 2.0), given.copy()
    alone[:, 1] = beside[:, 1] = 10.0
    taken = settles_after(program_of(build, tolerance=1e-3), loops(4), given)[0]
    assert settles_after(program_of(build, tolerance=1e-3), loops(4), beside)[0] == taken
    assert settles_after(program_of(build, tolerance=1e-3), loops(4), alone)[0] < taken


@pytest.mark.parametrize("relative", [False, True])
def test_the_largest_movement_settles_a_run_at_once_where_everything_is_computed(relative):
    def build(p, self):
        halving(p, self, relative=relative)

    given = np.array([[66.0], [2.0]])
    wanted = next(s for s in range(1, 60) if 64 * 2.0**-s <= 1e-3 * ((2 + 64 * 2.0**-s) if relative else 1))
    assert settles_after(program_of(build, tolerance=1e-3), loops(2), given) == (wanted, True)


def test_the_measured_quantity():
    assert Criterion.of(trace(PageRank())) == Criterion(("rank",), "tolerance", "sum", True, 1)
    assert Criterion.of(trace(LabelPropagation())) == Criterion(("lp",), "tolerance", "max", False, 1)
    assert Criterion.of(trace(ALS())) == Criterion(("lf",), "tolerance", "max", False, 2)
    assert Criterion.of(trace(BeliefPropagation())) is None  # its messages are edges
    assert Criterion.of(trace(BFS())) is None  # it has no tolerance


def test_a_measurement_covers_both_sides():
    one, both = (Criterion(("x",), "tolerance", "max", False, sides) for sides in (1, 2))
    assert [s for s in range(9) if one.begins(s)] == [3, 7] == [s for s in range(9) if one.ends(s)]
    assert [s for s in range(9) if both.begins(s)] == [2, 6]
    assert [s for s in range(9) if both.ends(s)] == [3, 7]


@pytest.mark.parametrize(("norm", "within"), [("max", 0.16), ("sum", 0.05)])
def test_nan_is_never_within_and_equal_infinities_are(norm, within):
    criterion = Criterion(("x",), "tolerance", norm, True, 1)
    old, new = np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.2])

    def met(tolerance, before, now):
        return criterion.met({"x": before}, {"x": now}, {"tolerance": tolerance})

    assert met(within, old, new) is False
    assert met(within + 0.02, old, new) is True
    assert met(1e9, old, np.array([1.0, 1.0, np.nan])) is False
    assert met(1e-9, np.array([np.inf, 1.0]), np.array([np.inf, 1.0])) is True


def test_engines_that_compute_everything_need_only_ask():
    program = trace(PageRank())
    settling = Settling(program, {"tolerance": 1e-2, "alpha": 0.85})
    still, moved = np.full(100, 0.01), np.full(100, 0.01)
    moved[0] = 0.011  # 10 % of a vertex, 0.1 % of the whole
    found = [settling.after({"rank": still}, {"rank": moved}) for _ in range(TEST_EVERY)]
    assert found == [False, False, False, True]
    assert settling.settled
    assert Settling(program, {"tolerance": 1e-2, "alpha": 0.85}).after({"rank": still}, {"rank": still})


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({"norm": "euclid"}, "norm='euclid' is not known; the norms are max, sum"),
        ({"norm": "sum"}, "give a tolerance and relative=True"),
    ],
)
def test_norms_that_cannot_be(control, message):
    with pytest.raises(LanguageError, match=message):
        program_of(lambda p, self: halving(p, self, **control))


def test_a_sum_over_edges_is_refused():
    def build(p, self):
        p.edge("message", start=1.0)
        p.vertex("x", start=1.0)
        p.over_edges(into="aggr", reduce="sum")(lambda edge: edge.message)
        p.over_vertices(lambda v: {"x": v.aggr})
        p.over_edges(updates="message")(lambda src: src.x)
        p.until_settled(self.tolerance, relative=True, norm="sum", at_most=5)
        p.output("x", bound=1.0)

    with pytest.raises(LanguageError, match="reads changing edges"):
        program_of(build)


def test_the_rule_is_reported_and_part_of_the_identity():
    rank, labels = trace(PageRank()), trace(LabelPropagation())
    assert "the sum of movements of every column of rank is within self.tolerance of its magnitude" in criterion_text(
        rank
    )
    assert "no entry of lp moves by more than self.tolerance, absolute; measured in every 4th" in criterion_text(labels)
    assert criterion_text(rank) in explain_program(rank)
    absolute, sums = (
        program_of(lambda p, self, norm=norm: halving(p, self, relative=True, norm=norm)) for norm in ("max", "sum")
    )
    assert absolute.fingerprint != sums.fingerprint


@pytest.mark.parametrize("features", [1, 8])
def test_rounding_moves_ranks_by_less_than_the_tolerance_of_pagerank(features):
    """Float32 sums in another order in every superstep never come to rest."""
    graph, rng, alpha = rmat(12), np.random.default_rng(1), np.float32(0.85)
    vertices, degrees = graph.num_vertices, graph.out_degrees
    sources, destinations = np.repeat(np.arange(vertices), degrees), graph.csr.neighbours
    teleport = rng.random((vertices, features), np.float32)
    teleport /= teleport.sum(0)
    ranks, moved = teleport, []
    for _ in range(60):
        order = rng.permutation(len(sources))
        shares = ranks / np.maximum(degrees, 1).astype(np.float32)[:, None]
        sums = np.zeros_like(ranks)
        np.add.at(sums, destinations[order], shares[sources[order]])  # one addition after another
        dangling = ranks[degrees == 0].sum(0)
        new = (1 - alpha + alpha * dangling) * teleport + alpha * sums
        moved.append(float(np.abs(new - ranks).sum(0).max()))
        ranks = new
    assert min(moved[-10:]) > 1e-8
    assert max(moved[-10:]) < PageRank().tolerance / 10

"""The allowed errors of quotients of sums: the errors of two sums of a vertex do not cancel."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, trace
from harness.language.converged import answer_at_limit, fixed_point
from harness.language.rounding import RANDOM, UNIT, Pattern, RoundedRun, patterns

LEAVES = 1001


class Means(Algorithm):
    """Means of weighted values, twice over: ``sums`` sums over edges for each vertex."""

    name: ClassVar[str] = "means"

    sums: int = 2

    def build(self, p):
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.edge("share", K)

        @p.over_edges(into="values", reduce="sum")
        def spread(src, edge):
            return edge.share * src.x

        @p.over_edges(into="shares", reduce="sum")
        def weigh(edge):
            return edge.share

        if self.sums > 2:

            @p.over_edges(into="more", reduce="sum")
            def add(src):
                return src.x

        @p.over_vertices
        def mean(v):
            found = v.values / (v.shares + 1.0)
            return {"x": found + 0.0 * v.more if self.sums > 2 else found}

        p.repeat(1)
        p.output("x", bound=1e-3)

    def inputs(self, graph, features):
        draws = np.random.default_rng(3)
        return Inputs(
            {
                "given": draws.random((graph.num_vertices, features), np.float32),
                "share": draws.random((graph.num_edges, features), np.float32) + np.float32(0.5),
            }
        )


def star():
    """Return leaves with edges to vertex 0."""
    leaves = np.arange(1, LEAVES + 1)
    return Graph.from_edges(leaves, np.zeros(LEAVES, np.int64), num_vertices=LEAVES + 1, name="star")


@pytest.mark.parametrize("features", [1, 2, 3])
def test_a_quotient_may_be_off_by_the_errors_of_both_sums(features):
    algorithm, graph = Means(), star()
    program = trace(algorithm)
    posed = program, graph, features, algorithm.inputs(graph, features), 1
    answer = fixed_point(*posed) or answer_at_limit(*posed)
    value, allowed = answer.values["x"][0], answer.allowances["x"].entries[0]
    assert (allowed >= 0.9 * 2 * (LEAVES - 1) * UNIT * value).all(), "each of the two sums may be off by (n - 1) u"
    assert (allowed <= 1.2 * 2 * (LEAVES - 1) * UNIT * value).all()


@pytest.mark.parametrize("apart", [False, True])
def test_sums_of_a_vertex_have_their_own_signs(apart):
    algorithm, graph = Means(), star()
    found = []
    for pattern in (RANDOM, Pattern(cause=0)):
        run = RoundedRun(trace(algorithm), graph, 1, apart=apart, pattern=pattern)
        run.reset(algorithm.inputs(graph, 1))
        run.superstep()
        found.append(run.values("x")[0, 0])
    assert abs(found[0] - found[1]) >= 0.9 * (LEAVES - 1) * UNIT * found[0]


@pytest.mark.parametrize(("sums", "expected"), [(2, [None, 0]), (3, [None, 0, 1])])
def test_any_two_sums_have_opposite_signs_in_one_of_the_runs(sums, expected):
    algorithm = Means(sums=sums)
    assert [pattern.cause for pattern in patterns(trace(algorithm), 1)] == expected

"""Products that start from a factor of the vertex itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Graph
from harness.language import K, LanguageError
from harness.language.analysis import watched
from harness.language.program import describe
from tests.language.programs import edges, graphs, program_of, run

factors = st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0])


def multiplied(shape=(), initial="first", reducer="prod"):
    def build(p, self):
        p.vertex("first", shape)
        p.edge("x", shape)
        p.edge("rest", shape, start=0.0)
        p.vertex("y", shape, start="first")
        p.over_edges(into="whole", reduce=reducer, initial=initial)(lambda edge: edge.x)
        p.over_edges(updates="rest")(lambda dst, edge: dst.whole.without(edge.x))
        p.over_vertices(lambda v: {"y": v.whole})
        p.repeat(1)
        p.output("y", bound=1e-6)

    return build


@given(graphs(), st.data())
@settings(max_examples=50)
def test_the_factor_counts_and_stays_when_another_is_taken_out(graph, data):
    def draw(count):
        return np.array(data.draw(st.lists(factors, min_size=count, max_size=count)), np.float32)

    first, x = draw(graph.num_vertices), draw(graph.num_edges)
    done = run(program_of(multiplied()), graph, first=first, x=x)
    into = {v: [e for _, w, e in edges(graph) if w == v] for v in range(graph.num_vertices)}
    expected = [first[v] * math.prod(x[e] for e in into[v]) for v in into]
    np.testing.assert_allclose(done.values("y"), expected, rtol=1e-6)
    for v, entering in into.items():
        for e in entering:
            others = first[v] * math.prod(x[o] for o in entering if o != e)
            np.testing.assert_allclose(done.values("rest")[e], others, rtol=1e-6)


def test_it_is_multiplied_before_the_scaling_and_may_exclude_the_likeliest_state():
    leaves = np.arange(1, 2001)
    star = Graph.from_edges(leaves, np.zeros_like(leaves), name="star")
    x = np.tile(np.array([1.0, 0.1, 0.01], np.float32), (2000, 1))
    first = np.ones((2001, 3), np.float32)
    first[0] = [0, 1e-30, 1]  # the most likely state is impossible; the next one is ahead with 10^-30 against 10^-2000
    done = run(program_of(multiplied(K)), star, 3, first=first, x=x)
    np.testing.assert_allclose(done.values("y")[0], [0, 1, 0])
    np.testing.assert_allclose(done.values("y")[1], first[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"initial": "frist"}, r"initial='frist' must name a vertex float of shape \(\)"),
        ({"initial": "x"}, r"initial='x' must name a vertex float"),
        ({"reducer": "sum"}, r"initial='first' is a factor of a prod; with reduce='sum' add it in the vertex step"),
    ],
)
def test_invalid_factors_are_refused(options, words):
    with pytest.raises(LanguageError, match=words):
        program_of(multiplied(**options))


def test_it_is_part_of_the_program():
    plain, first = program_of(multiplied(initial=None)), program_of(multiplied())
    assert plain.fingerprint != first.fingerprint
    assert "whole(v) = dst.first times the prod over in-edges of edge.x" in describe(first)


def test_a_factor_that_changes_is_watched():
    def build(p, self):
        p.vertex("one")
        p.vertex("y", start="one")
        p.over_edges(into="whole", reduce="prod", initial="y")(lambda src: src.one)
        p.over_vertices(lambda v: {"y": v.whole})
        p.until_settled(self.tolerance, at_most=3)
        p.output("y", bound=1e-6)

    assert watched(program_of(build)) == (("vertex", "y"),)

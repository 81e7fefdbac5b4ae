"""Sums over the graph skip the vertices that a condition excludes."""

from __future__ import annotations

import pytest

from harness.language import K, where
from harness.lowering.summands import summand
from tests.engines.programs import traced


def parts(value, reduce="sum"):
    """Return the condition and the value of a reduction over the graph, as text."""

    def build(p, self):
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.over_graph(into="all", reduce=reduce)(value)
        p.over_vertices(lambda v, graph: {"x": v.x + graph.all})
        p.repeat(1)
        p.output("x", bound=1e-5)

    condition, taken = summand(traced(build, "sums").stages[0])
    return (None if condition is None else str(condition)), str(taken)


def test_a_condition_of_the_whole_vertex_excludes_what_adds_zero():
    assert parts(lambda v: where(v.out_degree > 2, v.x, 0.0)) == ("(v.out_degree > 2)", "v.x")
    assert parts(lambda v: where(v.out_degree > 2, 0.0, v.x)) == ("~(v.out_degree > 2)", "v.x")


@pytest.mark.parametrize(
    ("value", "reduce"),
    [
        (lambda v: v.x, "sum"),
        (lambda v: where(v.out_degree > 2, v.x, 1.0), "sum"),
        (lambda v: where(v.x > 2, v.x, 0.0), "sum"),  # each feature has a condition of its own
        (lambda v: where(v.out_degree > 2, v.x, 0.0), "max"),
        (lambda v: where(v.out_degree > 2, 1.0, 0.0) * v.x, "sum"),  # 0 times infinity is not 0
    ],
)
def test_other_values_take_part_everywhere(value, reduce):
    assert parts(value, reduce)[0] is None

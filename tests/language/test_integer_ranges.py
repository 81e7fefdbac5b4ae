"""Which properties hold only small integers, and which sums of these, and of their changes, are exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.language import Inputs, K, absolute, exp, full, maximum, minimum, total, trace, where
from harness.language import integer_ranges as numbers
from harness.language.analysis import change_driven
from harness.language.expressions import constant, parameter, read
from harness.language.integer_ranges import MOST, adds_exactly, integer_range, integer_ranges
from harness.language.reference import ReferenceRun
from tests.language.programs import program_of

RANGES = {"x": (0, 1), "y": (-3, 5), "many": (0, MOST // 2), "vector": (2, 2)}
x, y, many, other = (read("v", name, (), "float") for name in ("x", "y", "many", "other"))
flag, vector = read("src", "flag", (), "bool"), read("edge", "vector", (K,), "float")
WHOLE = [
    (x, (0, 1)), (constant(-7.0), (-7, -7)), (-y, (-5, 3)), (x + y, (-3, 6)), (x - y, (-5, 4)), (y * y, (-15, 25)),
    (y * -2.0, (-10, 6)), (minimum(x, y), (-3, 1)), (maximum(x, y), (0, 5)), (where(other > 0.5, x, y), (-3, 5)),
    (where(exp(other) > y, 3.0, 0.0), (0, 3)), (flag * 1.0, (0, 1)), ((other < 0.5) * 3.0, (0, 3)),
    (full(K, x) + vector, (2, 3)), (where(parameter("on", "bool"), x, -x), (-1, 1)), (many, (0, MOST // 2)),
    (many + many, (0, MOST)), (constant(float(MOST)), (MOST, MOST)),
]  # fmt: skip
NOT_WHOLE = [
    other, x + other, x * 0.5, y / 2.0, x / 1.0, constant(0.5), constant(float("inf")), constant(float("nan")), exp(x),
    parameter("rate", "float"), where(flag, x, 0.5), where(flag, other, x), x**2.0, total(vector), absolute(y),
    constant(2.0 * MOST), many * 3.0, many + many + 1.0, many * 2.0 - 1.0 - many * 2.0, where(flag, many, -1.0 - many),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_ranges_of_whole_numbers(number):
    expression, wanted = WHOLE[number]
    assert integer_range(expression, RANGES) == wanted


@pytest.mark.parametrize("number", range(len(NOT_WHOLE)))
def test_fractional_or_too_large_values_have_no_range(number):
    assert integer_range(NOT_WHOLE[number], RANGES) is None


def stepping(step, *, message=lambda src: src.x, start=1.0, before=None, alternate=False, **settling):
    """Return a program with a sum of messages, by default of the state ``x``, a vertex step and further properties."""

    def build(p, self):
        p.vertex("given")
        p.vertex("lit", dtype=bool)
        p.vertex("x", start=start)
        p.vertex("y", start=0.0)
        p.edge("m", start=2.0)
        if before is not None:
            before(p)
        p.over_edges(into="heard", reduce="sum")(message)
        p.over_vertices(step)
        if alternate:
            p.alternate_sides()
        p.until_settled(at_most=8, **settling)
        p.output("x", bound=0.0)

    return program_of(build)


def peel(v):
    return {"x": where(v.heard >= 3.0, v.x, 0.0)}


def total_of_graph(p):
    p.over_graph(into="all", reduce="sum")(lambda v: v.x)


def shared(p):
    p.over_vertices(lambda v: {"t": where(v.x > 0.5, 2.0, 0.0)})


def halved_edges(p):
    p.over_edges(updates="m")(lambda src, edge: edge.m * 0.5)


def edges_of_sources(p):
    p.over_edges(updates="m")(lambda src, dst, edge: where(edge.reverse.m > src.x, src.x - dst.x, edge.m))


CLOSED = {
    "peeling": (stepping(peel), {"x": (0, 1)}),
    "flips": (stepping(lambda v: {"x": -v.x}), {"x": (-1, 1)}),
    "two in turn": (stepping(lambda v: {"x": v.y, "y": v.x}), {"x": (0, 1), "y": (0, 1)}),
    "bounded growth": (stepping(lambda v: {"x": minimum(v.x + 1.0, 4.0)}), {"x": (1, 4)}),
    "a condition of floats": (stepping(lambda v: {"x": where(v.given > 0.5, 1.0, v.x)}), {"x": (1, 1)}),
    "a condition that is counted": (stepping(lambda v: {"x": v.lit * 1.0}), {"x": (0, 1)}),
    "a graph's value in a condition": (
        stepping(lambda v, graph: {"x": where(graph.all > 3.0, 0.0, v.x)}, before=total_of_graph), {"x": (0, 1)}
    ),
    "a temporary": (stepping(peel, before=shared, message=lambda src: src.t), {"x": (0, 1), "t": (0, 2)}),
    "edges": (stepping(peel, before=edges_of_sources, message=lambda src, edge: edge.m), {"x": (0, 1), "m": (-1, 2)}),
    "a product of zero and one": (stepping(lambda v: {"x": v.x * v.x}), {"x": (1, 1)}),
    "sides": (stepping(peel, alternate=True), {"x": (0, 1)}),
}  # fmt: skip
REFUSED = {
    "counter": stepping(lambda v: {"x": v.x + 1.0}),
    "counter down": stepping(lambda v: {"x": where(v.heard > 1.0, v.x - 1.0, v.x)}),
    "doubling": stepping(lambda v: {"x": 2.0 * v.x}),
    "growing by turns": stepping(lambda v: {"x": v.y + 1.0, "y": v.x}),
    "growing with its sign": stepping(lambda v: {"x": -2.0 * v.x}),
    "a bound that grows": stepping(lambda v: {"x": minimum(v.x + 1.0, v.y), "y": maximum(v.y + 2.0, v.x)}),
    "a literal": stepping(lambda v: {"x": where(v.heard > 3.0, v.x, 0.3)}),
    "a start": stepping(peel, start=0.5),
    "an input": stepping(lambda v: {"x": where(v.heard > 3.0, v.x, v.given)}),
    "a start that is given": stepping(peel, start="given"),
    "a sum": stepping(lambda v: {"x": v.heard}),
    "a degree": stepping(lambda v: {"x": v.in_degree}),
    "a graph's value": stepping(lambda v, graph: {"x": graph.all}, before=total_of_graph),
    "a parameter": stepping(lambda v: {"x": where(v.heard > 3.0, v.x, v.x * 1.0)}, start=1e9),
    "a share": stepping(lambda v: {"x": v.x / 1.0}),
}


@pytest.mark.parametrize("name", CLOSED)
def test_properties_with_only_integers(name):
    program, wanted = CLOSED[name]
    found = integer_ranges(program)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("name", CLOSED)
def test_no_run_leaves_a_range(name):
    program, wanted = CLOSED[name]
    rng = np.random.default_rng(3)
    left, right = rng.integers(0, 5, 40), rng.integers(5, 9, 40)
    graph = Graph.from_edges(
        left, right, num_vertices=9, name="sides", duplicates="min", symmetrize=True, bipartite=(5, 4)
    )
    run = ReferenceRun(program, graph, 1)
    run.reset(Inputs({"given": rng.random(9).astype(np.float32), "lit": rng.random(9) < 0.5}))
    for _ in range(8):
        run.run(1)
        for key, (least, largest) in wanted.items():
            values = run.values(key)
            assert ((values >= least) & (values <= largest) & (values == np.floor(values))).all()


@pytest.mark.parametrize("name", REFUSED)
def test_growing_or_fractional_values_are_refused(name):
    assert "x" not in integer_ranges(REFUSED[name])


def test_expressions_of_refused_values_are_refused():
    assert integer_ranges(stepping(peel, before=halved_edges)) == {"x": (0, 1), "y": (0, 0)}
    chained = stepping(lambda v: {"x": minimum(v.y, 1.0), "y": v.y + v.x})
    assert integer_ranges(chained) == {"m": (2, 2)}


def test_a_temporary_that_is_read_before_it_is_written_is_refused():
    program = stepping(lambda v: {"x": v.x, "t": v.t * 1.0}, before=shared)
    assert integer_ranges(program)["t"] == (0, 2)
    assert "t" not in integer_ranges(dataclasses.replace(program, stages=program.stages[1:]))
    assert "t" not in integer_ranges(dataclasses.replace(program, stages=program.stages[::-1]))


def form_of(program):
    (form,) = change_driven(program)
    return form


def test_sums_are_exact_up_to_the_largest_number_of_edges():
    program = trace(KCore())
    form, ranges = form_of(program), integer_ranges(program)
    assert ranges == {"alive": (0, 1)}
    assert adds_exactly(form, ranges, MOST)
    assert not adds_exactly(form, ranges, MOST + 1)
    assert not adds_exactly(form, {}, 1)


@pytest.mark.parametrize(
    ("message", "step", "most"),
    [
        (lambda src: 3.0 * src.x, peel, MOST // 3),
        (lambda src: -src.x, peel, MOST),
        (lambda src: src.x, lambda v: {"x": -v.x}, MOST // 2),  # from -1 to 1 a message changes by 2
        (lambda src: where(src.x > 0.5, 4.0, 3.0), peel, MOST // 4),
        (lambda src: where(src.x > 0.5, 0.5, 0.0), peel, 0),
        (lambda src, edge: src.x * edge.m, peel, MOST // 2),
        (lambda src: src.x / 2.0, peel, 0),
        (lambda src: src.x * src.given, peel, 0),
    ],
)  # fmt: skip
def test_how_many_edges_are_added_exactly(message, step, most):
    program = stepping(step, message=message)
    form, ranges = form_of(program), integer_ranges(program)
    assert adds_exactly(form, ranges, most) == (most > 0)
    assert not adds_exactly(form, ranges, most + 1)


@pytest.mark.parametrize(("kind", "exact"), [("linear", 1), ("difference", 1), ("factor", 0), ("monotone", 0)])
def test_only_changes_that_are_added_are_added_exactly(kind, exact):
    program = trace(KCore())
    form = dataclasses.replace(form_of(program), kind=kind)
    assert adds_exactly(form, integer_ranges(program), MOST) == exact


def test_ranks_are_not_integers():
    program = trace(PageRank())
    assert not adds_exactly(form_of(program), integer_ranges(program), 1)


def test_the_largest_number_is_looked_up_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(numbers, "MOST", 100)
    program = trace(KCore())
    assert adds_exactly(form_of(program), integer_ranges(program), 100)
    assert not adds_exactly(form_of(program), integer_ranges(program), 101)

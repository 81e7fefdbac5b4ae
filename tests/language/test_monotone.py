"""In which direction values move, what messages do, and why nothing is known."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.algorithms.bfs import BFS
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.language import K, exp, maximum, minimum, total, trace, where
from harness.language.message_bounds import message_bound
from harness.language.monotone import OneWay, one_way, reaching, strictly_increasing
from harness.language.priority_order import INTERVALS, priority_order
from tests.language.programs import program_of

inf = math.inf


def tightened(message, reduce="min", *, bound=None, more=None, rest=None, end=None):
    """Return a program that bounds ``x`` by messages."""
    bound = bound or (minimum if reduce == "min" else maximum)

    def build(p, self):
        p.edge("weight")
        p.vertex("toll", K)
        p.vertex("start", K)
        p.vertex("x", K, start="start")
        p.vertex("y", K, start=0.0) if more else None
        p.over_edges(into="found", reduce=reduce)(message)
        p.over_vertices(lambda v: {"x": bound(v.x, v.found)})
        if rest is not None:
            rest(p)
        end(p) if end else p.until_settled(at_most=99)
        p.output("x", bound=1e-6)

    return program_of(build)


MESSAGES = {
    "x": (lambda src, edge: src.x, True),
    "x + 1": (lambda src, edge: src.x + 1.0, True),
    "weight + x": (lambda src, edge: edge.weight + src.x, True),
    "x - weight": (lambda src, edge: src.x - edge.weight, True),
    "weight - x": (lambda src, edge: edge.weight - src.x, False),
    "x - x": (lambda src, edge: src.x - 0.5 * src.x, False),
    "2 x": (lambda src, edge: 2.0 * src.x, True),
    "x 2": (lambda src, edge: src.x * 2.0, True),
    "0 x": (lambda src, edge: 0.0 * src.x, False),
    "-2 x": (lambda src, edge: -2.0 * src.x, False),
    "weight x": (lambda src, edge: edge.weight * src.x, False),
    "x + x": (lambda src, edge: src.x + src.x, True),
    "x + (weight - x)": (lambda src, edge: src.x + (edge.weight - src.x), False),
    "x + toll": (lambda src, edge: src.x + src.toll, True),
    "toll": (lambda src, edge: src.toll + edge.weight, False),
    "min(x, weight)": (lambda src, edge: minimum(src.x, edge.weight), False),
    "exp x": (lambda src, edge: exp(src.x), False),
    "total x": (lambda src, edge: src.x + total(src.x), False),
    "x + 3 (x - weight)": (lambda src, edge: src.x + 3.0 * (src.x - edge.weight), True),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_that_increase_strictly_feature_by_feature(name):
    message, increases = MESSAGES[name]
    [reduction] = [stage for stage in tightened(message).stages if hasattr(stage, "message")]
    assert strictly_increasing(reduction.message, "x") is increases


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (tightened(MESSAGES["weight + x"][0]), ("x", math.inf)),
        (tightened(MESSAGES["weight + x"][0], "max"), ("x", -math.inf)),
        (tightened(MESSAGES["min(x, weight)"][0]), ("", math.inf)),
        (trace(BFS()), ("level", math.inf)),
        (trace(KCore()), ("", math.inf)),
        (trace(PageRank()), ("", math.inf)),
    ],
    ids=["least paths", "greatest paths", "bottlenecks", "levels", "cores", "ranks"],
)
def test_vertices_that_paths_have_not_reached_send_nothing(program, found):
    assert reaching(program) == (
        found[0] and next(p.name for p in program.properties.values() if p.role == "state"),
        found[1],
    )


@pytest.mark.parametrize(
    ("program", "kind", "sign"),
    [
        (tightened(MESSAGES["weight + x"][0]), "tightens", 1),
        (tightened(MESSAGES["weight + x"][0], "max"), "tightens", -1),
        (trace(KCore()), "peels", 1),
    ],
    ids=["min", "max", "cores"],
)
def test_the_direction_of_programs(program, kind, sign):
    way = one_way(program)
    assert isinstance(way, OneWay)
    [state] = [prop.name for prop in program.properties.values() if prop.role == "state"]
    [reduction] = [stage for stage in program.stages if hasattr(stage, "message")]
    assert (way.kind, way.state, way.sign, way.reduction, way.least) == (kind, state, sign, reduction, 0.0)


def two_reductions(p):
    p.over_edges(into="again", reduce="min")(lambda src: src.x)


def over_the_graph(p):
    p.over_graph(into="all", reduce="sum")(lambda v: total(v.x))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            tightened(lambda src: src.x, rest=two_reductions),
            "test is not one reduction over edges that moves one property",
        ),
        (
            tightened(lambda src: src.x, rest=over_the_graph),
            "test is not one reduction over edges that moves one property",
        ),
        (tightened(lambda src: src.x, more=True), "test is not one reduction over edges that moves one property"),
        (tightened(lambda src: src.toll), "does not read 'x' from its sources"),
        (
            tightened(lambda src: src.x, "sum", bound=lambda x, found: x + found),
            "test does not keep 'x' where a sum is",
        ),
    ],
    ids=["two reductions", "graph", "two states", "no state", "a sum"],
)
def test_reasons_why_no_direction_is_known(program, reason):
    assert reason in one_way(program)


@pytest.mark.parametrize(
    ("condition", "kept", "least", "message", "peels"),
    [
        (lambda v: v.count >= 2.0, lambda v: v.alive, 0.0, lambda src: src.alive, True),
        (lambda v: v.count > v.need, lambda v: v.alive, -1.0, lambda src: src.alive, True),
        (lambda v: v.count >= v.alive, lambda v: v.alive, 0.0, lambda src: src.alive, False),
        (lambda v: v.count >= 2.0, lambda v: v.need, 0.0, lambda src: src.alive, False),
        (lambda v: v.count >= 2.0, lambda v: 0.5 * v.alive, 0.0, lambda src: src.alive, False),
        (lambda v: 0.5 * v.count >= 2.0, lambda v: v.alive, 0.0, lambda src: src.alive, False),
        (lambda v: v.count >= 2.0, lambda v: v.alive, 0.0, lambda src: 1.0 - src.alive, False),
        (lambda v: v.count < 2.0, lambda v: v.alive, 0.0, lambda src: src.alive, False),
        (lambda v: v.need <= v.count, lambda v: v.alive, 0.0, lambda src: src.alive, False),
    ],
)
def test_vertices_are_peeled_by_a_sum_that_falls(condition, kept, least, message, peels):
    def build(p, self):
        p.vertex("need")
        p.vertex("alive", start=1.0)
        p.over_edges(into="count", reduce="sum")(message)
        p.over_vertices(lambda v: {"alive": where(condition(v), kept(v), least)})
        p.until_settled(at_most=10)
        p.output("alive", bound=0.0)

    way = one_way(program_of(build))
    if peels:
        assert (way.kind, way.state, way.least) == ("peels", "alive", least)
    else:
        assert way == "test does not keep 'alive' where a sum is large enough and set it to a constant elsewhere"


def test_bounds_need_messages_of_which_one_counts():
    found = message_bound(trace(KCore()))
    assert "reduces by sum, of which every message counts" in found
    assert message_bound(trace(PageRank())) == one_way(trace(PageRank()))
    alternating = tightened(lambda src: src.x, end=lambda p: (p.alternate_sides(), p.until_settled(at_most=9)))
    assert "is not one reduction over edges" in message_bound(alternating)


FINITE = st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted)
EXACT = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max}


@pytest.mark.parametrize("name", EXACT)
@given(FINITE, FINITE)
@settings(max_examples=40)
def test_an_interval_is_that_of_all_results_of_whole_numbers(name, a, b):
    results = [EXACT[name](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
    assert INTERVALS[name](tuple(a), tuple(b)) == (min(results), max(results))


@pytest.mark.parametrize(
    ("name", "a", "b", "found"),
    [
        ("add", (0, inf), (1, 2), (1, inf)), ("add", (-inf, 0), (0, inf), (-inf, inf)),
        ("add", (inf, inf), (-inf, 3), (-inf, inf)), ("sub", (0, inf), (0, inf), (-inf, inf)),
        ("sub", (1, 2), (-inf, 0), (1, inf)), ("sub", (inf, inf), (0, inf), (-inf, inf)),
        ("mul", (1, inf), (2, 3), (2, inf)), ("mul", (-inf, -1), (2, 3), (-inf, -2)),
        ("mul", (0, 1), (1, inf), (-inf, inf)), ("mul", (0, 0), (-inf, inf), (-inf, inf)),
        ("mul", (-1, 2), (-3, 4), (-6, 8)), ("min", (-inf, 3), (1, inf), (-inf, 3)), ("max", (-inf, 3), (1, 2), (1, 3)),
    ],
)  # fmt: skip
def test_intervals_with_infinities_hold_every_result_or_nothing_is_known(name, a, b, found):
    assert INTERVALS[name](a, b) == found


ORDER = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 3.0])


@given(st.sampled_from(["min", "max"]), st.integers(0, 5), ORDER, ORDER, ORDER)
@settings(max_examples=50)
def test_an_order_is_refused_only_if_a_message_may_be_better_than_its_source(reducer, form, low, high, rate):
    low, high = min(low, high), max(low, high)

    def message(x, w, rate, largest, smallest):
        return [x + w, x + w + rate, largest(x + w, x), smallest(x, w), x + rate * w, x + largest(w, rate)][form]

    def build(p, self):
        p.edge("w")
        p.vertex("own")
        p.vertex("x", start="own")
        p.over_edges(into="best", reduce=reducer)(lambda src, edge: message(src.x, edge.w, self.rate, maximum, minimum))
        p.over_vertices(lambda v: {"x": (minimum if reducer == "min" else maximum)(v.x, v.best)})
        p.until_settled(at_most=100)
        p.output("x", bound=0.0)

    order = priority_order(program_of(build))
    if isinstance(order, str):
        return
    sign = 1 if reducer == "min" else -1
    assert order.sign == sign
    given_ = {name: {"w": (low, high), "rate": (rate, rate)}[name] for name in (*order.inputs, *order.parameters)}
    values = itertools.product((-5.0, 0.0, 7.0), (low, (low + high) / 2, high))
    better = any(sign * message(x, w, rate, max, min) < sign * x for x, w in values)
    refused = order.refusal(given_)
    assert refused or not better
    assert bool(refused) == better or form not in (0, 2)  # other forms are proved term by term

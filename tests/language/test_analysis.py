"""Results of the analysis: linearity, monotonicity, forms and their reasons, watched values, fold groups."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import (
    K,
    dot,
    exp,
    eye,
    full,
    largest,
    log,
    maximum,
    mean,
    minimum,
    normalize,
    outer,
    smallest,
    solve_spd,
    sqrt,
    stack,
    total,
    where,
)
from harness.language.analysis import (
    change_driven,
    compose,
    fold_groups,
    increasing,
    linear,
    unfolded,
    watched,
)
from harness.language.evaluation import Evaluator
from harness.language.expressions import parameter, read
from tests.language.programs import program_of

x, d, w = read("src", "x", (K,), "float"), read("src", "d", (), "float"), read("edge", "w", (), "float")
c, flag, dst_x = read("src", "c", (K,), "float"), read("src", "flag", (), "bool"), read("dst", "x", (K,), "float")
rate = parameter("rate", "float")
NAMES = frozenset({"x", "d", "flag"})

LINEAR = [
    x, w * x, x * w, x / w, -x, x + c * d, x - 2 * x, rate * x, x @ eye(K), eye(K) @ x, dot(c, x) * c, outer(c, x) @ c,
    total(x) * c, full(K, d), stack(d, 2 * d) @ stack(c, c), outer(x, c).T @ c, where(w > 0, x, 0.0), stack(d, 0.0)[1],
    mean(x) * c, where(rate > 1, 2 * x, x),
]  # fmt: skip
NOT_LINEAR = [
    x * x, x + 1, w / x, abs(x), exp(x), normalize(x), where(flag, x, 0.0), where(d > 0, x, x), maximum(x, 0.0), x**1,
    x + c, dot(x, x) * c, outer(x, x) @ c, largest(x) * c, where(w > 0, x, 1.0), solve_spd(eye(K), x), c, w * c,
    x.without(c), flag * c,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LINEAR)))
def test_linear_forms_are_found(number):
    assert linear(LINEAR[number], NAMES)


@pytest.mark.parametrize("number", range(len(NOT_LINEAR)))
def test_messages_that_are_not_linear_by_form_are_not_called_linear(number):
    assert not linear(NOT_LINEAR[number], NAMES)


INCREASING = [
    d, d + w, w + d, d - w, 2 * d, d * 0.5, d / 3, minimum(d, w), maximum(d, 3), where(w > 0, d, 1.0), exp(d),
    total(x), largest(x), smallest(x), x + full(K, d), d + d, w, 1.0 / w, -w, stack(d, w)[0],
    0 * d, d * 0.0, stack(x, c).T, where(w > 0, 1.0, d), d - w - w,
]  # fmt: skip
NOT_INCREASING = [
    -d, w - d, d * w, -2 * d, d / -3, 1 / d, abs(d), d * d, d**2, where(d > 0, d, 0.0), where(flag, d, 0.0), rate * d,
    d / 0.0, d / -0.0, d / w, w / d, where(w > 0, d, -d), where(w > 0, -d, d), maximum(-d, w), stack(d, -d)[1],
    smallest(-x), total(-x), exp(-d), full(K, -d), d + -d,
    normalize(x), dot(x, c), log(-d), sqrt(w - d), minimum(d, -d),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(INCREASING)))
def test_increasing_forms_are_found_and_do_increase(number):
    expression = INCREASING[number]
    assert increasing(expression, NAMES)
    rng = np.random.default_rng(number)
    low = {"x": rng.normal(size=(50, 3)), "d": rng.normal(size=50), "c": np.ones((50, 3)), "w": rng.normal(size=50)}
    high = low | {"x": low["x"] + rng.random((50, 3)), "d": low["d"] + rng.random(50)}
    before, after = (Evaluator(lambda space, name, v=v: v[name], {}, 3)(expression) for v in (low, high))
    assert (after >= before).all()


@pytest.mark.parametrize("number", range(len(NOT_INCREASING)))
def test_values_that_may_decrease_are_not_called_increasing(number):
    assert not increasing(NOT_INCREASING[number], NAMES)


def reduction(reducer, message, step, *extra):
    """Return a program of one reduction over one state ``d``, one input ``cap`` and one edge input ``w``."""

    def build(p, self):
        p.edge("w")
        p.vertex("cap")
        p.vertex("d", start="cap")
        p.vertex("other", start=0.0)
        for stage in extra:
            stage(p)
        p.over_edges(into="best", reduce=reducer)(message)
        p.over_vertices(step)
        p.output("d", bound=1.0)

    return program_of(build)


def graph_total(p):
    p.over_graph(into="mass", reduce="sum")(lambda v: v.d)


def edge_state(p):
    p.edge("m", start=1.0)
    p.over_edges(updates="m")(lambda src: src.d)


def another_writer(p):
    p.over_vertices(lambda v: {"d": v.d + 1})


def tighten(v):
    return {"d": minimum(v.d, v.best)}


REASONS = [
    (reduction("sum", lambda dst: dst.d, tighten), "reads its destination's changing property 'd'"),
    (reduction("sum", lambda src, graph: src.d * graph.mass, tighten, graph_total), "reads the graph's changing"),
    (reduction("min", lambda edge: edge.m, tighten, edge_state), "is a min of an edge's changing property 'm'"),
    (reduction("prod", lambda dst: dst.d, tighten), "reads its destination's changing property 'd'"),
    (reduction("min", lambda src, edge: src.d * edge.w, tighten), "is not monotone in its source"),
    (reduction("min", lambda src: src.d, lambda v: {"d": v.best}), "does not set 'd' to min(old, aggregate"),
    (reduction("min", lambda src: src.d, lambda v: {"d": maximum(v.d, v.best)}), "does not set 'd' to min("),
    (reduction("max", lambda src: src.d, tighten), "does not set 'd' to max("),
    (reduction("min", lambda src: src.d, lambda v: {"d": minimum(v.cap, v.best)}), "does not set 'd' to min("),
    (reduction("min", lambda src: src.d, tighten, another_writer), "does not set 'd' to min("),
]


@pytest.mark.parametrize(("program", "words"), REASONS, ids=[words[:40] for _, words in REASONS])
def test_a_missing_change_driven_form_has_a_reason(program, words):
    met = change_driven(program)
    assert isinstance(met, str)
    assert words in met


def test_a_minimum_written_over_its_own_source_keeps_no_old_value_and_is_refused():
    """On a -> b -> a with labels 0 and 1 it swaps the labels forever; pushed minima would settle at 0, 0."""

    def build(p, self):
        p.vertex("d", start=1.0)
        p.over_edges(into="d", reduce="min")(lambda src: src.d)
        p.output("d", bound=1.0)

    assert "overwrites 'd' in each superstep" in change_driven(program_of(build))


def test_reading_constants_of_the_destination_and_builtins_is_allowed():
    (delta,) = change_driven(
        reduction("sum", lambda src, dst, graph: dst.cap * src.d / (dst.degree * graph.num_vertices), tighten)
    )
    assert (delta.kind, delta.sources) == ("linear", ("d",))
    assert repr(delta.message) == "((dst.cap * (src.d - sent.d)) / (dst.degree * graph.num_vertices))"


def test_forms_of_changing_edges_read_the_values_sent():
    (delta,) = change_driven(reduction("sum", lambda src, edge: src.d * edge.m, tighten, edge_state))
    assert (delta.kind, delta.sources, delta.edges) == ("difference", ("d",), (("edge", "m"),))
    assert repr(delta.message) == "((src.d * edge.m) - (sent.d * sent_edge.m))"
    (delta,) = change_driven(reduction("sum", lambda edge: 2 * edge.reverse.m + edge.m, tighten, edge_state))
    assert (delta.kind, delta.sources) == ("linear", ())
    assert set(delta.edges) == {("edge", "m"), ("reverse", "m")}
    (delta,) = change_driven(reduction("prod", lambda edge: edge.m, tighten, edge_state))
    assert (delta.kind, repr(delta.message)) == ("factor", "edge.m")


def test_a_program_without_reductions_has_no_change_driven_form():
    def build(p, self):
        p.vertex("d", start=1.0)
        p.over_vertices(lambda v: {"d": v.d / 2})
        p.output("d", bound=1.0)

    assert change_driven(program_of(build)) == "the program has no reduction over edges"


def everything(p, self):
    p.edge("w")
    p.edge("m", K, start=1.0)
    p.vertex("seed", K)
    p.vertex("x", K, start="seed")
    p.vertex("hidden", start=0.0)

    @p.over_graph(into="mass", reduce="sum")
    def weigh(v):
        return v.hidden

    @p.over_edges(updates="m")
    def message(src, edge):
        return src.x * edge.reverse.m

    @p.over_edges(into="a", reduce="sum")
    def first(edge):
        return edge.m

    @p.over_edges(into="b", reduce="max")
    def second(src):
        return src.seed

    @p.over_edges(into="e", reduce="sum")
    def third(src):
        return src.a

    @p.over_vertices
    def mix(v, graph):
        return {"y": v.a + v.e * graph.mass}

    @p.over_vertices
    def keep(v):
        return {"x": v.y + v.b, "hidden": total(v.x)}

    @p.over_edges(into="last", reduce="sum")
    def fourth(src):
        return src.x

    @p.over_vertices
    def end(v):
        return {"x": v.last}

    p.output("x", bound=1.0)


def names(groups):
    return [(group.kind, [stage.name for stage in group.stages]) for group in groups]


def test_a_run_watches_changing_properties_that_edges_and_graph_reductions_read():
    found = set(watched(program_of(everything)))
    assert found == {("vertex", "hidden"), ("vertex", "x"), ("vertex", "a"), ("edge", "m")}


def test_push_folds_edge_with_edge_and_vertex_with_vertex():
    assert names(fold_groups(program_of(everything), "push")) == [
        ("graph", ["weigh"]),
        ("update", ["message"]),
        ("edge", ["first", "second"]),
        ("edge", ["third"]),  # reads the result of the first reduction
        ("vertex", ["mix", "keep"]),
        ("edge", ["fourth"]),
        ("vertex", ["end"]),
    ]


def test_pull_folds_edges_with_the_vertex_steps_after_them():
    groups = fold_groups(program_of(everything), "pull")
    assert names(groups) == [
        ("graph", ["weigh"]),
        ("update", ["message"]),
        ("edge", ["first", "second"]),
        ("edge+vertex", ["third", "mix", "keep"]),
        ("edge+vertex", ["fourth", "end"]),
    ]
    assert [stage.name for stage in groups[3].edge_stages] == ["third"]
    assert [step.name for step in groups[3].vertex_steps] == ["mix", "keep"]


def test_folding_keeps_every_stage_in_its_order():
    program = program_of(everything)
    for groups in (fold_groups(program, "push"), fold_groups(program, "pull"), unfolded(program)):
        assert [stage for group in groups for stage in group.stages] == list(program.stages)


def test_composed_steps_equal_the_steps_in_sequence():
    def build(p, self):
        p.vertex("a", start=1.0)
        p.vertex("b", start=2.0)
        p.over_vertices(lambda v: {"a": v.b, "b": v.a})
        p.over_vertices(lambda v: {"t": v.a + 10 * v.b})
        p.over_vertices(when=lambda v: v.t > 0)(lambda v: {"a": v.t * v.a, "b": v.b - v.t})
        p.output("a", bound=1.0)

    steps = program_of(build).stages
    rng = np.random.default_rng(0)
    start = {"a": rng.normal(size=20), "b": rng.normal(size=20)}
    stepped = dict(start)
    for step in steps:
        evaluate = Evaluator(lambda space, name, v=dict(stepped): v[name], {}, 1)
        stepped |= {name: evaluate(value) for name, value in step.values}
    at_once = Evaluator(lambda space, name: start[name], {}, 1)
    for name, value in compose(steps):
        np.testing.assert_allclose(at_once(value), stepped[name])

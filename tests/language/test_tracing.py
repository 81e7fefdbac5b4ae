"""Refusals of tracing: every message shows the user's line, its value and the fix."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from harness.language import Algorithm, InvalidInput, K, LanguageError, ProgramBuilder, normalize, total, trace, where
from tests.language.programs import program_of

MARK = "  # the user's line"


def well_formed(p):
    p.edge("weight")
    p.vertex("seed", K)
    p.vertex("x", K, start="seed")
    p.vertex("flag", dtype=bool, start=False)
    p.edge("msg", K, start=1.0)


def if_on_value(p):
    @p.over_vertices
    def f(v):
        if total(v.x) > 0:  # the user's line
            return {"x": v.x}
        return {"x": v.seed}


def and_on_values(p):
    @p.over_vertices
    def f(v):
        return {"flag": (total(v.x) > 0) and v.flag}  # the user's line


def chained_comparison(p):
    @p.over_vertices
    def f(v):
        return {"flag": 0 < total(v.x) < 1}  # the user's line


def builtin_max(p):
    @p.over_vertices
    def f(v):
        return {"x": max(v.x, v.seed)}  # the user's line


def iterated(p):
    @p.over_vertices
    def f(v):
        return {"x": sum(v.x)}  # the user's line


def as_float(p):
    @p.over_vertices
    def f(v):
        return {"x": v.x * float(total(v.x))}  # the user's line


def unknown_property(p):
    @p.over_edges(into="sum", reduce="sum")
    def f(src, edge):
        return edge.wieght * src.x  # the user's line


def edge_property_of_vertex(p):
    @p.over_vertices
    def f(v):
        return {"x": v.x * v.weight}  # the user's line


def vertex_property_of_edge(p):
    @p.over_edges(into="sum", reduce="sum")
    def f(edge):
        return edge.x  # the user's line


def input_written(p):
    @p.over_vertices  # the user's line
    def f(v):
        return {"seed": v.x}


def built_in_written(p):
    @p.over_vertices  # the user's line
    def f(v):
        return {"degree": v.degree}


def wrong_shape_written(p):
    @p.over_vertices
    def f(v):
        return {"x": total(v.x)}  # the user's line


def wrong_dtype_written(p):
    @p.over_vertices
    def f(v):
        return {"flag": total(v.x)}  # the user's line


def argument_name(p):
    @p.over_edges(into="sum", reduce="sum")  # the user's line
    def f(source):
        return source.x


def assigned(p):
    @p.over_vertices
    def f(v):
        v.x = v.seed  # the user's line
        return {"x": v.x}


def augmented(p):
    @p.over_vertices
    def f(v):
        v.x += 1  # the user's line
        return {"x": v.x}


def shapes_met(p):
    @p.over_edges(into="sum", reduce="sum")
    def f(src):
        return src.x + src.x @ src.x * stack_of(src)  # the user's line


def stack_of(src):
    from harness.language import stack

    return stack(src.degree, src.degree, src.degree)


def vertex_returns_value(p):
    @p.over_vertices  # the user's line
    def f(v):
        return v.x


def vertex_returns_nothing(p):
    @p.over_vertices  # the user's line
    def f(v):
        total(v.x)


def edge_returns_dict(p):
    @p.over_edges(updates="msg")  # the user's line
    def f(src):
        return {"msg": src.x}


def bool_reduced(p):
    @p.over_edges(into="any", reduce="sum")  # the user's line
    def f(src):
        return src.flag


def float_guard(p):
    @p.over_vertices(when=lambda v: total(v.x))  # the user's line
    def f(v):
        return {"x": v.seed}


def temporary_under_guard(p):
    @p.over_vertices(when=lambda v: v.flag)  # the user's line
    def f(v):
        return {"fresh": v.seed}


def foreign_object(p):
    @p.over_vertices
    def f(v):
        return {"x": v.x + np.ones(3)}  # the user's line


def guard_overtaken(p):
    @p.over_edges(into="sum", reduce="sum", when=lambda src: total(src.x) > 0)
    def f(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": v.sum}

    @p.over_edges(into="x", reduce="sum", when=lambda src: total(src.x) > 0)
    def g(src):
        return src.seed

    @p.over_edges(into="sum", reduce="sum")  # the user's line
    def h(src):
        return src.seed


def constant_tolerance(p):
    p.until_settled(0.1, at_most=3)  # the user's line


def twice_declared(p):
    p.vertex("weight")  # the user's line


def built_in_declared(p):
    p.vertex("degree")  # the user's line


def bad_name(p):
    p.edge("reverse")  # the user's line


def keyword_name(p):
    p.vertex("lambda")  # the user's line


def start_of_other_shape(p):
    p.vertex("y", (K, K), start="seed")  # the user's line


def three_dimensions(p):
    p.vertex("cube", (K, K, 2))  # the user's line


def both_into_and_updates(p):
    p.over_edges(into="sum", updates="msg")  # the user's line


def unknown_reducer(p):
    p.over_edges(into="sum", reduce="mean")  # the user's line


def update_of_temporary(p):
    @p.over_edges(updates="fresh")  # the user's line
    def f(src):
        return src.x


def output_temporary(p):
    p.output("nothing", bound=1.0)  # the user's line


def bound_of_property(p):
    @p.over_vertices
    def f(v):
        p.output("x", bound=v.degree)  # the user's line
        return {"x": v.x}


def no_supersteps(p):
    p.repeat(0)  # the user's line


def without_of_extreme(p):
    @p.over_edges(updates="msg")
    def f(src, edge):
        return src.x.without(edge.msg)  # the user's line

    @p.over_edges(into="x", reduce="max")
    def g(edge):
        return edge.msg

    p.output("x", bound=1.0)


def without_of_expression(p):
    @p.over_edges(updates="msg")
    def f(src, edge):
        return (2 * src.x).without(edge.msg)  # the user's line


def other_side_unwritten(p):
    @p.over_vertices
    def f(v):
        return {"y": 2 * v.x}

    @p.over_edges(into="x", reduce="sum")
    def g(src):
        return src.y  # the user's line

    p.alternate_sides()
    p.output("x", bound=1.0)


CASES = [
    (if_on_value, "where(condition, a, b)"),
    (and_on_values, "where(condition, a, b)"),
    (chained_comparison, "& | ~"),
    (builtin_max, "maximum()"),
    (iterated, "total()"),
    (as_float, "where()"),
    (unknown_property, "did you mean 'weight'?"),
    (edge_property_of_vertex, "'weight' is a property of the edge; read it from the argument edge"),
    (vertex_property_of_edge, "'x' is a property of the vertex; read it from the argument src, dst or v"),
    (input_written, "'seed' is an input; declare it with a start"),
    (built_in_written, "'degree' is built in"),
    (wrong_shape_written, "'x' is a vertex float of shape (K,); this gives a vertex float of shape ()"),
    (wrong_dtype_written, "'flag' is a vertex bool of shape (); this gives a vertex float"),
    (argument_name, "has an argument 'source'; edge functions take src, dst, edge, graph"),
    (assigned, "v.x cannot be assigned; return the new value"),
    (augmented, "v.x cannot be assigned"),
    (shapes_met, "(K,) and (3,)"),
    (vertex_returns_value, "f must return {'property': value, ...}"),
    (vertex_returns_nothing, "f must return {'property': value, ...}"),
    (edge_returns_dict, "it returned a dict"),
    (bool_reduced, "one float value to reduce"),
    (float_guard, "must give one bool"),
    (temporary_under_guard, "declare it with a start"),
    (foreign_object, "ndarray cannot appear in a traced expression"),
    (guard_overtaken, "reads 'x', which its sequence of edge stages has written"),
    (constant_tolerance, "such as self.tolerance"),
    (twice_declared, "already a property of the edge"),
    (built_in_declared, "is built in"),
    (bad_name, "not a property name"),
    (keyword_name, "not a property name"),
    (start_of_other_shape, "not a declared vertex float of shape (K, K)"),
    (three_dimensions, "at most two dimensions"),
    (both_into_and_updates, "either into= with reduce=, or updates="),
    (unknown_reducer, "sum, prod, min, max"),
    (update_of_temporary, "must name an edge property declared with a start"),
    (output_temporary, "must be a declared property with a start"),
    (bound_of_property, "a number computed from parameters"),
    (no_supersteps, "positive int"),
    (without_of_extreme, "a sum or a prod"),
    (without_of_expression, "applies to an aggregate"),
    (other_side_unwritten, "declare it with a start"),
]


@pytest.mark.parametrize(("body", "words"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_mistake_is_shown_at_the_line_that_made_it(body, words):
    def build(p, self):
        well_formed(p)
        body(p)

    with pytest.raises(LanguageError) as caught:
        program_of(build)
    assert words in str(caught.value)
    code = body.__code__
    lines = Path(__file__).read_text().splitlines()
    marked = next(n for n in range(code.co_firstlineno, len(lines)) if lines[n - 1].endswith(MARK))
    assert f"{__file__}:{marked}\n    {lines[marked - 1].strip()}" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda p, self: None, "has no stages"),
        (lambda p, self: (well_formed(p), p.over_vertices(lambda v: {"x": v.seed})), "names no output"),
        (
            lambda p, self: (
                well_formed(p), p.over_vertices(lambda v: {"x": v.seed}), p.output("flag", bound=1.0)
            ),
            "no stage of test writes the output 'flag'",
        ),
    ],
)  # fmt: skip
def test_missing_parts_are_named(body, words):
    with pytest.raises(LanguageError, match=words):
        program_of(body)


class Damped(Algorithm):
    name = "damped"
    alpha: float = 0.5
    clamp: bool = True
    hops: int = 1
    kind: str = "l1"

    def build(self, p):
        p.vertex("seed", K)
        p.vertex("x", K, start="seed")
        for _ in range(self.hops):

            @p.over_edges(into="aggr", reduce="sum")
            def spread(src):
                return src.x

            @p.over_vertices
            def move(v):
                return {"x": where(self.clamp, v.seed, self.alpha * normalize(v.aggr, self.kind))}

        p.output("x", bound=self.alpha * 2)


def test_a_run_time_parameter_does_not_change_the_program_but_an_int_or_str_does():
    same = trace(Damped()).fingerprint
    assert trace(Damped(alpha=0.9, clamp=False)).fingerprint == same
    assert trace(Damped(alpha=0.9)).parameters == {"alpha": 0.9, "clamp": 1.0}
    assert trace(Damped(alpha=0.9)).bound == pytest.approx(1.8)
    assert trace(Damped(hops=2)).fingerprint != same
    assert trace(Damped(kind="l2")).fingerprint != same


def test_a_parameter_that_is_not_finite_is_invalid():
    with pytest.raises(InvalidInput, match="alpha is nan"):
        trace(Damped(alpha=float("nan")))


def test_a_copied_or_pickled_program_is_the_same_program():
    program = trace(Damped())
    assert pickle.loads(pickle.dumps(program)).fingerprint == program.fingerprint  # noqa: S301  # our own bytes
    assert copy.deepcopy(program).properties["x"].shape[0] is K
    assert copy.copy(program.stages[0]) != program.stages[0]  # no traced comparison behind ==


def test_positions_of_the_user_survive_a_builder_used_by_hand():
    p = ProgramBuilder("by hand")
    p.vertex("x", start=1.0)
    with pytest.raises(LanguageError, match=re.escape("available: degree, in_degree, out_degree, x.")):
        p.over_vertices(lambda v: {"x": v.entirely_else})


@pytest.mark.parametrize("control", [lambda p: p.repeat(2), lambda p: p.until_settled(at_most=2)])
def test_a_stage_after_the_control_is_refused(control):
    """It would run in every superstep, like the stages before, and look like a final one."""

    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_vertices(lambda v: {"x": v.x + 1.0})
        control(p)

        @p.over_vertices
        def scale(v):
            return {"x": v.x / 2.0}

    with pytest.raises(LanguageError, match=r"scale follows repeat\(\) or until_settled\(\)") as met:
        program_of(build)
    assert met.value.where.file == __file__


def test_the_control_may_be_declared_first():
    def build(p, self):
        p.repeat(2)
        p.vertex("x", start=1.0)
        p.over_vertices(lambda v: {"x": v.x + 1.0})
        p.output("x", bound=1e-5)

    assert program_of(build).max_supersteps == 2

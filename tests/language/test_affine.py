"""Programs whose superstep is x -> A x + b, and the form in which A is symmetric."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import K, dot, exp, full, largest, maximum, normalize, total, where
from harness.language.affine import GATHERED, NOT_AFFINE, Symmetry, degree, not_affine, state_of, symmetry
from harness.language.evaluation import Evaluator
from harness.language.program import VertexStep, reads
from tests.engines.programs import traced


def ranking(message, update, *, before=None, total=False):
    """Return a program that reduces ``message`` into ``sum`` and updates ``x``."""

    def build(p, self):
        p.edge("w", K)
        p.vertex("given", K)
        p.vertex("share", K)
        p.vertex("x", K, start="given")
        if before is not None:
            p.over_vertices(before)
        if total:
            p.over_graph(into="all", reduce="sum")(lambda v: v.x)
        p.over_edges(into="sum", reduce="sum")(message)
        p.over_vertices(update)
        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-4)

    return traced(build, "ranking")


SYMMETRIC = {
    "a share of the sum": (lambda src, edge: edge.w * src.x, lambda v: {"x": v.share * v.sum + v.given}),
    "its own value": (lambda src: src.x, lambda v: {"x": 0.1 * v.sum / v.share + 0.5 * v.x}),
    "what is missing": (lambda src, edge: edge.w * src.x, lambda v: {"x": v.given - v.share * v.sum}),
    "its own value less the sum": (lambda src: src.x, lambda v: {"x": v.x * 0.5 - v.sum / 4.0 - v.given}),
    "the negative": (lambda src: src.x, lambda v: {"x": -(v.sum * v.share) + v.given}),
    "one of two": (lambda src: src.x, lambda v: {"x": where(v.given > 1, v.sum - v.x, v.sum * v.share)}),
    "only some vertices": (
        lambda src, edge: (1 - edge.w) * src.x, lambda v: {"x": where(v.share > 0, v.sum * v.share, v.given)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_forms(name):
    program = ranking(*SYMMETRIC[name])
    assert not_affine(program) == ""
    assert state_of(program) == "x"
    form = symmetry(program)
    assert isinstance(form, Symmetry)
    assert form.edges == (() if form.coefficient is None else ("w",))
    assert ("v", GATHERED) in set(reads(form.update))
    assert ("v", "sum") not in set(reads(form.update))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_update_of_a_symmetric_form_is_that_of_the_program_with_the_sum_replaced(name):
    message, update = SYMMETRIC[name]
    form = symmetry(ranking(message, update))
    rng = np.random.default_rng(1)
    values = {name: rng.uniform(0.5, 2, (6, 3)) for name in ("x", "given", "share", "sum")}
    evaluated = Evaluator(lambda _, name: values["sum" if name == GATHERED else name], {}, 3)(form.update)
    [step] = [stage for stage in ranking(message, update).stages if isinstance(stage, VertexStep)]
    np.testing.assert_allclose(evaluated, Evaluator(lambda _, name: values[name], {}, 3)(dict(step.values)["x"]))


@pytest.mark.parametrize(
    ("message", "update", "options", "reason"),
    [
        (lambda src, edge: edge.w * src.share * src.x, lambda v: {"x": v.sum}, {}, "times a value of the edge"),
        (lambda src, dst: dst.share * src.x, lambda v: {"x": v.sum}, {}, "times a value of the edge"),
        (lambda src: src.x, lambda v: {"x": v.sum}, {"total": True}, "sums 'x' over the graph"),
        (lambda src: src.x, lambda v: {"x": v.sum}, {"before": lambda v: {"x": 0.5 * v.x}}, "steps come before"),
    ],
)
def test_asymmetric_forms_are_told_with_the_reason(message, update, options, reason):
    program = ranking(message, update, **options)
    assert not_affine(program) == ""
    found = symmetry(program)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    "update",
    [
        lambda v: {"x": normalize(v.sum)},
        lambda v: {"x": maximum(v.sum, v.given)},
        lambda v: {"x": v.sum * v.x},
        lambda v: {"x": where(v.sum > 0, v.given, 0.0)},
        lambda v: {"x": v.given / (1 + v.sum)},
    ],
)
def test_programs_that_are_not_affine(update):
    program = ranking(lambda src: src.x, update)
    assert "is not an affine function of 'x'" in not_affine(program)
    assert symmetry(program) == not_affine(program)


DEGREES = {
    "a constant": (lambda v: 3.0 + v.given, 0),
    "itself": (lambda v: v.x, 1),
    "a sum": (lambda v: v.x + v.given - 2.0, 1),
    "a multiple": (lambda v: v.given * v.x, 1),
    "a square": (lambda v: v.x * v.x, NOT_AFFINE),
    "a cube": (lambda v: v.x * v.x * v.x, NOT_AFFINE),
    "a quotient by a constant": (lambda v: v.x / v.share, 1),
    "a quotient of constants": (lambda v: v.given / v.share, 0),
    "a quotient by itself": (lambda v: v.given / v.x, NOT_AFFINE),
    "a negative": (lambda v: -v.x, 1),
    "a difference": (lambda v: v.given - v.x, 1),
    "a difference of squares": (lambda v: v.x * v.x - v.x, NOT_AFFINE),
    "a quotient of a square": (lambda v: v.x * v.x / v.share, NOT_AFFINE),
    "a choice of a square": (lambda v: where(v.given > 0, v.x * v.x, v.given), NOT_AFFINE),
    "a choice of the other": (lambda v: where(v.given > 0, 1.0, v.x), 1),
    "a choice of values": (lambda v: where(v.given > 0, v.x, 1.0), 1),
    "a choice of constants": (lambda v: where(v.given > 0, v.share, 1.0), 0),
    "a choice by itself": (lambda v: where(v.x > 0, v.given, 1.0), NOT_AFFINE),
    "a total": (lambda v: full((K,), total(v.x)), 1),
    "a product": (lambda v: full((K,), dot(v.x, v.given)), 1),
    "a product with itself": (lambda v: full((K,), dot(v.x, v.x)), NOT_AFFINE),
    "the largest": (lambda v: full((K,), largest(v.x)), NOT_AFFINE),
    "an exponential": (lambda v: exp(v.x), NOT_AFFINE),
    "an exponential of a constant": (lambda v: exp(v.given), 0),
}


@pytest.mark.parametrize("name", DEGREES)
def test_the_degree_of_an_expression(name):
    update, expected = DEGREES[name]
    program = ranking(lambda src: src.x, lambda v: {"x": update(v)})
    [step] = [stage for stage in program.stages if isinstance(stage, VertexStep)]
    assert degree(dict(step.values)["x"], {"x"}) == expected
    assert degree(dict(step.values)["x"], {"none"}) == 0


def made(*, reduce="sum", tolerance=True, more=None, width=K, alternate=False):
    """Return a program x = sum + given, with one thing changed."""

    def build(p, self):
        p.vertex("given", width)
        p.vertex("x", width, start="given")
        p.edge("msg", width, start=0.0) if more == "edge" else None
        p.vertex("y", width, start=0.0) if more == "state" else None
        if more == "edge":
            p.over_edges(updates="msg")(lambda src: src.x)
        p.over_edges(into="sum", reduce=reduce)(lambda src: 0.5 * src.x)
        p.over_vertices(lambda v: {"x": v.sum + v.given, **({"y": v.sum} if more == "state" else {})})
        if alternate:
            p.alternate_sides()
        p.until_settled(*([self.tolerance] if tolerance else []), at_most=50)
        p.output("x", bound=1e-4)

    return traced(build, "ranking")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"width": ()}, ""),
        ({"width": (K, K)}, "ranking does not change one scalar or vector of the vertices"),
        ({"more": "state"}, "ranking does not change one scalar or vector of the vertices"),
        ({"more": "edge"}, "ranking does not change one scalar or vector of the vertices"),
        ({"tolerance": False}, "ranking does not converge to a tolerance that is measured on 'x'"),
        ({"alternate": True}, "ranking does not converge to a tolerance that is measured on 'x'"),
        ({"reduce": "max"}, "is not an affine function of 'x'"),
    ],
    ids=str,
)
def test_reasons_why_a_program_is_not_a_linear_system(changes, reason):
    found = not_affine(made(**changes))
    assert found == reason if not reason.startswith("is not") else found.endswith(reason)


@pytest.mark.parametrize(
    "update",
    [
        lambda v: {"x": full((K,), total(v.sum))},
        lambda v: {"x": v.given},
        lambda v: {"x": v.sum + full((K,), total(v.x))},
        lambda v: {"x": full((K,), dot(v.sum, v.share))},
    ],
)
def test_sums_that_mix_features_have_no_symmetric_form(update):
    program = ranking(lambda src: src.x, update)
    assert not_affine(program) == ""
    found = symmetry(program)
    if isinstance(found, Symmetry):  # the sum is not read at all
        assert ("v", GATHERED) not in set(reads(found.update))
    else:
        assert "does not multiply the result of" in found
        assert found.endswith("by one number of each vertex")


def test_the_parts_of_a_symmetric_form():
    form = symmetry(ranking(*SYMMETRIC["a share of the sum"]))
    assert form.state == "x"
    assert set(reads(form.update)) == {("v", GATHERED), ("v", "share"), ("v", "given")}
    assert set(reads(form.coefficient)) == {("edge", "w")}
    assert form.constant == ()
    plain = symmetry(ranking(*SYMMETRIC["its own value"]))
    assert plain.coefficient is None
    assert set(reads(plain.update)) == {("v", GATHERED), ("v", "share"), ("v", "x")}


def test_a_sum_over_the_graph_of_what_does_not_change_is_part_of_the_constant():
    def build(p, self):
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.over_graph(into="all", reduce="sum")(lambda v: v.given)
        p.over_edges(into="degree_sum", reduce="sum")(lambda src: src.given)
        p.over_edges(into="sum", reduce="sum")(lambda src: 0.5 * src.x)
        p.over_vertices(lambda v, graph: {"x": v.sum + v.given / graph.all + v.degree_sum})
        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-4)

    form = symmetry(traced(build, "ranking"))
    assert isinstance(form, Symmetry)
    assert [stage.into for stage in form.constant] == ["degree_sum"]
    assert set(reads(form.update)) == {("v", GATHERED), ("v", "given"), ("graph", "all"), ("v", "degree_sum")}

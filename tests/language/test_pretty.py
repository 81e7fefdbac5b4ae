"""Expressions and stopping rules as text."""

from __future__ import annotations

import pytest

from harness.language import (
    K,
    absolute,
    any_feature,
    dot,
    exp,
    eye,
    full,
    largest,
    log,
    maximum,
    minimum,
    normalize,
    outer,
    smallest,
    sqrt,
    stack,
    total,
    where,
)
from harness.language.criterion import criterion_text, propagated_share
from harness.language.pretty import format_expression
from tests.language.programs import program_of


def written(function):
    """Return the text of the value that a vertex step writes."""

    def build(p, self):
        p.vertex("x", K, start=1.0)
        p.vertex("m", (K, K))
        p.vertex("n", start=0.0)
        p.vertex("flag", dtype=bool, start=False)
        p.over_vertices(lambda v: {"out": function(v, self)})
        p.over_vertices(lambda v: {"x": 0.5 * v.x})
        p.repeat(1)
        p.output("x", bound=1.0)

    first, _ = program_of(build).stages
    return format_expression(dict(first.values)["out"])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda v, self: v.x + 1.0, "(v.x + 1)"),
        (lambda v, self: v.x - 0.5, "(v.x - 0.5)"),
        (lambda v, self: 2.0 * v.x / v.n, "((2 * v.x) / v.n)"),
        (lambda v, self: v.x**1.5, "(v.x ** 1.5)"),
        (lambda v, self: self.rate * v.x, "(self.rate * v.x)"),
        (lambda v, self: -v.x, "-v.x"),
        (lambda v, self: ~v.flag, "~v.flag"),
        (lambda v, self: (v.n < 1.0) & (v.n <= 2.0) | (v.n > 3.0), "(((v.n < 1) & (v.n <= 2)) | (v.n > 3))"),
        (lambda v, self: (v.n >= 1.0) & (v.n == 2.0) & (v.n != 3.0), "(((v.n >= 1) & (v.n == 2)) & (v.n != 3))"),
        (lambda v, self: where(v.flag, v.x, 0.0), "where(v.flag, v.x, 0)"),
        (lambda v, self: total(v.x), "total(v.x)"),
        (lambda v, self: largest(v.x), "largest(v.x)"),
        (lambda v, self: smallest(v.x), "smallest(v.x)"),
        (lambda v, self: any_feature(v.x > 1.0), "any_feature((v.x > 1))"),
        (lambda v, self: minimum(v.x, maximum(v.x, 2.0)), "minimum(v.x, maximum(v.x, 2))"),
        (lambda v, self: absolute(v.x), "absolute(v.x)"),
        (lambda v, self: exp(v.x) + log(v.x) + sqrt(v.x), "((exp(v.x) + log(v.x)) + sqrt(v.x))"),
        (lambda v, self: dot(v.x, v.x), "dot(v.x, v.x)"),
        (lambda v, self: v.m @ v.x, "(v.m @ v.x)"),
        (lambda v, self: v.m.T @ v.x, "(v.m.T @ v.x)"),
        (lambda v, self: outer(v.x, v.x), "outer(v.x, v.x)"),
        (lambda v, self: v.m + eye(K), "(v.m + eye(K))"),
        (lambda v, self: full((K,), v.n), "full((K,), v.n)"),
        (lambda v, self: stack(v.n, 1.0)[1], "stack(v.n, 1)[1]"),
        (lambda v, self: v.n + 0.1234567, "(v.n + 0.1234567)"),
        (lambda v, self: v.n + 1e-30, "(v.n + 1e-30)"),
        (lambda v, self: v.n + 1e9, "(v.n + 1e+09)"),
        (lambda v, self: where(v.flag, True, v.flag), "where(v.flag, True, v.flag)"),
        (lambda v, self: normalize(v.x), "normalize(v.x, 'l1')"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_expression_is_written_as_its_author_wrote_it(function, text):
    assert written(function) == text


def ending(end):
    def make(p, self):
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.over_edges(into="sum", reduce="sum")(lambda src: 0.5 * src.x)
        p.over_vertices(lambda v: {"x": v.sum})
        end(p, self)
        p.output("x", bound=1.0)

    return program_of(make)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda p, self: p.repeat(7), "runs 7 supersteps"),
        (lambda p, self: p.until_settled(at_most=9), "settled when nothing moves"),
        (
            lambda p, self: p.until_settled(self.tolerance, at_most=9),
            "settled when no entry of x moves by more than self.tolerance, absolute; measured in every 4th superstep",
        ),
        (
            lambda p, self: p.until_settled(self.rate, relative=True, at_most=9),
            "settled when no entry of x moves by more than self.rate, relative; measured in every 4th superstep",
        ),
        (
            lambda p, self: p.until_settled(self.tolerance, relative=True, norm="sum", at_most=9),
            "settled when the sum of movements of every column of x is within self.tolerance of its magnitude; "
            "measured in every 4th superstep",
        ),
    ],
)
def test_a_stopping_rule_is_a_sentence(end, text):
    from harness.language.criterion import PROPAGATED_SHARE, TEST_EVERY, Criterion

    program = ending(end)
    assert criterion_text(program) == text.replace("every 4th", f"every {TEST_EVERY}th")
    assert propagated_share(program) == (PROPAGATED_SHARE if Criterion.of(program) else 1.0)
    assert (Criterion.of(program) is None) == ("measured" not in text)

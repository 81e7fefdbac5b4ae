"""Programs whose superstep is x -> A x + b, and the form in which A is symmetric."""

from __future__ import annotations

import pytest

from harness.language import K, maximum, normalize, where
from harness.language.affine import GATHERED, Symmetry, not_affine, state_of, symmetry
from harness.language.program import reads
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

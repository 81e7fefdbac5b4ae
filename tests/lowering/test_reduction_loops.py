"""Loops that reduce into several accumulators, in runs, against sums and extrema in float64."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, trace
from harness.lowering.cpu.reduction_loops import CHAINS, LONGEST, RUN
from harness.lowering.cpu.templates import TemplateLoop
from tests.engines.problems import prepared

UNIT = 2.0**-24
DEGREES = (0, 1, 2, 3, 4, 5, 7, 8, RUN - 1, RUN, RUN + 1, CHAINS * RUN, CHAINS * RUN + 3, 9 * RUN + 2)


class Reduction(Algorithm):
    """One reduction of weighted values, once."""

    name: ClassVar[str] = "reduction"

    reduce: str = "sum"

    def build(self, p):
        p.edge("weight")
        p.vertex("given", K)
        p.vertex("x", K, start="given")

        @p.over_edges(into="found", reduce=self.reduce)
        def gather(src, edge):
            return edge.weight * src.x

        @p.over_vertices
        def keep(v):
            return {"x": v.found}

        p.repeat(1)
        p.output("x", bound=1e-5)


def stars():
    """Return a graph of a vertex of each degree, whose in-edges come from vertices of their own."""
    heads = np.repeat(np.arange(len(DEGREES)), DEGREES)
    tails = len(DEGREES) + np.arange(len(heads))
    return Graph.from_edges(tails, heads, num_vertices=len(DEGREES) + len(heads), name="stars")


def inputs_of(graph, features, *, equal):
    draws = np.random.default_rng(1)
    given = draws.random((graph.num_vertices, features), np.float32)
    weight = draws.random(graph.num_edges, np.float32)
    if equal:
        given[:], weight[:] = np.float32(0.1), np.float32(1.0)
    return Inputs({"given": given, "weight": weight})


def reduced(engine, features, *, equal=False, reduce="sum", **options):
    """Return what a CPU engine finds at the vertices with in-edges ``[D, k]``, and the terms of each, in float64."""
    graph, program = stars(), trace(Reduction(reduce=reduce))
    inputs = inputs_of(graph, features, equal=equal)
    run = prepared(engine, options, program, graph, features, threads=1)
    run.reset(inputs)
    run.run(1)
    values = run.values("x").reshape(graph.num_vertices, features)[: len(DEGREES)]
    given = inputs.properties["given"].astype(np.float64)[graph.csc.neighbours]
    weight = graph.in_csc_order(inputs.properties["weight"]).astype(np.float64)
    terms = np.split(weight[:, None] * given, graph.csc.offsets[1 : len(DEGREES)])
    return values, [one[:degree] for one, degree in zip(terms, DEGREES, strict=True)]


ENGINES = [
    ("onyx", {"direction": "pull", "change_driven": False}),
    ("onyx", {"direction": "pull", "change_driven": True}),
    ("onyx", {"direction": "adaptive", "dense_share": 0.0, "change_driven": True}),
    ("simdx", {}),
]


@pytest.mark.parametrize(("engine", "options"), ENGINES)
@pytest.mark.parametrize(
    "features", [1, LONGEST + 1, *(pytest.param(k, marks=pytest.mark.full) for k in (3, LONGEST, 40))]
)
def test_sums_have_every_term_once(engine, options, features):
    found, terms = reduced(engine, features, **options)
    for row, values in zip(found, terms, strict=True):
        roundings = min(len(values), RUN) + len(values) / RUN + CHAINS
        np.testing.assert_allclose(row, values.sum(axis=0), rtol=roundings * UNIT)


@pytest.mark.parametrize("features", [1, LONGEST + 1])
def test_sums_of_equal_terms_are_taken_in_runs(features):
    found, terms = reduced("onyx", features, equal=True, direction="pull")
    exact = np.array([values.sum(axis=0) for values in terms])
    assert (np.abs(found - exact) <= 4e-6 * exact).all()


@pytest.mark.parametrize(("reduce", "of"), [("min", np.min), ("max", np.max)])
@pytest.mark.parametrize("features", [1, LONGEST])
def test_extrema_are_those_of_all_terms(reduce, of, features):
    found, terms = reduced("onyx", features, reduce=reduce, direction="pull")
    nothing = np.inf if reduce == "min" else -np.inf
    exact = [of(values, axis=0) if len(values) else np.full(features, nothing) for values in terms]
    np.testing.assert_allclose(found, np.array(exact), rtol=UNIT)


@pytest.mark.parametrize("features", [1, LONGEST, LONGEST + 1])
def test_all_kernels_of_a_pull_add_in_one_order(features):
    """A vertex that is recomputed alone must not move by rounding."""
    ways = [{"change_driven": False}, {"change_driven": True, "dense_share": 0.0}, {"dense_share": 1.0}]
    first, *others = (reduced("onyx", features, direction="pull", **way)[0] for way in ways)
    assert all(np.array_equal(first, other) for other in others)


def test_a_loop_of_long_rows_is_written_in_runs_only():
    texts = []
    for features in (1, LONGEST + 1):
        run = prepared("onyx", {"direction": "pull"}, trace(Reduction()), stars(), features, threads=1)
        texts.append(run.explain())
    assert [text.count("not_unrolled()") > 0 for text in texts] == [True, False]
    assert all(f"e + {run}" in text for run, text in zip((CHAINS * RUN, RUN), texts, strict=True))


def test_the_loop_of_a_block_is_found_in_a_template():
    template = "\n".join([
        "for v in range(bounds[t], bounds[t + 1]):", "    @vertex",
        "    for e in range(at(offsets, v), at(offsets, v + 1)):", "        u = at(ends, e)", "        @edge",
        "    @after",
    ])  # fmt: skip
    loop = TemplateLoop.of(template, "e", "edge")
    assert (loop.first, loop.stop, loop.body) == ("at(offsets, v)", "at(offsets, v + 1)", ["u = at(ends, e)", "@edge"])
    assert loop.replaced(["pass"]).splitlines() == [*template.splitlines()[:2], "    pass", "    @after"]
    outer = TemplateLoop.of(template, "v", "vertex")
    assert (outer.first, outer.stop, len(outer.body), outer.after) == ("bounds[t]", "bounds[t + 1]", 5, [])
    with pytest.raises(ValueError, match="range.n. has no two arguments"):
        TemplateLoop.of("for e in range(n):\n    @edge", "e", "edge")

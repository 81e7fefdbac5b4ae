"""Products written as sums: in float64 they have the values of the products, whatever signs, zeros and starts are."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import Inputs, K, where
from harness.language.reference import ReferenceRun
from harness.lowering.log_products import products_as_sums
from tests.engines.names import named
from tests.engines.problems import ALGORITHMS, program
from tests.engines.programs import edges_and_loops, inputs_for, program_named, traced, two_sides

K_FEATURES, SUPERSTEPS = 3, 3


def started(start, shape):
    """Return a program that takes factors with signs and zeros out of products that begin as ``start``."""

    def build(p, self):
        p.edge("weight")
        p.vertex("x", shape, start=1.0)
        p.vertex("all", shape, start=start)

        def factor(weight):
            return where(weight < 0.3, 0.0, weight - 0.7)

        if shape:
            p.over_edges(into="left", reduce="sum")(
                named(lambda src, edge: src.all.without(factor(edge.weight) * src.x), "left")
            )
            p.over_edges(into="all", reduce="prod")(named(lambda src, edge: factor(edge.weight) * src.x, "send"))
        else:
            p.over_edges(into="left", reduce="sum")(
                named(lambda src, edge: src.all.without(factor(edge.weight)), "left")
            )
            p.over_edges(into="all", reduce="prod")(named(lambda edge: factor(edge.weight), "send"))
        p.over_vertices(named(lambda v: {"x": 0.5 * v.x + 0.01 * v.left}, "step"))
        p.repeat(SUPERSTEPS)
        p.output("x", bound=1e-3)
        p.output("all", bound=1e-3)

    return traced(build, "started")


def initial(p, self):
    """Have a factor of the vertex, which may be negative or zero, and take another one out."""
    p.edge("weight")
    p.vertex("own")
    p.vertex("x", start=1.0)
    p.vertex("all", start=-1.0)
    p.over_edges(into="left", reduce="sum")(named(lambda src, edge: src.all.without(edge.weight), "left"))
    p.over_edges(into="all", reduce="prod", initial="own")(named(lambda edge: edge.weight, "send"))
    p.over_vertices(named(lambda v: {"x": 0.5 * v.x + 0.01 * v.left}, "step"))
    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-3)
    p.output("all", bound=1e-3)


def promised(start):
    """Return a program whose factors are promised to be nonnegative; the start of its product is not."""

    def build(p, self):
        p.edge("weight", nonnegative=True)
        p.vertex("x", start=1.0)
        p.vertex("all", start=start)
        p.over_edges(into="left", reduce="sum")(named(lambda src, edge: src.all.without(edge.weight), "left"))
        p.over_edges(into="all", reduce="prod")(named(lambda edge: edge.weight, "send"))
        p.over_vertices(named(lambda v: {"x": 0.5 * v.x + 0.01 * v.left}, "step"))
        p.repeat(SUPERSTEPS)
        p.output("x", bound=1e-3)
        p.output("all", bound=1e-3)

    return traced(build, "promised")


PROGRAMS = {
    **{f"promised from {start}": promised(start) for start in (-2.0, 2.0)},
    **{f"starts as {start}": started(start, ()) for start in (-2.0, 0.0, 1.0, 0.5)},
    **{f"vectors that start as {start}": started(start, K) for start in (-2.0, 0.0, 1.0)},
    "initial": traced(initial, "initial"),
    **{name: program_named(name) for name in ("products", "sums_and_products_without", "a_product_of_itself")},
}


def values_of(traced_program, graph, inputs):
    run = ReferenceRun(traced_program, graph, K_FEATURES)
    run.reset(inputs)
    found = []
    for _ in range(SUPERSTEPS):
        run.superstep()
        found.append({name: run.values(name) for name in traced_program.outputs})
    return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_products(name, masked):
    traced_program, graph = PROGRAMS[name], edges_and_loops()
    given = inputs_for(traced_program, graph, K_FEATURES).properties
    if name == "initial":
        given = {**given, "own": np.resize(np.array([-1.5, 0.0, 0.75], np.float32), graph.num_vertices)}
    lowered = products_as_sums(traced_program, masked=masked)
    assert not any(getattr(stage, "reducer", "") == "prod" for stage in lowered.stages)
    for found, exact in zip(
        values_of(lowered, graph, Inputs(given)), values_of(traced_program, graph, Inputs(given)), strict=True
    ):
        for output, values in exact.items():
            assert np.isfinite(values).all()
            np.testing.assert_allclose(found[output], values, rtol=1e-9, atol=1e-12)


def test_beliefs_are_those_of_the_products():
    traced_program, graph = program_named("beliefs"), two_sides()
    inputs = inputs_for(traced_program, graph, K_FEATURES)
    exact = values_of(traced_program, graph, inputs)
    for masked in (False, True):
        found = values_of(products_as_sums(traced_program, masked=masked), graph, inputs)
        for values, wanted in zip(found, exact, strict=True):
            np.testing.assert_allclose(values["belief"], wanted["belief"], rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if not name.startswith("belief")])
def test_programs_without_products_stay_as_they_are(name):
    assert products_as_sums(program(name), masked=True) is program(name)

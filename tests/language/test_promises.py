"""Properties declared nonnegative: who checks the declaration, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, LanguageError, ProgramBuilder, trace
from harness.language.errors import InvalidInput
from harness.language.initial_state import initial_values
from harness.language.reference import ReferenceRun
from harness.lowering.log_products import products_as_sums


class Products(Algorithm):
    """Multiplies the values of neighbours; ``less`` is subtracted from the result."""

    name = "products"

    less: float = 0.0
    kept: str = "promised"

    def build(self, p: ProgramBuilder) -> None:
        promised = self.kept == "promised"
        p.vertex("start", K, nonnegative=promised)
        p.vertex("x", K, start="start", nonnegative=promised)

        @p.over_edges(into="y", reduce="prod")
        def gather(src):
            return src.x

        @p.over_vertices
        def step(v):
            return {"x": v.y - self.less}

        p.repeat(3)
        p.output("x", bound=1e-4)


def ring(count: int) -> Graph:
    ends = np.arange(count)
    return Graph.from_edges(ends, (ends + 1) % count, num_vertices=count, name="ring")


def start(values: np.ndarray) -> Inputs:
    return Inputs({"start": values.astype(np.float32)}, {"less": 0.0})


def test_inputs_below_zero_are_refused():
    values = np.ones((4, 2))
    values[2, 1], values[3, 0] = -1e-6, -2.0
    with pytest.raises(InvalidInput, match="input 'start' must be nonnegative; 2 of its values are below zero"):
        initial_values(trace(Products()), ring(4), 2, start(values), {})


def test_a_state_below_zero_is_refused():
    with pytest.raises(InvalidInput, match="state 'x' must be nonnegative; 1 "):
        initial_values(trace(Products()), ring(3), 1, start(np.ones((3, 1))), {"x": np.array([[1.0], [0.0], [-1.0]])})


def test_zero_and_infinity_are_nonnegative():
    found = initial_values(trace(Products()), ring(2), 1, start(np.array([[0.0], [np.inf]])), {})
    assert found["x"].tolist() == [[0.0], [np.inf]]


def test_the_reference_run_finds_a_broken_promise():
    run = ReferenceRun(trace(Products()), ring(4), 2)
    run.reset(Inputs({"start": np.full((4, 2), 0.5, np.float32)}, {"less": 2.0}))
    with pytest.raises(LanguageError, match="step writes values below zero to 'x', which is declared nonnegative"):
        run.run(1)


def test_declarations_must_be_satisfiable():
    class Falling(Algorithm):
        name = "falling"

        def build(self, p: ProgramBuilder) -> None:
            p.vertex("x", start=-1.0, nonnegative=True)

    class Borrowed(Algorithm):
        name = "borrowed"

        def build(self, p: ProgramBuilder) -> None:
            p.vertex("y")
            p.vertex("x", start="y", nonnegative=True)

    class Flag(Algorithm):
        name = "flag"

        def build(self, p: ProgramBuilder) -> None:
            p.vertex("x", dtype=bool, nonnegative=True)

    for algorithm, words in ((Falling(), "starts as -1.0"), (Borrowed(), "starts as 'y'"), (Flag(), "is bool")):
        with pytest.raises(LanguageError, match=words):
            trace(algorithm)


def test_products_of_nonnegative_factors_count_no_signs():
    names = {kept: set(products_as_sums(trace(Products(kept=kept))).properties) for kept in ("promised", "any")}
    assert names["any"] - names["promised"] == {"y_negatives"}
    assert {"y_log", "y_zeros"} <= names["promised"]


def test_the_promise_is_part_of_the_program():
    assert trace(Products()).fingerprint != trace(Products(kept="any")).fingerprint


@pytest.mark.parametrize("start", [0.0, 0.5, float("inf"), -0.0])
def test_a_constant_start_that_is_not_below_zero_may_be_declared_nonnegative(start):
    class Standing(Algorithm):
        name = "standing"

        def build(self, p: ProgramBuilder) -> None:
            p.vertex("x", start=start, nonnegative=True)
            p.over_vertices(lambda v: {"x": 0.5 * v.x})
            p.output("x", bound=1e-6)

    prop = trace(Standing()).properties["x"]
    assert (prop.role, prop.start, prop.nonnegative) == ("state", start, True)

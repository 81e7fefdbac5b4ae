"""The measure that compares an engine's answer with the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.language import K
from harness.language.algorithm import Allowance
from harness.language.validation import FLOOR, WITHIN, Comparison, allowed, compare, relative_error, within
from tests.language.programs import program_of

inf, nan = math.inf, math.nan


@pytest.mark.parametrize(
    ("value", "reference", "error"),
    [
        ([1.1], [1.0], 0.1),
        ([0.9, 0.0], [1.0, 0.1], 0.1),  # the largest difference over the largest magnitude
        ([2.0, 0.0], [2.0, 0.5], 0.25),
        ([-1.0], [1.0], 2.0),
        ([0.0], [0.0], 0.0),
        ([inf], [inf], 0.0),
        ([inf, 1.0], [inf, 2.0], 0.5),  # an infinity does not hide other errors
        ([inf], [-inf], inf),
        ([1.0], [inf], inf),
        ([inf], [1.0], inf),
        ([nan], [1.0], inf),
        ([1.0], [nan], inf),
        ([nan], [nan], inf),
        ([1e-30], [0.0], 1e-30 / FLOOR),
        ([3e-38], [2e-38], 1e-38 / FLOOR),
        ([3e38], [-3e38], 2.0),
    ],
)
def test_the_error_of_a_vertex(value, reference, error):
    with np.errstate(all="raise"):
        met = relative_error(np.array([value]), np.array([reference]))
    assert met == pytest.approx([error])


def test_scalars_matrices_bools_and_nothing_at_all():
    assert relative_error(np.array([1.0, 3.0]), np.array([1.0, 2.0])).tolist() == [0.0, 0.5]
    assert relative_error(2 * np.ones((3, 2, 2)), np.ones((3, 2, 2))).tolist() == [1.0] * 3
    assert relative_error(np.array([True, False]), np.array([True, True])).tolist() == [0.0, 1.0]
    assert relative_error(np.zeros((0, 4)), np.zeros((0, 4))).shape == (0,)
    assert relative_error(np.zeros(0), np.zeros(0)).shape == (0,)


def test_each_vertex_has_its_own_scale_unless_there_is_a_floor():
    reference, values = np.array([[100.0], [1e-6]]), np.array([[100.0], [2e-6]])
    assert relative_error(values, reference).tolist() == pytest.approx([0.0, 1.0])
    assert relative_error(values, reference, floor=0.01).tolist() == pytest.approx([0.0, 1e-6])


def two_outputs(floor=0.0):
    def build(p, self):
        p.vertex("x", K, start=1.0)
        p.edge("m", start=1.0)

        @p.over_edges(updates="m")
        def update(edge):
            return edge.m * 2

        @p.over_vertices
        def step(v):
            return {"x": v.x * 2}

        p.output("x", bound=1e-3, floor=floor)
        p.output("m", bound=1e-6)

    return program_of(build)


def test_outputs_are_held_to_their_own_bounds():
    program = two_outputs()
    reference = {"x": np.ones((3, 2)), "m": np.ones(4)}
    good = compare(program, {"x": reference["x"] + 5e-4, "m": reference["m"]}, reference)
    assert (good.ok, good.bound) == (True, 1e-3)
    assert good.error == pytest.approx(5e-4)
    bad = compare(program, {"x": reference["x"], "m": np.array([1, 1, 1.1, 1])}, reference)
    assert not bad.ok
    assert "m of edge 2 is off by 0.1 relative (bound 1e-06): 1.1 instead of 1." in bad.detail
    hidden = compare(program, {"x": reference["x"] + 5e-4, "m": reference["m"] + 1e-4}, reference)
    assert not hidden.ok, "the larger error of an output with a larger bound hides none"
    worse = compare(program, {"x": np.array([[1, 1], [1, nan], [1, 1]]), "m": reference["m"]}, reference)
    assert (worse.ok, worse.error) == (False, inf)
    assert "x of vertex 1" in worse.detail


def test_another_shape_is_never_right():
    reference = {"x": np.ones((3, 2)), "m": np.ones(4)}
    met = compare(two_outputs(), {"x": np.ones((2, 3)), "m": np.ones(4)}, reference)
    assert not met.ok
    assert "x has shape (2, 3), not (3, 2)" in met.detail


def test_the_floor_of_an_output_is_used():
    reference = {"x": np.array([[1.0, 1.0], [1e-4, 0.0]]), "m": np.ones(0)}
    values = {"x": np.array([[1.0, 1.0], [1.1e-4, 0.0]]), "m": np.ones(0)}
    assert not compare(two_outputs(), values, reference).ok
    assert compare(two_outputs(floor=0.1), values, reference).ok


def compared(x, m):
    """Compare offsets ``x`` (float or ``[3, 2]``) and ``m`` (float or ``[4]``) from outputs that are 1 everywhere, with
    an allowance of 1e-3 for each x and of 1e-2 for each m."""
    reference = {"x": np.ones((3, 2)), "m": np.ones(4)}
    values = {"x": reference["x"] + x, "m": reference["m"] + m}
    allowances = {
        name: Allowance(np.full(one.shape, most))
        for (name, one), most in zip(reference.items(), (1e-3, 1e-2), strict=True)
    }
    return compare(two_outputs(), values, reference, allowances)


@pytest.mark.parametrize(
    ("x", "m", "ok", "error", "bound"),
    [
        (0.0, 0.0, True, 0.0, 1e-3),
        (5e-4, 1e-3, True, 5e-4, 1e-3),  # half of one bound is more than a tenth of another
        (1e-4, 9e-3, True, 9e-3, 1e-2),
        (5e-4, 0.1, False, 0.1, 1e-2),
        (0.1, 5e-3, False, 0.1, 1e-3),
        (1e-2, 0.05, False, 1e-2, 1e-3),  # ten times one bound is more than five times another
        (2e-3, 0.05, False, 0.05, 1e-2),
        (nan, 0.05, False, inf, 1e-3),
    ],
)  # fmt: skip
def test_the_comparison_shows_the_error_that_is_largest_in_units_of_its_bound(x, m, ok, error, bound):
    found = compared(x, m)
    assert found.ok == ok
    assert found.error == pytest.approx(error, rel=1e-9)
    assert found.bound == pytest.approx(bound, rel=2e-3)  # and a few roundings
    assert found.excess == pytest.approx(error / bound, rel=2e-3)
    name = "x" if bound == 1e-3 else "m"
    assert found.detail == WITHIN if ok else f"{name} of " in found.detail or f"of {name} is off" in found.detail


def test_one_entry_may_be_right_by_itself_and_its_feature_wrong_in_total():
    x, limit = np.ones((4, 2)), np.full((4, 2), 1e-2)
    x[:, 1] += 5e-3
    assert within("x", "vertex", x, np.ones((4, 2)), limit).ok
    found = within("x", "vertex", x, np.ones((4, 2)), limit, np.array([1.0, 1e-2]))
    assert (found.ok, found.error, found.bound) == (False, pytest.approx(5e-3), pytest.approx(2.5e-3))
    assert found.detail.startswith(
        "feature 1 of x is off by 0.005 relative in the L1 norm over the graph (bound 0.0025)"
    )
    assert within("x", "vertex", x, np.ones((4, 2)), limit, np.array([0.0, 2e-2])).ok
    x[2, 0] = 1.02
    found = within("x", "vertex", x, np.ones((4, 2)), limit, np.array([1.0, 1e-1]))
    assert (found.ok, found.error, found.bound) == (False, pytest.approx(2e-2), pytest.approx(1e-2))
    assert found.detail.startswith("x of vertex 2 is off by 0.02 relative (bound 0.01): ")


def test_outputs_without_rows_or_features_are_right():
    for shape in ((0,), (0, 3), (3, 0)):
        nothing = np.zeros(shape)
        assert within("x", "vertex", nothing, nothing, nothing) == Comparison(True, 0.0, 0.0, "")
    empty = {"x": np.zeros((0, 2)), "m": np.zeros(0)}
    found = compare(two_outputs(), empty, empty, {name: Allowance(one) for name, one in empty.items()})
    assert found == Comparison(True, 0.0, 0.0, WITHIN)


def test_an_allowance_is_added_to_sixteen_roundings_of_the_largest_of_its_vertex():
    reference = np.array([[1.0, -8.0], [inf, 0.5], [0.0, 0.0]])
    allowance = np.array([[0.5, 0.0], [0.0, 0.25], [1.0, 2.0]])
    unit = 16 * 2.0**-24
    assert allowed(reference, allowance) == pytest.approx(
        allowance + unit * np.array([[8.0], [0.5], [FLOOR]]), rel=1e-12
    )
    assert allowed(reference, allowance, floor=0.5) == pytest.approx(
        allowance + unit * np.array([[8.0], [4.0], [4.0]]), rel=1e-12
    )


def test_an_output_whose_bound_is_zero_must_be_equal_whatever_its_allowance():
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_vertices(lambda v: {"x": v.x})
        p.output("x", bound=0.0)

    reference = {"x": np.array([1.0, inf])}
    allowances = {"x": Allowance(np.ones(2))}
    assert compare(program_of(build), reference, reference, allowances).ok
    assert not compare(program_of(build), {"x": np.array([1.0 + 1e-12, inf])}, reference, allowances).ok

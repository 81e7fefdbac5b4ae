"""The measure that compares an engine's answer with the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.language import K
from harness.language.validation import FLOOR, compare, relative_error
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

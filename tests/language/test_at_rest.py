"""How far state may move in one more superstep after a run has settled, against calculations by hand."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import Inputs, K
from harness.language.residual import Share, at_rest, distances, largest_distances, responses
from tests.language.programs import program_of

TOLERANCE = 0.1
inf = float("inf")


def moving(*, bound=1e-3, dtype=float, shape=K, **settling):
    """Return a program with the state ``x``."""

    def build(p, self):
        p.vertex("x", shape, start=1.0, dtype=dtype)
        p.vertex("y", start=0.0)
        p.over_vertices(lambda v: {"x": v.x, "y": v.y})
        p.until_settled(*([self.tolerance] if dtype is float else []), at_most=5, **settling)
        p.output("y" if dtype is bool else "x", bound=bound)

    return program_of(build, tolerance=0.5)


def rests(program, old, new, response=0.0, share=None):
    before, after = {"x": np.asarray(old)}, {"x": np.asarray(new)}
    inputs = Inputs({}, {"tolerance": TOLERANCE, "rate": 1.0})
    return at_rest(program, inputs, before, after, {"x": np.full(after["x"].shape, response)}, share)


@pytest.mark.parametrize(
    ("settling", "old", "new", "response", "ok"),
    [
        ({}, [[1.0, 2.0]], [[1.0, 2.0]], 0.0, True),
        ({}, [[1.0, 2.0]], [[1.1, 1.9]], 0.0, True),
        ({}, [[1.0, 2.0]], [[1.1, 2.1001]], 0.0, False),
        ({}, [[1.0, 2.0]], [[0.8999, 2.0]], 0.0, False),
        ({}, [[1.0, 2.0]], [[1.15, 2.0]], 0.05, True),
        ({}, [[1.0, 2.0]], [[1.1501, 2.0]], 0.05, False),
        ({}, [[inf, 2.0]], [[inf, 2.1]], 0.0, True),
        ({}, [[inf, 2.0]], [[3.0, 2.0]], 0.0, False),
        ({}, [[3.0, 2.0]], [[inf, 2.0]], 0.0, False),
        ({}, [[np.nan, 2.0]], [[1.0, 2.0]], 0.0, False),
        ({"relative": True}, [[9.0, 2.0]], [[10.0, 2.0]], 0.0, True),
        ({"relative": True}, [[8.99, 2.0]], [[10.0, 2.0]], 0.0, False),
        ({"relative": True}, [[-11.0, 2.0]], [[-10.0, 2.0]], 0.0, True),
        ({"relative": True}, [[10.0], [1.0]], [[10.0], [1.2]], 0.0, False),
        ({"relative": True, "norm": "sum"}, [[10.0], [1.0]], [[10.0], [1.2]], 0.0, True),  # 0.2 of 11.2 in all
        ({"relative": True, "norm": "sum"}, [[9.0], [1.0]], [[10.0], [0.9]], 0.0, False),  # 1.1 of 10.9
        ({"relative": True, "norm": "sum"}, [[9.0], [1.0]], [[10.0], [1.0]], 0.0, True),
        ({"relative": True, "norm": "sum"}, [[8.85], [1.0]], [[10.0], [1.0]], 0.05, True),  # 1.1 and 2 * 0.05
        ({"relative": True, "norm": "sum"}, [[8.79], [1.0]], [[10.0], [1.0]], 0.05, False),
        ({"relative": True, "norm": "sum"}, [[5.0, 0.0]], [[5.0, 0.1]], 0.0, False),  # every feature by itself
        ({"bound": 0.0}, [[1.0, 2.0]], [[1.0, 2.0]], 1.0, True),
        ({"bound": 0.0}, [[1.0, 2.0]], [[1.0, 2.0 + 1e-12]], 1.0, False),
        ({"dtype": bool}, [[True, False]], [[True, False]], 0.0, True),
        ({"dtype": bool}, [[True, False]], [[True, True]], 0.0, False),
    ],
)  # fmt: skip
def test_state_may_move_by_the_tolerance_and_what_rounding_explains(settling, old, new, response, ok):
    program = moving(**settling)
    found = rests(program, old, new, response)
    assert found.ok is ok, found
    if not ok:
        assert found.detail.startswith("not at rest after the last superstep: ")
        assert found.error > found.bound


def test_nothing_that_moves_is_at_rest():
    found = at_rest(moving(), Inputs({}, {"tolerance": TOLERANCE}), {}, {}, {})
    assert (found.ok, found.error) == (True, 0.0)


def test_rows_of_a_sample_stand_for_their_class():
    program = moving(relative=True, norm="sum")
    old, new = np.full((4, 1), 10.0), np.array([[10.0], [10.2], [10.4], [13.0]])
    whole = Share(np.array([5.0, 5.0, 5.0, 1.0]), np.array([0, 0, 0, 1]), {"x": np.array([160.0])})
    # Weighted movement: 5 (0 + 0.2 + 0.4) + 3 = 6. Of the first class, the variance is 0.04: 3 * 5 * 4 * 0.04 = 2.4.
    assert whole.standard_error(np.abs(new - old)) == pytest.approx([np.sqrt(2.4)])
    assert rests(program, old, new, 0.0, whole).ok
    for size, ok in ((13.53, True), (13.51, False)):  # 3 standard errors and a tenth of the size are 6.0006 and 5.9986
        given = Share(whole.weight, whole.strata, {"x": np.array([size])})
        assert rests(program, old, new, 0.0, given).ok is ok


def test_a_class_of_one_row_has_its_deviation_from_zero_and_a_whole_class_has_none():
    share = Share(np.array([3.0, 1.0, 1.0]), np.array([0, 1, 1]), {})
    values = np.array([[2.0, 0.0], [5.0, 1.0], [9.0, 7.0]])
    assert share.standard_error(values) == pytest.approx([np.sqrt(3 * 2 * 4.0), 0.0])


def test_responses_are_the_largest_distances_with_slack_and_unaffected_by_infinities():
    exact = {"x": np.array([[1.0, inf], [2.0, 3.0]])}
    others = [{"x": np.array([[1.5, inf], [2.0, 2.0]])}, {"x": np.array([[0.75, 7.0], [inf, 3.5]])}]
    assert distances(exact, others[0])["x"].tolist() == [[0.5, 0.0], [0.0, 1.0]]
    assert largest_distances(exact, others)["x"].tolist() == [[0.5, 0.0], [0.0, 1.0]]
    assert responses(exact, others)["x"].tolist() == [[1.0, 0.0], [0.0, 2.0]]

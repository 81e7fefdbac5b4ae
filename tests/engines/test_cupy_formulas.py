"""Formulas and systems on CuPy's arrays, of which NumPy computes the kernels: those of NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import K, absolute, exp, log, maximum, minimum, sqrt, where
from harness.language.evaluation import Evaluator
from harness.language.expressions import Expression, constant, read
from tests.engines.numpy_cusparse import cusparse, on_device

__all__ = ["cusparse"]


def test_systems_are_solved_with_one_matrix_or_one_right_side_for_all(cusparse):
    arrays, random = cusparse.modules.cupy_arrays.CupyArrays(), np.random.default_rng(3)
    a, b = random.normal(size=(4, 3, 3)).astype(np.float32), random.normal(size=(4, 3)).astype(np.float32)
    for left, right in ((a, b), (a[:1], b), (a, b[:1])):
        wanted = np.linalg.solve(*np.broadcast_arrays(left, right[:, :, None] * np.ones((1, 1, 3), np.float32)))[
            :, :, 0
        ]
        np.testing.assert_allclose(arrays.solve(on_device(left), on_device(right)), wanted, rtol=1e-4)
    for left, right in ((a[:0], b), (a, b[:0]), (a[:0], b[:0])):
        assert arrays.solve(on_device(left), on_device(right)).shape == (0, 3)
    np.testing.assert_allclose(arrays.invert(on_device(a)), np.linalg.inv(a), rtol=1e-4)


def test_truth_values_move_where_they_differ(cusparse):
    arrays = cusparse.modules.cupy_arrays.CupyArrays()
    old, new = (
        on_device(np.array([[0, 1], [1, 1], [0, 0]], np.bool_)),
        on_device(np.array([[0, 1], [1, 0], [0, 0]], np.bool_)),
    )
    assert arrays.moved(old, new, 5.0, False).tolist() == [False, True, False]
    assert arrays.moved(old[:, 0], new[:, 1], 5.0, True).tolist() == [True, True, False]
    numbers = on_device(np.array([[1.0], [1.5]], np.float32))
    assert arrays.moved(numbers, numbers + np.float32(0.25), 0.2, False).tolist() == [True, True]
    assert arrays.moved(numbers, numbers + np.float32(0.25), 0.2, True).tolist() == [False, False]


A, B, FLAG = (read("v", name, (K,), kind) for name, kind in (("a", "float"), ("b", "float"), ("flag", "bool")))
FORMULAS = {
    "arithmetic": (A + B) * (A - B) / B - (-A) ** 3, "functions": exp(A) + log(B) + sqrt(absolute(B)) + absolute(A),
    "whole": Expression("floor", (A,), shape=(K,)) + 0.5,
    "extrema": maximum(A, B) - 2.5 * minimum(A, B), "powers": absolute(B) ** A,
    "comparisons": where(A < B, 1.0, 0.0) + where(A <= B, 2.0, 0.0) + where(A > B, 4.0, 0.0) + where(A >= B, 8.0, 0.0),
    "equality": where(A == B, A, -1.0) + where(A != B, 16.0, B), "conditions": (A < B) & ~FLAG | (FLAG & (B == 0.0)),
    "flags": where(FLAG, A, 1e-30), "infinity": minimum(A, float("inf")) + maximum(B, float("-inf")),
    "no number": where(FLAG, float("nan"), A), "large": where(FLAG, float("inf"), float("-inf")),
    "constants": sqrt(constant(2.0)) * 3.0, "a condition of constants": constant(1.0) < constant(2.0),
    "shared": (A + B) * (A + B) + exp(A + B), "numbers": where(FLAG & constant(True), 1.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_that_of_float64(cusparse, name):
    node, arrays = FORMULAS[name], cusparse.modules.cupy_arrays.CupyArrays()
    special = [0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
    a, b = (part.reshape(-1, 3).astype(np.float32) for part in np.meshgrid(special, special))
    for held in ({"a": a, "b": b, "flag": a < 1}, {"a": a[:1], "b": b, "flag": b < 1}):
        given = {one: on_device(array) for one, array in held.items()}
        evaluate = Evaluator(lambda space, one: given[one], {}, 3, np.float32, arrays=arrays)  # noqa: B023
        wide = {one: array if array.dtype == bool else array.astype(np.float64) for one, array in held.items()}
        wanted = Evaluator(lambda space, one: wide[one], {}, 3)(node)  # noqa: B023
        for _ in range(2):  # the second time with the kernel of the first
            found = evaluate(node)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=3e-6)
    assert found.dtype == (bool if node.dtype == "bool" else np.float32)
    assert len({id(kernel[0]) for kernel in arrays._kernels.values()}) == 1

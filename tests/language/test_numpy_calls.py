"""NumPy on traced values: operators with its scalars are traced, its functions are refused."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

from harness.language import LanguageError, operators
from harness.language.expressions import read
from harness.language.numpy_calls import FUNCTIONS

X = read("v", "x", (), "float")
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.eq]


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda apply: apply.__name__)
@pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2), np.int64(2)], ids=lambda scalar: scalar.dtype.name)
def test_a_scalar_of_numpy_is_a_number_on_both_sides(apply, scalar):
    assert apply(X, scalar).key == apply(X, 2).key
    reflected = {operator.lt: operator.gt, operator.eq: operator.eq}.get(apply)
    expected = reflected(X, 2) if reflected else apply(2, X)
    assert apply(scalar, X).key == expected.key


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: np.sin(X), "NumPy's sin cannot take a traced value; use the functions of harness.language"),
        (lambda: np.exp(X), "use exp from harness.language"),
        (lambda: np.maximum(X, 0), "use maximum from harness.language"),
        (lambda: np.abs(X), "use absolute from harness.language"),
        (lambda: np.sum(X), "use total from harness.language"),
        (lambda: np.where(X > 0, X, 0), "use where from harness.language"),
        (lambda: np.linalg.norm(X), "use norm from harness.language"),
        (lambda: np.add.reduce(X), "NumPy's add cannot take a traced value"),
        (lambda: np.asarray(X), "NumPy's array cannot take a traced value"),
        (lambda: np.ones(3) * X, r"an array of shape \(3,\) cannot appear in a traced expression"),
    ],
)
def test_a_call_of_numpy_names_the_replacement(call, message):
    with pytest.raises(LanguageError, match=message) as met:
        call()
    assert met.value.where.file == __file__


def test_the_functions_listed_are_those_of_the_language():
    import harness.language

    functions = vars(operators).values()
    own = {one.__name__ for one in functions if inspect.isfunction(one) and one.__module__ == operators.__name__}
    assert list(FUNCTIONS) == sorted(name for name in own if not name.startswith("_"))
    assert set(FUNCTIONS) <= set(harness.language.__all__)

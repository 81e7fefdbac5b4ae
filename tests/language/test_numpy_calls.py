"""NumPy on traced values: operators with its scalars are traced, its functions are refused."""

from __future__ import annotations

import inspect
import operator

import numpy as np
import pytest

from harness.language import K, LanguageError, operators
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


@pytest.mark.parametrize(
    ("call", "replacement"),
    [
        (np.sqrt, "sqrt"), (np.log, "log"), (np.amax, "largest"), (np.max, "largest"), (np.amin, "smallest"),
        (np.min, "smallest"), (np.mean, "mean"), (np.any, "any_feature"), (np.all, "all_features"),
        (lambda x: np.minimum(x, 1), "minimum"), (lambda x: np.dot(x, x), "dot"), (lambda x: np.outer(x, x), "outer"),
        (lambda x: np.stack([x, x]), "stack"), (np.transpose, "transpose"), (np.linalg.inv, "inverse"),
    ],
)  # fmt: skip
def test_functions_of_another_name_have_their_replacement_too(call, replacement):
    with pytest.raises(LanguageError, match=f"use {replacement} from harness.language"):
        call(read("v", "x", (K,), "float"))


COMPARISONS = {
    operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le, operator.ne: operator.ne,
}  # fmt: skip


@pytest.mark.parametrize("apply", COMPARISONS, ids=lambda apply: apply.__name__)
def test_comparisons_with_a_scalar_of_numpy_on_the_left_are_turned(apply):
    assert apply(np.float64(2), X).key == COMPARISONS[apply](X, 2).key


def test_a_product_with_an_array_of_numpy_is_the_product_of_the_language_which_takes_no_arrays():
    with pytest.raises(LanguageError, match=r"an array of shape \(3,\) cannot appear in a traced expression"):
        _ = np.ones(3) @ read("v", "x", (3,), "float")


def test_the_functions_listed_are_those_of_the_language():
    import harness.language

    functions = vars(operators).values()
    own = {one.__name__ for one in functions if inspect.isfunction(one) and one.__module__ == operators.__name__}
    assert list(FUNCTIONS) == sorted(name for name in own if not name.startswith("_"))
    assert set(FUNCTIONS) <= set(harness.language.__all__)

"""Every operator with every combination of shapes: its result or its refusal."""

from __future__ import annotations

import itertools

import pytest

from harness.language import (
    K,
    LanguageError,
    absolute,
    all_features,
    any_feature,
    dot,
    exp,
    eye,
    full,
    hadamard_inverse,
    inverse,
    largest,
    log,
    maximum,
    mean,
    minimum,
    norm,
    normalize,
    outer,
    smallest,
    solve_spd,
    sqrt,
    stack,
    total,
    transpose,
    where,
)
from harness.language.expressions import as_shape, read

SHAPES = [(), (K,), (3,), (3, K), (K, 3), (K, K), (3, 3), (2, K)]
PAIRS = list(itertools.product(SHAPES, SHAPES))


def value(shape, name="x", dtype="float"):
    return read("v", name, shape, dtype)


def shape_or_refusal(make):
    try:
        return make().shape
    except LanguageError:
        return "refused"


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "minimum": minimum,
    "maximum": maximum,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "where": lambda a, b: where(value((), "c", "bool"), a, b),
}


@pytest.mark.parametrize("name", BINARY)
def test_elementwise_operations_take_equal_shapes_or_a_scalar(name):
    met = {(a, b): shape_or_refusal(lambda a=a, b=b: BINARY[name](value(a, "a"), value(b, "b"))) for a, b in PAIRS}
    assert met == {(a, b): a if a == b or b == () else b if a == () else "refused" for a, b in PAIRS}


@pytest.mark.parametrize("a", SHAPES)
def test_logic_takes_bools_of_equal_shapes_or_a_scalar(a):
    for b in SHAPES:
        expected = a if a == b or b == () else b if a == () else "refused"
        p, q, x = value(a, "a", "bool"), value(b, "b", "bool"), value(a, "a")
        assert shape_or_refusal(lambda p=p, q=q: p & q) == expected
        assert shape_or_refusal(lambda p=p, q=q: p | q) == expected
        assert shape_or_refusal(lambda x=x, q=q: x & q) == "refused"
        assert (~value(a, "a", "bool")).shape == a


@pytest.mark.parametrize("a", SHAPES)
def test_products_need_agreeing_inner_dimensions(a):
    for b in SHAPES:
        ranks, agree = (len(a), len(b)), bool(a) and bool(b) and a[-1] == b[0]
        x, y = value(a, "a"), value(b, "b")
        assert shape_or_refusal(lambda x=x, y=y: x @ y) == (a[:-1] + b[1:] if agree else "refused")
        assert shape_or_refusal(lambda x=x, y=y: dot(x, y)) == (() if agree and ranks == (1, 1) else "refused")
        assert shape_or_refusal(lambda x=x, y=y: outer(x, y)) == (a + b if ranks == (1, 1) else "refused")
        square = len(a) == 2 and a[0] == a[1]
        solvable = square and len(b) == 1 and a[0] == b[0]
        assert shape_or_refusal(lambda x=x, y=y: solve_spd(x, y)) == (b if solvable else "refused")
        stacks = a == b and len(a) < 2
        assert shape_or_refusal(lambda x=x, y=y: stack(x, y)) == ((2, *a) if stacks else "refused")


@pytest.mark.parametrize("a", SHAPES)
def test_operations_on_one_value(a):
    x, flag = value(a), value(a, "flag", "bool")
    for same in (exp, log, sqrt, absolute, abs, hadamard_inverse, lambda v: -v):
        assert same(x).shape == a
    for reduction in (total, largest, smallest, mean, norm, lambda v: norm(v, "l1"), lambda v: norm(v, "max")):
        assert shape_or_refusal(lambda r=reduction: r(x)) == (() if a else "refused")
    for reduction in (any_feature, all_features):
        assert shape_or_refusal(lambda r=reduction: r(flag)) == (() if a else "refused")
        assert shape_or_refusal(lambda r=reduction: r(x)) == "refused"
    for kind in ("l1", "l2", "softmax"):
        assert shape_or_refusal(lambda k=kind: normalize(x, k)) == (a or "refused")
    square = len(a) == 2 and a[0] == a[1]
    assert shape_or_refusal(lambda: inverse(x)) == (a if square else "refused")
    for flip in (transpose, lambda v: v.T):
        assert shape_or_refusal(lambda f=flip: f(x)) == (a[::-1] if len(a) == 2 else "refused")
    known = bool(a) and a[0] is not K
    assert shape_or_refusal(lambda: x[1]) == (a[1:] if known else "refused")
    assert shape_or_refusal(lambda: x[7]) == "refused"
    assert shape_or_refusal(lambda: full((K, 2), x)) == ((K, 2) if a == () else "refused")
    assert shape_or_refusal(lambda: x.without(x)) == "refused"
    assert read("src", "x", a, "float").without(x).shape == a


def test_conditions_and_numbers():
    x, flag = value((K,)), value((), "flag", "bool")
    assert shape_or_refusal(lambda: where(x, x, x)) == "refused"
    assert (where(flag, x > 0, flag).dtype, where(flag, flag, 1.0).dtype) == ("bool", "float")
    assert ((x > 0).dtype, (x + flag).dtype, (flag * 2).dtype) == ("bool", "float", "float")
    for mixed in (2 * x, 2 + x, 2 - x, 2 / x, 2**x, x**2):
        assert mixed.shape == (K,)
    assert eye().shape == (K, K)
    assert eye(3).shape == (3, 3)
    assert full(K, 1.0).shape == (K,)
    for wrong in (lambda: normalize(x, "l3"), lambda: norm(x, "l3"), lambda: stack(), lambda: full(0, 1.0)):
        assert shape_or_refusal(wrong) == "refused"


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        (K, (K,)), (1, (1,)), (3, (3,)), ((), ()), ((K, 3), (K, 3)), ((2, K), (2, K)), ((K, K, K), "at most two"),
        ((1, 2, 3), "at most two dimensions, not 3"), ((1, 1, 1, 1), "not 4"), (0, "K or a positive int, not 0"),
        (-1, "not -1"), ((K, 0), "not 0"), (2.0, "not 2.0"), ("K", "not 'K'"), (None, "not None"),
    ],
)  # fmt: skip
def test_a_shape_has_at_most_two_dimensions_that_are_K_or_positive(shape, found):
    if isinstance(found, tuple):
        assert as_shape(shape) == found
        assert full(shape, 1.0).shape == found
    else:
        with pytest.raises(LanguageError, match=found):
            as_shape(shape)


def test_a_scalar_of_numpy_counts_as_a_number():
    import numpy as np

    x = value((K,))
    assert (np.float32(0.5) * x).key == (0.5 * x).key
    assert (x - np.int64(2)).key == (x - 2).key


def test_equal_structure_is_one_node_and_order_counts():
    a, b = value((K,), "a"), value((K,), "b")
    assert (a + b).key == (value((K,), "a") + value((K,), "b")).key
    assert (a - b).key != (b - a).key
    assert normalize(a).key != normalize(a, "l2").key

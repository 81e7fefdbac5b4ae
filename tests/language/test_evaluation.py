"""Every operation, compared with plain NumPy, row by row, in float64 and float32."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.language import (
    K,
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
    where,
)
from harness.language.evaluation import Evaluator
from harness.language.expressions import parameter, read

FEATURES, M, ROWS = 3, 2, 5
SHAPES = {"s": (), "t": (), "x": (K,), "y": (K,), "m": (M,), "R": (M, K), "A": (K, K), "B": (K, K)}
VALUE = {name: read("v", name, shape, "float") for name, shape in SHAPES.items()}
s, t, x, y, m, R, A, B = VALUE.values()
flag = read("v", "flag", (), "bool")
alpha = parameter("alpha", "float")


def drawn(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {K: FEATURES}
    found = {
        name: rng.uniform(0.5, 2.0, (ROWS, *(sizes.get(d, d) for d in shape))).astype(dtype)
        * rng.choice([-1, 1], (ROWS, *(1,) * len(shape))).astype(dtype)
        for name, shape in SHAPES.items()
    }
    return found | {"flag": np.arange(ROWS) % 2 == 0}


def evaluate(expression, data, dtype=np.float64):
    values = Evaluator(lambda space, name: data[name], {"alpha": 0.25}, FEATURES, dtype)(expression)
    rows = len(next(iter(data.values())))
    return np.broadcast_to(values, (rows, *values.shape[1:]))


def spd(matrix):
    return matrix @ matrix.T + 3 * np.eye(len(matrix))


# An expression of the language, and the same for one row r of plain arrays.
CASES = {
    "add": (x + s, lambda r: r.x + r.s),
    "subtract": (1 - x, lambda r: 1 - r.x),
    "multiply matrix by scalar": (s * A, lambda r: r.s * r.A),
    "divide": (x / y, lambda r: r.x / r.y),
    "power": (abs(x) ** s, lambda r: np.abs(r.x) ** r.s),
    "negate": (-R, lambda r: -r.R),
    "exp": (exp(x), lambda r: np.exp(r.x)),
    "log": (log(abs(A)), lambda r: np.log(np.abs(r.A))),
    "sqrt": (sqrt(abs(x)), lambda r: np.sqrt(np.abs(r.x))),
    "hadamard inverse": (hadamard_inverse(R), lambda r: 1 / r.R),
    "minimum": (minimum(x, s), lambda r: np.minimum(r.x, r.s)),
    "maximum": (maximum(A, B), lambda r: np.maximum(r.A, r.B)),
    "where of a scalar condition": (where(flag, x, 0.0), lambda r: r.x if r.flag else 0 * r.x),
    "where of features": (where(x > y, x, s), lambda r: np.choose(r.x > r.y, [np.full(FEATURES, r.s), r.x])),
    "compared": ((x <= y) | ~(x != s), lambda r: (r.x <= r.y) | (r.x == r.s)),
    "equal": ((s == s) & (s >= t) & flag, lambda r: bool(r.s >= r.t) and bool(r.flag)),
    "bool counts": (flag + 1, lambda r: float(r.flag) + 1),
    "total": (total(A), lambda r: r.A.sum()),
    "largest": (largest(R), lambda r: r.R.max()),
    "smallest": (smallest(x), lambda r: r.x.min()),
    "mean": (mean(R), lambda r: r.R.mean()),
    "any": (any_feature(x > 1), lambda r: (r.x > 1).any()),
    "all": (all_features(A > -1), lambda r: (r.A > -1).all()),
    "l1": (norm(x, "l1"), lambda r: np.linalg.norm(r.x, 1)),
    "l2": (norm(A), lambda r: np.linalg.norm(r.A)),
    "max norm": (norm(x, "max"), lambda r: np.linalg.norm(r.x, np.inf)),
    "dot": (dot(x, y), lambda r: r.x @ r.y),
    "dot by @": (x @ y, lambda r: r.x @ r.y),
    "outer": (outer(m, x), lambda r: np.outer(r.m, r.x)),
    "vector matrix": (m @ R, lambda r: r.m @ r.R),
    "matrix vector": (R @ x, lambda r: r.R @ r.x),
    "matrix matrix": (R @ A, lambda r: r.R @ r.A),
    "transpose": (R.T @ m, lambda r: r.R.T @ r.m),
    "index of a matrix": (R[1], lambda r: r.R[1]),
    "index of a vector": (m[0], lambda r: r.m[0]),
    "stacked scalars": (stack(s, 2.0, t), lambda r: np.array([r.s, 2.0, r.t])),
    "stacked vectors": (stack(x, y), lambda r: np.stack([r.x, r.y])),
    "full": (full((M, K), s), lambda r: np.full((M, FEATURES), r.s)),
    "eye": (eye(K) + A, lambda r: np.eye(FEATURES) + r.A),
    "eye of ints": (eye(M) @ m, lambda r: r.m),
    "parameter": (alpha * x, lambda r: 0.25 * r.x),
    "normalize l1": (normalize(x), lambda r: r.x / np.abs(r.x).sum()),
    "normalize l2": (normalize(x, "l2"), lambda r: r.x / np.linalg.norm(r.x)),
    "normalize rows": (normalize(R), lambda r: np.stack([row / np.abs(row).sum() for row in r.R])),
    "softmax": (normalize(x, "softmax"), lambda r: scipy.special.softmax(r.x)),
    "inverse": (inverse(A @ A.T + 3 * eye(K)), lambda r: np.linalg.inv(spd(r.A))),
    "solve": (solve_spd(A @ A.T + 3 * eye(K), x), lambda r: np.linalg.inv(spd(r.A)) @ r.x),
    "solve of a constant matrix": (solve_spd(2 * eye(K), x), lambda r: r.x / 2),
}  # fmt: skip


class Row:
    def __init__(self, data, row):
        self.__dict__ = {name: values[row] for name, values in data.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_operation_equals_numpy_row_by_row(name, dtype):
    expression, plain = CASES[name]
    data = drawn(dtype)
    values = evaluate(expression, data, dtype)
    assert values.dtype == (np.bool_ if expression.dtype == "bool" else dtype)
    expected = np.stack([np.asarray(plain(Row(data, row))) for row in range(ROWS)])
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, rtol=1e-12 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("name", CASES)
def test_no_rows_give_no_values(name):
    none = {key: values[:0] for key, values in drawn().items()}
    values = Evaluator(lambda space, key: none[key], {"alpha": 0.25}, FEATURES)(CASES[name][0])
    assert len(values) == 0 or CASES[name][0].args == ()


ELEMENTWISE = {
    "+": (lambda a, b: a + b, np.add), "-": (lambda a, b: a - b, np.subtract), "*": (lambda a, b: a * b, np.multiply),
    "/": (lambda a, b: a / b, np.divide), "<": (lambda a, b: a < b, np.less), "==": (lambda a, b: a == b, np.equal),
    "min": (minimum, np.minimum), "max": (maximum, np.maximum),
}  # fmt: skip


@given(st.data(), st.sampled_from([*ELEMENTWISE]), st.sampled_from(["xy", "sx", "xs", "AB", "sA"]), st.booleans())
@settings(max_examples=150)
def test_elementwise_operations_on_any_floats_broadcast_only_scalars(data, name, operands, single):
    dtype = np.float32 if single else np.float64
    rows = data.draw(st.integers(0, 4))
    sizes = {"s": (), "x": (FEATURES,), "y": (FEATURES,), "A": (FEATURES, FEATURES), "B": (FEATURES, FEATURES)}
    drawn_arrays = [data.draw(hnp.arrays(dtype, (rows, *sizes[key]))) for key in operands]
    ours, numpys = ELEMENTWISE[name]
    read_from = dict(zip(operands, drawn_arrays, strict=True))
    values = Evaluator(lambda space, key: read_from[key], {}, FEATURES, dtype)(ours(*(VALUE[key] for key in operands)))
    rank = max(a.ndim for a in drawn_arrays)
    a, b = (array.reshape(array.shape + (1,) * (rank - array.ndim)) for array in drawn_arrays)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(values, numpys(a, b))


def test_a_zero_vector_stays_zero_and_its_softmax_is_uniform():
    zero = {"x": np.zeros((1, FEATURES))}
    for kind in ("l1", "l2"):
        assert not evaluate(normalize(x, kind), zero).any()
    np.testing.assert_allclose(evaluate(normalize(x, "softmax"), zero), 1 / FEATURES)


def test_softmax_of_large_values_does_not_overflow():
    large = {"x": np.array([[1e4, 1e4 - 1, -1e4]])}
    np.testing.assert_allclose(evaluate(normalize(x, "softmax"), large), scipy.special.softmax(large["x"], axis=1))


def test_a_singular_matrix_gives_nan_and_spoils_no_other():
    data = {"A": np.stack([np.eye(3), np.ones((3, 3)), 2 * np.eye(3)]), "x": np.ones((3, 3))}
    inverses = evaluate(inverse(A), data)
    np.testing.assert_array_equal(inverses[[0, 2]], [np.eye(3), np.eye(3) / 2])
    assert np.isnan(inverses[1]).all()
    solutions = evaluate(solve_spd(A, x), data)
    np.testing.assert_array_equal(solutions[[0, 2]], [np.ones(3), np.ones(3) / 2])
    assert np.isnan(solutions[1]).all()


def test_nan_goes_through_minimum_and_reductions():
    data = {"x": np.array([[1.0, np.nan, 3.0]]), "y": np.ones((1, 3))}
    np.testing.assert_array_equal(evaluate(minimum(x, y), data), [[1.0, np.nan, 1.0]])
    assert np.isnan(evaluate(largest(x), data)).all()

"""Products as sums of logarithms, compared with exact rational arithmetic and plain products."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.language.products import LogProduct
from harness.language.segments import segment_product

factors = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=8)


def product(values):
    values = np.asarray(values, np.float64)
    return segment_product(values, np.array([0, len(values)]))


@given(factors)
def test_a_scalar_product_is_the_product_with_its_sign_and_zeros(values):
    np.testing.assert_allclose(product(values).value(), [math.prod(values)], rtol=1e-12)


@given(factors, st.data())
def test_without_a_factor_is_the_product_of_the_others_even_if_it_was_zero(values, data):
    out = data.draw(st.integers(0, len(values) - 1))
    rest = product(values).without(np.array([values[out]])).value()
    np.testing.assert_allclose(rest, [math.prod(values[:out] + values[out + 1 :])], rtol=1e-12)


@given(st.lists(st.tuples(*[st.sampled_from([-2.0, 0.0, 0.5, 1.0])] * 3), min_size=1, max_size=6))
def test_a_product_of_vectors_is_scaled_to_a_largest_magnitude_of_one(rows):
    exact = np.array([math.prod(column) for column in zip(*rows, strict=True)])
    largest = np.abs(exact).max()
    np.testing.assert_allclose(product(rows).value()[0], exact / largest if largest else exact, rtol=1e-12)


def test_an_empty_product_is_one():
    none = segment_product(np.zeros((0, 2)), np.array([0, 0]))
    assert none.value().tolist() == [[1.0, 1.0]]


def test_a_hub_of_a_hundred_thousand_factors_neither_overflows_nor_loses_its_digits():
    count = 100_000
    rng = np.random.default_rng(0)
    powers = rng.integers(1, 40, (count, 2))
    powers[:, 1] = powers[rng.permutation(count), 0]  # the same factors in another order ...
    powers[0, 1] += 1  # ... but with one that is larger by a tenth
    value = product(np.stack([(powers[:, 0]) / 10.0, powers[:, 1] / 10.0], axis=1)).value()[0]
    exact = Fraction(int(powers[0, 1] - 1), int(powers[0, 1]))
    np.testing.assert_allclose(value, [float(exact), 1.0], rtol=1e-9)


def test_taking_one_factor_out_of_a_hub_is_exact_to_rounding():
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.01, 1.0, (100_000, 3))
    expected = product(rows[1:]).value()
    np.testing.assert_allclose(product(rows).without(rows[:1]).value(), expected, rtol=1e-9)


def test_nan_stays_nan():
    assert np.isnan(product([1.0, math.nan]).value()).all()


def test_parts_can_be_read_replaced_and_copied_apart():
    whole = LogProduct.of(np.array([2.0, 3.0, -5.0]))
    other = whole.copy()
    other.set(slice(0, 1), LogProduct.of(np.array([7.0])))
    np.testing.assert_allclose(other.at(np.array([2, 0])).value(), [-5.0, 7.0])
    np.testing.assert_allclose(whole.value(), [2.0, 3.0, -5.0])

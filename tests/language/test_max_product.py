"""The product of a vector and a matrix with the maximum in place of the sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Graph
from harness.language import K, LanguageError, max_product
from harness.language.arrays import NUMPY
from harness.language.expressions import read
from tests.language.programs import program_of, run

numbers = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0, np.inf])


@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_every_element_is_the_largest_of_its_products(n, m, data):
    a = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    b = np.array(data.draw(st.lists(numbers, min_size=n * m, max_size=n * m))).reshape(n, m)
    with np.errstate(invalid="ignore"):
        expected = (a[:, None] * b).max(axis=0)
        np.testing.assert_array_equal(NUMPY.largest_products(a[None], b[None])[0], expected)
        np.testing.assert_array_equal(NUMPY.largest_products(np.stack([a, a]), b[None]), [expected, expected])
        np.testing.assert_array_equal(NUMPY.largest_products(a[None], np.stack([b, b])), [expected, expected])


def test_messages_may_be_largest_products():
    def build(p, self):
        p.vertex("x", K)
        p.edge("m", (K, K))
        p.vertex("y", K, start=0.0)
        p.over_edges(into="best", reduce="sum")(lambda src, edge: max_product(src.x, edge.m))
        p.over_vertices(lambda v: {"y": v.best})
        p.repeat(1)
        p.output("y", bound=1e-6)

    graph = Graph.from_edges([0, 1], [1, 0], name="pair")
    m = np.array([[[1, 4], [3, 2]], [[0, -1], [5, 1]]], np.float32)
    x = np.array([[1, 2], [2, 1]], np.float32)
    assert run(program_of(build), graph, 2, x=x, m=m).values("y").tolist() == [[5, 1], [6, 4]]


@pytest.mark.parametrize(("left", "right"), [((K,), (K,)), ((K,), (3, K)), ((K, K), (K, K)), ((), (K, K))])
def test_other_shapes_are_refused(left, right):
    with pytest.raises(LanguageError, match=r"max_product\(\) (got the shapes|takes vectors)"):
        max_product(read("v", "a", left, "float"), read("v", "b", right, "float"))


def test_it_is_spelt_as_it_is_written():
    made = max_product(read("v", "a", (K,), "float"), read("edge", "m", (K, 3), "float"))
    assert made.shape == (3,)
    assert repr(made) == "max_product(v.a, edge.m)"

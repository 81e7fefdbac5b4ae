"""Sums over ranges of rows, and the injection of errors, on all values of a float."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.language import Inputs, K, trace
from harness.language.arrays import Arrays
from harness.language.program import IDENTITY, REDUCERS
from harness.language.reference import ReferenceRun
from harness.language.rounding import RoundedRun, off
from harness.language.segments import segment_reduce, segment_sums
from tests.language.programs import program_of

OFFSETS = np.array([0, 0, 3, 4, 4, 9, 9])  # empty ranges at both ends and in between


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
def test_sums_equal_those_of_reduceat(shape, dtype):
    drawn = np.random.default_rng(3).integers(0, 2 if dtype is np.bool_ else 9, (9, *shape)).astype(dtype)
    for values in (drawn, np.broadcast_to(drawn[:1], drawn.shape)):
        sums = segment_sums(values, OFFSETS)
        assert sums.dtype == np.float64
        np.testing.assert_array_equal(sums, segment_reduce(values, OFFSETS, "sum"))


@pytest.mark.parametrize("offsets", [[0, 9], [0, 0, 7, 7], OFFSETS], ids=str)
@pytest.mark.parametrize(("reducer", "reduce"), [("sum", np.add), ("prod", np.multiply), ("min", np.minimum)])
@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
def test_ranges_are_reduced_in_float64(shape, reducer, reduce, offsets):
    values = np.random.default_rng(3).random((9, *shape), np.float32)
    found = segment_reduce(values, np.asarray(offsets), reducer)
    assert found.dtype == np.float64
    for row, first, last in zip(found, offsets[:-1], offsets[1:], strict=True):
        expected = np.full(shape, IDENTITY[reducer])
        for value in values[first:last]:
            expected = reduce(expected, value.astype(np.float64))
        np.testing.assert_allclose(row, expected, rtol=1e-14)


def test_sums_of_values_that_are_not_finite_stay_in_their_range_and_column():
    values = np.ones((9, 2))
    values[1, 0], values[4:6, 1], values[3, 1] = np.inf, (np.inf, -np.inf), np.nan
    expected = np.array([[0, 0], [np.inf, 3], [1, np.nan], [0, 0], [5, np.nan], [0, 0]])
    np.testing.assert_array_equal(segment_sums(values, OFFSETS), expected)


def test_sums_over_no_rows_are_zero():
    np.testing.assert_array_equal(segment_sums(np.empty((0, 2)), np.zeros(4, int)), np.zeros((3, 2)))


def test_errors_leave_infinities_and_nan_unchanged():
    values = np.array([1.0, np.inf, -np.inf, np.nan, -2.0])
    np.testing.assert_array_equal(off(values, np.array([0.5])), [1.5, np.inf, -np.inf, np.nan, -1.0])


def test_errors_of_values_whose_sum_overflows_are_injected():
    values = np.array([1e308, 1e308, 4.0])
    np.testing.assert_array_equal(off(values, np.array([0.25])), [1.25e308, 1.25e308, 5.0])


def test_an_error_has_its_factor_and_magnitude():
    values, signs = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([[1.0, -1.0]])
    np.testing.assert_array_equal(off(values, np.array([[0.5], [0.25]]), factor=signs), [[1.5, 0.5], [2.5, 1.5]])
    np.testing.assert_array_equal(off(values, signs, np.full((2, 2), 8.0)), [[9, -7], [10, -6]])
    np.testing.assert_array_equal(off(np.array([True, False]), np.array([0.5])), [1.5, 0.0])


def test_sent_values_lag_once_per_change_of_the_property(monkeypatch):
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], name="ring")
    algorithm = PageRank()
    run, lagged = RoundedRun(trace(algorithm), graph, 2), []
    lagging = RoundedRun._lagging
    monkeypatch.setattr("harness.language.reference.BLOCK_ELEMENTS", 1)  # one block per vertex
    monkeypatch.setattr(RoundedRun, "_lagging", lambda *given: lagged.append(given[1]) or lagging(*given))
    run.reset(algorithm.inputs(graph, 2))
    for _ in range(3):
        run.superstep()
    assert lagged.count("rank") == 3


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)], ids=str)
def test_rows_are_reduced_with_the_identity_for_none(reducer, count, shape):
    rows = np.random.default_rng(count).uniform(0.5, 2, (count, *shape)).astype(np.float32)
    found = Arrays().over_rows(reducer, rows)
    reduce = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[reducer].reduce
    empty = {"sum": 0.0, "prod": 1.0, "min": np.inf, "max": -np.inf}[reducer]
    expected = reduce(rows.astype(np.float64), axis=0) if count else np.full(shape, empty)
    assert (found.shape, found.dtype) == (shape, np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    run = ReferenceRun(whole(reducer), Graph.from_edges([], [], num_vertices=count, name="bare"), 3)
    run.reset(Inputs({"x": np.ones((count, 3), np.float32)}))
    run.run_stages()
    assert run.values("all").tolist() == [[float(count) if reducer == "sum" and count else 1.0 if count else empty] * 3]


def whole(reducer):
    def build(p, self):
        p.vertex("x", K)
        p.vertex("y", K, start=0.0)
        p.over_graph(into="all", reduce=reducer)(lambda v: v.x)
        p.over_vertices(lambda v, graph: {"y": graph.all})
        p.repeat(1)
        p.output("y", bound=1e-6)

    return program_of(build)

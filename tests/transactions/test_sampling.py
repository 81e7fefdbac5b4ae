"""Estimates of a kernel's counts from a sample of its blocks."""

from __future__ import annotations

import numpy as np
import pytest

from harness.transactions import Loads
from harness.transactions.sampling import SampledKernel, estimated

RANDOM = np.random.default_rng(3)
EDGES = (1000 * RANDOM.pareto(1.5, 2000)).astype(np.int64) + 1  # for each block: a few blocks have hubs
COUNTS = np.column_stack([10.0 + 3 * EDGES, 8.0 + 5 * EDGES])


def sample(first: int, last: int, every: int, array: str = "edges") -> SampledKernel:
    """Return a kernel of the blocks ``first`` to ``last - 1``, of which each ``every``-th is sampled."""
    those = np.arange(first, last, every)
    return SampledKernel("kernel", last - first, COUNTS[those], EDGES[those].astype(float), array)


def test_all_blocks_are_summed():
    (total,) = estimated([sample(0, 2000, 1)], {"edges": int(EDGES.sum())})
    assert total == pytest.approx(COUNTS.sum(axis=0))


def test_a_sample_is_corrected_for_the_edges_that_it_has():
    whole, (total,) = COUNTS.sum(axis=0), estimated([sample(0, 2000, 50)], {"edges": int(EDGES.sum())})
    (uncorrected,) = estimated([sample(0, 2000, 50, array="")], {"edges": int(EDGES.sum())})
    assert total == pytest.approx(whole, rel=1e-6)  # the counts are linear in the edges
    assert uncorrected != pytest.approx(whole, rel=0.1)


def test_kernels_that_share_the_edges_are_corrected_together():
    totals = estimated([sample(0, 1000, 20), sample(1000, 2000, 20)], {"edges": int(EDGES.sum())})
    assert sum(totals) == pytest.approx(COUNTS.sum(axis=0), rel=1e-6)


def test_edges_that_are_read_twice_are_expected_twice():
    totals = estimated([sample(0, 2000, 2), sample(0, 2000, 3)], {"edges": int(EDGES.sum())})
    assert sum(totals) == pytest.approx(2 * COUNTS.sum(axis=0), rel=1e-6)


def test_efficiency_is_that_of_all_sectors():
    counted = Loads(1, 4, 128) + Loads(1, 32, 128).times(10)
    assert counted == Loads(11, 324, 11 * 128)
    assert counted.efficiency == pytest.approx(11 * 128 / (324 * 32))
    assert Loads().efficiency is None

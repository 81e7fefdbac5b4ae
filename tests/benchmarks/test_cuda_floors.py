"""Lower bounds of times, counted by hand."""

from __future__ import annotations

import pytest

from harness.graph.generators import rmat
from harness.language import trace
from tests.benchmarks.cuda_cells import Cell, Timed
from tests.benchmarks.cuda_floors import Rates, atomic_operations, least_bytes
from tests.benchmarks.workloads import SparseProduct

GRAPH = rmat(scale=6, edge_factor=4, symmetric=True, max_weight=3)
RATES = Rates(cache=1000, bytes_per_ms=1e3, cached_bytes_per_ms=1e6, singles_per_ms=1e2, fours_per_ms=50, launch_ms=2.0)


@pytest.mark.parametrize("k", [1, 4, 33])
def test_least_bytes_of_a_product(k):
    """Id and weight of every edge; an offset, a row that is read and one that is written for every vertex."""
    expected = 8 * GRAPH.num_edges + (4 + 2 * 4 * k) * GRAPH.num_vertices
    assert least_bytes(trace(SparseProduct()), GRAPH, k) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, False)),
        ({"direction": "push"}, (2 * GRAPH.num_edges, True)),
        ({"direction": "push", "vector_width": 1}, (6 * GRAPH.num_edges, False)),
        ({"direction": "push", "feature_aware": False}, (6 * GRAPH.num_edges, False)),
    ],
)
def test_atomic_operations_of_a_product(options, expected):
    assert atomic_operations(Cell("it", SparseProduct(), 6, options), GRAPH) == expected


def test_a_floor_is_the_largest_of_its_parts():
    pulled, pushed = (Cell("it", SparseProduct(), 1, {"direction": way}) for way in ("pull", "push"))
    moved = least_bytes(pulled.program, GRAPH, 1) / 1e3
    assert RATES.floor_ms(pulled, GRAPH, Timed(1.0, 0)) == moved
    assert RATES.floor_ms(pulled, GRAPH, Timed(1.0, 0, launches=1000)) == 2000.0
    assert RATES.floor_ms(pushed, GRAPH, Timed(1.0, 0)) == max(moved, GRAPH.num_edges / 50)

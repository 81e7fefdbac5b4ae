"""The sparse matrices for libraries: hubs cut into runs, and space for parallel edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from engines.libraries.matrix import Pattern


class Host:
    """Arrays that stay in host memory."""

    @staticmethod
    def upload(values):
        return values


def with_room_alone(values, columns, offsets, shape):
    """Accept a CSR matrix with cuSPARSE's limit: at most as many entries as rows times columns."""
    assert len(offsets) == shape[0] + 1
    assert len(values) == len(columns) == offsets[-1] <= shape[0] * shape[1]
    return scipy.sparse.csr_array((values, columns, offsets), shape=shape)


@pytest.mark.parametrize("run", [None, 4])
@pytest.mark.parametrize(("degrees", "width"), [((7,), 1), ((2000,), 1), ((0, 9, 3), 2), ((3, 0, 5, 1), 3), ((0,), 1)])
def test_parallel_edges_have_room(degrees, width, run):
    draw = np.random.default_rng(len(degrees))
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    columns, values = draw.integers(0, width, offsets[-1]), draw.random(offsets[-1])
    dense = draw.random((width, 3))
    rows = np.repeat(np.arange(len(degrees)), degrees)
    expected = np.zeros((len(degrees), 3))
    np.add.at(expected, rows, values[:, None] * dense[columns])
    found = Pattern.of(columns, offsets, width, Host(), with_room_alone, run).matrix(values) @ dense
    np.testing.assert_allclose(found, expected, rtol=1e-6)

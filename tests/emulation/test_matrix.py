"""Rows of the matrix of CUDA devices on an emulated one: some with few features; all of them under ``-m full``."""

from __future__ import annotations

import pytest

from tests.emulation.device import THREADS
from tests.engines.test_matrix_on_cuda import LIBRARIES, ROWS, check, label

EMULATED = [row for row in ROWS if row.engine not in LIBRARIES]
TODAY = [row for row in EMULATED if row.features <= 8 and "hub" not in row.graphs][::13]


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=() if row in TODAY else (pytest.mark.full,), id=label(row)) for row in EMULATED]
)
def test_answers(row, emulated):
    block = {"block_size": THREADS} if row.engine == "onyx" else {}
    check(row._replace(options=row.options | block), emulated)

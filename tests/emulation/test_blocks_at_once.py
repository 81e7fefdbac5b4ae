"""Kernels of many supersteps with several blocks that run at the same time, in threads of the host.

Elsewhere blocks of the emulated device run one after another, so that a kernel with a global barrier has one block.
Here a block may be late behind any fence (runtime.cpp), and shared memory and atomic operations are real.
"""

from __future__ import annotations

import pytest

from harness.emulation.compiler import unavailable
from tests.emulation.device import emulate
from tests.engines import test_matrix_on_cuda as on_cuda_matrix
from tests.engines import test_persistent_on_cuda as on_cuda

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())
BLOCKS = 3
SHORT = [("bfs", "pull edges", 1), ("pagerank", "pull", 1), ("sssp", "push", 3), ("kcore", "all owners", 3)]


@pytest.mark.parametrize(
    ("name", "way", "features"),
    [pytest.param(*case, marks=() if case in SHORT else pytest.mark.full) for case in on_cuda.CASES],
)
def test_a_persistent_kernel_has_the_run_of_single_supersteps(name, way, features, monkeypatch):
    on_cuda.test_the_run_is_the_same(name, way, features, emulate(monkeypatch, blocks=BLOCKS), monkeypatch)


MATRIX = [
    *(row for row in on_cuda_matrix.ADAPTIVE if row.options.get("persistent")),
    *(row for row in on_cuda_matrix.ROWS if row.engine == "simdx"),
]


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=() if row in MATRIX[::20] else pytest.mark.full) for row in MATRIX],
    ids=[on_cuda_matrix.label(row) for row in MATRIX],
)  # fmt: skip
def test_answers_of_supersteps_that_push_or_pull_and_of_pulls_by_lists(row, monkeypatch):
    on_cuda_matrix.check(row, emulate(monkeypatch, blocks=BLOCKS))

"""The benchmark against the originals, on an emulated device."""

from __future__ import annotations

import pytest

from harness.graph.generators import rmat
from tests.benchmarks import cuda_originals
from tests.emulation.conftest import emulated  # noqa: F401  a fixture


def as_if_timed(work, stream=None):
    """One millisecond for whatever is done."""
    return 1.0, work()


@pytest.mark.usefixtures("emulated")
def test_every_style_runs_every_problem(monkeypatch):
    monkeypatch.setattr(cuda_originals, "milliseconds", as_if_timed)
    monkeypatch.setattr(cuda_originals, "release", lambda engines: [engine.close() for engine in engines])
    graph = rmat(scale=6, edge_factor=6, symmetric=True)
    found = list(cuda_originals.lines("rmat", graph, list(cuda_originals.STYLES), kernels=True))
    rows = [line for line in found if not line.startswith(" ")]
    assert len(rows) == 3 * len(cuda_originals.STYLES)
    assert not [line for line in rows if "WRONG" in line]
    launched = [line for line in found if line.startswith(" ")]
    fused = [line for line in launched if "one launch for the whole run" in line]
    assert len(launched) == len(rows)
    assert len(fused) == sum(" fused " in line for line in rows) == 3
    assert all("end_of_superstep" in line for line in launched if line not in fused)

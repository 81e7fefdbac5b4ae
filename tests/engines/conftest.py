"""What the tests of engines share as fixtures."""

from __future__ import annotations

import pytest

from harness.contract import Device


@pytest.fixture(scope="module")
def device():
    """The first CUDA device; the test is skipped where there is none."""
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no CUDA device: {error}")
    assert count > 0
    return Device("cuda", 0)

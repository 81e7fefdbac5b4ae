"""Fixtures of the engine tests."""

from __future__ import annotations

import pytest

from harness.contract import Device


@pytest.fixture(scope="module")
def device():
    """Return the first CUDA device; skip the test if there is none."""
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no CUDA device: {error}")
    assert count > 0
    return Device("cuda", 0)

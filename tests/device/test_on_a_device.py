"""The driver of a real CUDA device, compared with CuPy."""

from __future__ import annotations

import numpy as np
import pytest

from harness.device.driver import cuda_unavailable, describe, synchronize

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


def test_a_device_is_described_as_by_others(cupy):
    found, device = describe(0), cupy.cuda.Device(0)
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    assert found.name == properties["name"].decode()
    assert found.memory == properties["totalGlobalMem"]
    assert found.compute_capability.replace(".", "") == device.compute_capability
    assert "device.index" in cuda_unavailable(99)


def test_waiting_covers_streams_of_others(cupy):
    """Kernels queued on another stream have ended once the device has been waited for."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        values = cupy.full(1 << 24, 1.0, np.float32)
        for _ in range(400):
            values = values * 1.0000001
    ended = stream.done
    synchronize(0)
    assert stream.done
    assert not ended, "the queue was too short to tell"

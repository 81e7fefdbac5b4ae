"""Bytes that a GPU exchanges with its host, as its own counters report."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness.campaign.gpu import gpu_uuid

_TRANSMITTED, _RECEIVED = 197, 198  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES, ..._RX_BYTES
_WRAP = 1 << 32


def link_bytes(device: int, work: Callable[[], object]) -> int:
    """Return the bytes over the host link while some work runs, in the direction with more of them.

    ``work``: must have finished on the device when it returns. Skips the test if the GPU has no such counters, and
    beside other workers of pytest-xdist, because the counters are those of all processes.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("other workers use the host link too, whose bytes are counted: run this test without -n")
    nvml = pytest.importorskip("pynvml")
    nvml.nvmlInit()
    try:
        gpu = nvml.nvmlDeviceGetHandleByUUID(gpu_uuid(device))
        before = _counters(nvml, gpu)
        work()
        after = _counters(nvml, gpu)
    finally:
        nvml.nvmlShutdown()
    # The counters wrap at 2^32 where they have 32 bits.
    return max(new - old if new >= old else new - old + _WRAP for old, new in zip(before, after, strict=True))


def _counters(nvml, gpu):
    found = nvml.nvmlDeviceGetFieldValues(gpu, [_TRANSMITTED, _RECEIVED])
    if any(one.nvmlReturn for one in found):
        pytest.skip("this GPU does not count the bytes of its host link (NVML fields 197 and 198)")
    narrow = nvml.NVML_VALUE_TYPE_UNSIGNED_INT
    return [int(one.value.uiVal if one.valueType == narrow else one.value.ullVal) for one in found]

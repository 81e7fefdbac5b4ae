"""Bytes that a GPU exchanges with its host, as its own counters report."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness.campaign.link import bytes_over_link


def link_bytes(device: int, work: Callable[[], object]) -> int:
    """Return the bytes over the host link while some work runs, in the direction with more of them.

    ``work``: must have finished on the device when it returns. Skips the test if the GPU has no such counters, and
    beside other workers of pytest-xdist, because the counters are those of all processes.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("other workers use the host link too, whose bytes are counted: run this test without -n")
    found = bytes_over_link(device, work)
    if found is None:
        pytest.skip("this GPU does not count the bytes of its host link (NVML fields 197 and 198)")
    return found

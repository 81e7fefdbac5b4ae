"""The emulated device, as a fixture."""

from __future__ import annotations

import pytest

from harness.contract import Device
from harness.emulation.compiler import unavailable
from tests.emulation.device import emulate


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Return an emulated CUDA device; skip the test if there can be none."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    return emulate(monkeypatch)

"""The emulated device, as a fixture."""

from __future__ import annotations

import pytest

from harness.contract import Device
from tests.emulation.device import emulate, unavailable


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Device:
    """An emulated CUDA device; the test is skipped where there can be none."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    return emulate(monkeypatch)

"""The emulated device, as a fixture."""

from __future__ import annotations

import pytest

from harness.contract import Device, Phases
from harness.emulation.compiler import unavailable
from tests.emulation.device import emulate
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Return an emulated CUDA device; skip the test if there can be none."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    return emulate(monkeypatch)


@pytest.fixture
def run_scaph(monkeypatch, emulated):
    """Return a function that prepares an engine of the Scaph style with some options."""

    def made(program, graph, features, **options):
        monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", options))
        engine = cuda_engine("scaph")
        engine.prepare(program, graph, features, emulated, Phases())
        return engine

    return made

"""Hooking on the emulated device: its kernels give the values of components."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.device.compilation import Compiled
from harness.emulation.compiler import library
from tests.engines.test_hooking import GRAPHS, check


@pytest.fixture
def hooking_emulated(emulated, monkeypatch):
    """Return the emulated device, for the kernels of hooking, too."""

    def made(source, headers, _):
        return Compiled(str(library(source, headers)).encode(), "")

    here = "engines.onyx.cuda_hooking"
    monkeypatch.setattr(f"{here}.compiled", made)
    monkeypatch.setattr(f"{here}.architecture", lambda _: "sm_90")
    monkeypatch.setattr(f"{here}.open_device", lambda _: SimpleNamespace())
    monkeypatch.setattr(f"{here}.require_memory", lambda _: None)
    monkeypatch.setattr(f"{here}.BLOCK", 64)
    return emulated


@pytest.mark.parametrize("reducer", ["min", "max"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernels_give_the_values_of_components(name, reducer, hooking_emulated):
    check(GRAPHS[name](), reducer, 3, hooking_emulated)

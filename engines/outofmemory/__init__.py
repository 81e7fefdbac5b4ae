"""Engines for graphs whose edges are larger than the memory of the device."""

from __future__ import annotations

from engines.outofmemory.schedules import EmogiSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the EMOGI style."""
    return [
        EngineSpec(
            "emogi",
            "push, edges in host memory read in place over the host link (Min et al. 2020)",
            EmogiSchedule,
            "engines.outofmemory.emogi.engine:EmogiEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        ),
    ]

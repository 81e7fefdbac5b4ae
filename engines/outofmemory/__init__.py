"""Engines for graphs whose edges are larger than the memory of the device."""

from __future__ import annotations

from engines.outofmemory.schedules import EmogiSchedule, ScaphSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the styles of EMOGI and Scaph."""
    return [
        EngineSpec(
            "emogi",
            "push, edges in host memory read in place over the host link (Min et al. 2020)",
            EmogiSchedule,
            "engines.outofmemory.emogi.engine:EmogiEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        ),
        EngineSpec(
            "scaph",
            "push, subgraphs of edges read whole or only their active rows, by their value (Zheng et al. 2020)",
            ScaphSchedule,
            "engines.outofmemory.scaph.engine:ScaphEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        ),
    ]

"""Onyx: feature-aware, change-driven, folded (Vaz 2021)."""

from __future__ import annotations

from engines.onyx.schedule import OnyxSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the Onyx engine."""
    return [
        EngineSpec(
            "onyx",
            "feature-aware, change-driven, folded kernels (Vaz 2021)",
            OnyxSchedule,
            "engines.onyx.engine:OnyxEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        )
    ]

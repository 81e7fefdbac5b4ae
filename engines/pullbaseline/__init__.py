"""Pull baseline: the strategy of SIMD-X."""

from __future__ import annotations

from engines.pullbaseline.schedules import SimdxSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the SIMD-X style."""
    return [
        EngineSpec(
            "simdx",
            "pull, Active-Compute-Combine, vertices listed by degree (Liu & Huang 2019)",
            SimdxSchedule,
            "engines.pullbaseline.simdx.engine:SimdxEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        )
    ]

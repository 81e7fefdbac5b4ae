"""Library peers: what people would use instead."""

from __future__ import annotations

from engines.libraries.schedules import ScipySchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """SciPy; more follow for the GPU."""
    return [
        EngineSpec(
            "scipy",
            "SciPy sparse matrix times dense, NumPy for the rest; one thread",
            ScipySchedule,
            "engines.libraries.scipy_engine:ScipyEngine",
            requires=("scipy",),
        )
    ]

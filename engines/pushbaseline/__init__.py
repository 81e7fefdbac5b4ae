"""Push baselines: the strategies of Gunrock and Tigr."""

from __future__ import annotations

from engines.pushbaseline.schedules import GunrockSchedule, TigrSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the Gunrock and Tigr styles."""
    return [
        EngineSpec(
            "gunrock",
            "push, explicit frontiers, advance - filter - compute (Wang et al. 2016)",
            GunrockSchedule,
            "engines.pushbaseline.gunrock.engine:GunrockEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        ),
        EngineSpec(
            "tigr",
            "push, virtual node splitting, all nodes every superstep (Sabet et al. 2018)",
            TigrSchedule,
            "engines.pushbaseline.tigr.engine:TigrEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        ),
    ]

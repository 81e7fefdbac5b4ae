"""Schedules of stochastic gradient descent on graphs: both ends of edges are updated in place."""

from __future__ import annotations

from engines.lonestar.schedule import LonestarSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the engine."""
    return [
        EngineSpec(
            "lonestar",
            "in place, edge by edge: matchings, diagonals, locks (Kaleem et al. 2016)",
            LonestarSchedule,
            "engines.lonestar.engine:LonestarEngine",
            requires=("numba",),
            devices=("cpu", "cuda"),
        )
    ]

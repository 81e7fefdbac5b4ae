"""Gunrock style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.api import PerDevice

if TYPE_CHECKING:
    from engines.pushbaseline.schedules import GunrockSchedule

_NEAR_FAR = {
    "cpu": "harness.lowering.cpu.near_far:NearFarCpuEngine",
    "cuda": "harness.lowering.cuda.near_far:near_far_by_steps",
}


class GunrockEngine(PerDevice):
    """Advance - filter - compute (Wang et al. 2016); see :class:`GunrockSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.pushbaseline.gunrock.cpu_engine:GunrockCpuEngine",
        "cuda": "engines.pushbaseline.gunrock.cuda_engine:GunrockCudaEngine",
    }

    def __init__(self, schedule: GunrockSchedule) -> None:
        super().__init__(schedule)
        self.stepwise = schedule.order is None

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device; with ``order`` that of paths in order of priority."""
        return super().class_for(kind) if self.schedule.order is None else _NEAR_FAR[kind]

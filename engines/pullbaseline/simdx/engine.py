"""SIMD-X style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.api import PerDevice

if TYPE_CHECKING:
    from engines.pullbaseline.schedules import SimdxSchedule

_NEAR_FAR = {
    "cpu": "harness.lowering.cpu.near_far:NearFarCpuEngine",
    "cuda": "harness.lowering.cuda.near_far:NearFarCudaEngine",
}


class SimdxEngine(PerDevice):
    """Active - Compute - Combine (Liu & Huang 2019); see :class:`SimdxSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.pullbaseline.simdx.cpu_engine:SimdxCpuEngine",
        "cuda": "engines.pullbaseline.simdx.cuda_engine:SimdxCudaEngine",
    }

    def __init__(self, schedule: SimdxSchedule) -> None:
        super().__init__(schedule)
        self.stepwise = schedule.order is None

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device; with ``order`` that of paths in order of priority."""
        return super().class_for(kind) if self.schedule.order is None else _NEAR_FAR[kind]

"""The Onyx engine: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.api import PerDevice

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule

_HOOKING = {
    "cpu": "engines.onyx.cpu_hooking:HookingCpuEngine",
    "cuda": "engines.onyx.cuda_hooking:HookingCudaEngine",
}
_NEAR_FAR = {
    "cpu": "harness.lowering.cpu.near_far:NearFarCpuEngine",
    "cuda": "harness.lowering.cuda.near_far:NearFarCudaEngine",
}


class OnyxEngine(PerDevice):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.onyx.cpu_engine:OnyxCpuEngine",
        "cuda": "engines.onyx.cuda_engine:OnyxCudaEngine",
    }

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.tunes = bool(schedule.tune)
        self.stepwise = not schedule.hooking and schedule.solver is None and schedule.order is None

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device.

        With ``tune`` it is that of an engine that chooses its plan, with ``hooking`` that of components without
        supersteps, with ``order`` that of paths in order of priority, and with ``solver`` that of Krylov plans, which
        refuses a GPU.
        """
        if self.schedule.order is not None:
            return _NEAR_FAR[kind]
        if self.schedule.hooking:
            return _HOOKING[kind]
        if self.schedule.solver is not None:
            return "engines.onyx.krylov_engine:KrylovCpuEngine"
        return "engines.onyx.tuning:TunedEngine" if self.tunes else super().class_for(kind)

"""Gunrock style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from harness.api import PerDevice


class GunrockEngine(PerDevice):
    """Advance - filter - compute (Wang et al. 2016); see :class:`GunrockSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.pushbaseline.gunrock.cpu_engine:GunrockCpuEngine",
        "cuda": "engines.pushbaseline.gunrock.cuda_engine:GunrockCudaEngine",
    }

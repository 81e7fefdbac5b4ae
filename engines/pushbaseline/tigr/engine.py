"""Tigr style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from harness.api import PerDevice


class TigrEngine(PerDevice):
    """Virtual node splitting (Sabet et al. 2018); see :class:`TigrSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.pushbaseline.tigr.cpu_engine:TigrCpuEngine",
        "cuda": "engines.pushbaseline.tigr.cuda_engine:TigrCudaEngine",
    }

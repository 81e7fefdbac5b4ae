"""The Onyx engine: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from harness.api import PerDevice


class OnyxEngine(PerDevice):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.onyx.cpu_engine:OnyxCpuEngine",
        "cuda": "engines.onyx.cuda_engine:OnyxCudaEngine",
    }

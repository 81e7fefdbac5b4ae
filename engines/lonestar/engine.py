"""One schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from engines.lonestar.schedule import LonestarSchedule
from harness.api import PerDevice


class LonestarEngine(PerDevice):
    """Updates both ends of edges in place; see :class:`LonestarSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.lonestar.cpu_engine:LonestarCpuEngine",
        "cuda": "engines.lonestar.cuda_engine:LonestarCudaEngine",
    }

    def __init__(self, schedule: LonestarSchedule) -> None:
        super().__init__(schedule)
        self.tunes = schedule.order == "auto"  # it measures a device that it does not know yet

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device; with ``tune``, that of an engine that times a few orders."""
        return "engines.lonestar.trial:TrialEngine" if self.schedule.tune else super().class_for(kind)

"""Scaph style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.api import PerDevice

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule


class ScaphEngine(PerDevice):
    """Push from subgraphs of edges (Zheng et al. 2020); see :class:`ScaphSchedule` for its options.

    With several rounds it solves whole problems.
    """

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.outofmemory.scaph.cpu_engine:ScaphCpuEngine",
        "cuda": "engines.outofmemory.scaph.cuda_engine:ScaphCudaEngine",
    }

    def __init__(self, schedule: ScaphSchedule) -> None:
        super().__init__(schedule)
        self.stepwise = not schedule.repeats

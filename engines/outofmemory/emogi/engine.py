"""EMOGI style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from harness.api import PerDevice


class EmogiEngine(PerDevice):
    """Push with edges in host memory (Min et al. 2020); see :class:`EmogiSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.outofmemory.emogi.cpu_engine:EmogiCpuEngine",
        "cuda": "engines.outofmemory.emogi.cuda_engine:EmogiCudaEngine",
    }

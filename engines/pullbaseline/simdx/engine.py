"""SIMD-X style: one schedule, with a separate engine for each kind of device."""

from __future__ import annotations

from typing import ClassVar

from harness.api import PerDevice


class SimdxEngine(PerDevice):
    """Active - Compute - Combine (Liu & Huang 2019); see :class:`SimdxSchedule` for its options."""

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.pullbaseline.simdx.cpu_engine:SimdxCpuEngine",
        "cuda": "engines.pullbaseline.simdx.cuda_engine:SimdxCudaEngine",
    }

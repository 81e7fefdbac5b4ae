"""Figures of a device that an engine measures once, keeps in the cache and plans with."""

from __future__ import annotations

from harness.device.cpu_cache import own_cache_bytes
from harness.device.figures import cache_bytes, device_name, figures_of, known_figures
from harness.device.stream_times import fastest_on

__all__ = ["cache_bytes", "device_name", "fastest_on", "figures_of", "known_figures", "own_cache_bytes"]

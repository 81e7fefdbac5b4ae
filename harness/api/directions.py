"""Why the supersteps of a run push or pull, for engines that choose by superstep."""

from __future__ import annotations

from harness.supersteps import By, Choice, Reason

__all__ = ["By", "Choice", "Reason"]

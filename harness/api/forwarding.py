"""The base class of engines that run another engine."""

from __future__ import annotations

from harness.forwarding import Forwarding

__all__ = ["Forwarding"]

"""The parts that engines calling a library's functions are made of: recognition of well-known problems."""

from __future__ import annotations

from harness.algorithms.recognition import Recognised, recognised

__all__ = ["Recognised", "recognised"]

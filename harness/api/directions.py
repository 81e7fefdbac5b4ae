"""For engines whose supersteps push or pull: why one did, and the bound of the messages that a pull may receive."""

from __future__ import annotations

from harness.language.message_bounds import message_bound
from harness.supersteps import By, Choice, Noted, Reason

__all__ = ["By", "Choice", "Noted", "Reason", "message_bound"]

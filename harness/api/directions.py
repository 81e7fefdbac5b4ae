"""For engines that choose how vertices send: directions, bounds of messages, and values in order of priority."""

from __future__ import annotations

from harness.language.message_bounds import message_bound
from harness.language.priority_order import PriorityOrder, priority_order
from harness.lowering.near_far import near_far_refusal
from harness.supersteps import By, Choice, Noted, Reason

__all__ = ["By", "Choice", "Noted", "PriorityOrder", "Reason", "message_bound", "near_far_refusal", "priority_order"]

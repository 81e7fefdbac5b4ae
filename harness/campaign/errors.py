"""Mistakes of a user that are found before anything runs."""

from __future__ import annotations


class CampaignError(ValueError):
    """The command or its configuration is invalid; the message says what, where and how to fix it."""


class Unsupported(Exception):
    """An engine refuses a problem under the schedule of its cell; the message is the engine's reason."""

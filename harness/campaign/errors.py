"""Mistakes of a user that are found before anything runs."""

from __future__ import annotations


class CampaignError(ValueError):
    """The command or its configuration is invalid; the message says what, where and how to fix it."""

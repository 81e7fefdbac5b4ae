"""What a user can get wrong before anything runs."""

from __future__ import annotations


class CampaignError(ValueError):
    """The command or its configuration cannot be carried out; the message says what, where and the mend."""


class Unsupported(Exception):
    """An engine refuses a problem under the schedule of its cell; the message is the engine's reason."""

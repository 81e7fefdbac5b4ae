"""Validation of configuration values; every error names the key, the value and the fix."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from harness.campaign.errors import CampaignError
from harness.options import wanted_like
from harness.plugins import closest


def checked(owner: str, kind: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` if every name is known and each value has its default's type (a default of None accepts all).

    An integer for a float is converted, and so is a number for a text (``sources=17``). Raises CampaignError with the
    closest name, or with the required type.
    """
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise CampaignError(f"{owner} has no {kind} {name!r}{closest(str(name), defaults)} (it has: {known})")
        default = defaults[name]
        if default is None or default is dataclasses.MISSING:
            taken[str(name)] = value
        else:
            taken[str(name)] = _as_type_of(default, value, f"{kind} {name!r} of {owner}")
    missing = [name for name, default in defaults.items() if default is dataclasses.MISSING and name not in given]
    if missing:
        raise CampaignError(f"{owner} needs a value for {kind} {missing[0]!r}")
    return taken


def count(key: str, value: Any, *alternatives: str, least: int = 1) -> int:
    """Return ``value`` if it is an integer of at least ``least``. Raises CampaignError, naming the ``alternatives``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        others = "".join(f" or {other!r}" for other in alternatives)
        if isinstance(value, list):
            others += f"; to sweep, write {key}={','.join(str(one) for one in value)} without brackets"
        raise CampaignError(f"{key} is {value!r}; it must be an integer of at least {least}{others}")
    return value


def positive(key: str, value: Any) -> float:
    """Return ``value`` as a float if it is finite and above zero. Raises CampaignError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise CampaignError(f"{key} is {value!r}; it must be a number above 0")
    return float(value)


def truth(key: str, value: Any) -> bool:
    """Return ``value`` if it is a bool. Raises CampaignError."""
    if not isinstance(value, bool):
        raise CampaignError(f"{key} is {value!r}; it must be true or false")
    return value


def _as_type_of(default: Any, value: Any, what: str) -> Any:
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, str) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(value, bool) != isinstance(default, bool) or not isinstance(value, type(default)):
        raise CampaignError(f"{what} is {value!r}; it must be {wanted_like(default)}")
    return value

"""Numbers that JSON does not have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def strict_json(value: Any) -> Any:
    """Replace numbers that JSON does not have by the strings "Infinity", "-Infinity" and "NaN"."""
    if isinstance(value, float) and not math.isfinite(value):
        return next(name for name, number in NOT_FINITE.items() if repr(number) == repr(value))
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_json(item) for item in value]
    return value

"""Numbers that JSON does not have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
UNCHANGED = frozenset((str, int, bool, type(None)))


def strict_json(value: Any) -> Any:
    """Replace numbers that JSON does not have by the strings "Infinity", "-Infinity" and "NaN"."""
    if type(value) in UNCHANGED:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return next(name for name, number in NOT_FINITE.items() if repr(number) == repr(value))
    if isinstance(value, (list, tuple)):
        return list(value) if _unchanged(value) else [strict_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in UNCHANGED else strict_json(item) for key, item in value.items()}
    return value


def _unchanged(values: Sequence[Any]) -> bool:
    """Return whether nothing is replaced in a sequence, as in most: long ones of a record are numbers."""
    kinds = set(map(type, values))
    return kinds <= UNCHANGED or (kinds == {float} and all(map(math.isfinite, values)))

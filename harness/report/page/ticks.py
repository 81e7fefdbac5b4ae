"""Round values on an axis."""

from __future__ import annotations

import math

_MOST = 6  # ticks of a linear axis
_FEW_DECADES = 300  # a logarithmic axis of a smaller factor also has ticks at 2 and 5 times powers of ten


def round_values(low: float, high: float, *, logarithmic: bool = False, whole: bool = False) -> list[float]:
    """Return round values from ``low`` to ``high``, a few of them; ``whole``: only integers."""
    if logarithmic:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        digits = (1, 2, 5) if high / low < _FEW_DECADES else (1,)
        values = [float(f"{digit}e{power}") for power in powers for digit in digits]
        found = [value for value in values if low <= value <= high and (value >= 1 or not whole)]
        if len(found) > 1:
            return found
    step = _step((high - low) / _MOST)
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def _step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times powers of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))

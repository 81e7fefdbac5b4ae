"""Numbers as people read them."""

from __future__ import annotations

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_TOO_LONG = 1e12  # to be read digit by digit
_COUNTS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(value: float) -> str:
    """A time with three digits and its unit: ``12.3 ms``."""
    scale, unit = _time_unit(value)
    return f"{value / scale:.3g} {unit}"


def seconds_range(low: float, high: float, value: float) -> str:
    """Two times in the unit of ``value``, which stands beside them: ``[12.1, 12.9]``."""
    scale, _ = _time_unit(value)
    return f"[{_digits(low / scale)}, {_digits(high / scale)}]"


def count(value: int) -> str:
    """A number of things: whole up to 9,999, then with three digits and k, M or G."""
    if value < 10_000:
        return f"{value:,}"
    for scale, unit in _COUNTS:
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return str(value)


def quality(value: float) -> str:
    """A metric with three decimals, ``0.957``; one too near zero for them, or too far from it, with two digits,
    ``3.7e-06``."""
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 or abs(value) >= _TOO_LONG else f"{value:.3f}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _time_unit(value: float) -> tuple[float, str]:
    for scale, unit in _TIMES:
        if value >= scale:
            return scale, unit
    return _TIMES[-1]


def times(value: float) -> str:
    """How many times as fast, such as ``3.27×``."""
    return f"{value:.3g}×"

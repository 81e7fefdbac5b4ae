"""Format numbers for people."""

from __future__ import annotations

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_TOO_LONG = 1e12  # from here on in scientific notation
_COUNTS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(value: float) -> str:
    """Format a time in seconds with three digits and a unit: ``12.3 ms``."""
    scale, unit = _time_unit(value)
    return f"{rounded(value) / scale:.3g} {unit}"


def seconds_range(low: float, high: float, value: float) -> str:
    """Format two times in the unit of ``value``, which is printed next to them: ``[12.1, 12.9]``."""
    scale, _ = _time_unit(value)
    return f"[{_digits(low / scale)}, {_digits(high / scale)}]"


def count(value: int) -> str:
    """Format a count: all digits up to 9,999, then three digits and k, M or G."""
    if value < 10_000:
        return f"{value:,}"
    scale, unit = next(one for one in _COUNTS if rounded(value) >= one[0])
    return f"{rounded(value) / scale:.3g} {unit}"


def quality(value: float) -> str:
    """Format a metric with three decimals, ``0.957``; if it is below 5e-4 or above 1e12, as ``3.7e-06``."""
    return f"{value:.1e}" if 0 < abs(value) < 5e-4 or abs(value) >= _TOO_LONG else f"{value:.3f}"


def percent(share: float) -> str:
    """Format a share with two digits: ``37 %``, ``4.1 %``."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def rounded(value: float) -> float:
    """Return a value of three digits, which determine its unit: 999.6 ms is written as 1 s."""
    return float(f"{value:.3g}")


def _time_unit(value: float) -> tuple[float, str]:
    return next((one for one in _TIMES if rounded(value) >= one[0]), _TIMES[-1])


def times(value: float) -> str:
    """Format a speed-up: ``3.27×``."""
    return f"{value:.3g}×"

"""The size of a processor core's own cache."""

from __future__ import annotations

from pathlib import Path

LEVEL_2 = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
USUAL = 1 << 20  # bytes, where the system does not report them
UNITS = {"K": 1 << 10, "M": 1 << 20}


def own_cache_bytes(source: Path = LEVEL_2) -> int:
    """Return the bytes of the second-level cache of a core: 1 MiB if the system does not give its size."""
    try:
        text = source.read_text().strip()
    except OSError:
        return USUAL
    number, unit = text[:-1], text[-1:]
    return int(number) * UNITS[unit] if number.isdecimal() and unit in UNITS else USUAL

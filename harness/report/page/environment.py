"""The environment section of the page: the machines that ran the cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.records import Record
from harness.report.units import rounded

_VALUES = 4  # shown of a field that differs between cells


def environment(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return every field of the environments with its value, range, or values with their numbers of cells."""
    environments: list[dict[str, Any]] = [dict(record["environment"]) for record in records]
    fields = {
        name: [one.get(name) for one in environments]
        for name in dict.fromkeys(name for one in environments for name in one)
    }
    known = {name: values for name, values in fields.items() if any(value is not None for value in values)}
    return [(name.replace("_", " "), _shown(name, values)) for name, values in known.items()]


def machine(records: Sequence[Record]) -> str:
    """Return the processor if all cells ran on one kind, else the number of kinds."""
    found = {(record["environment"].get("cpu"), record["environment"].get("cores")) for record in records}
    if len(found) != 1:
        return f"{len(found)} kinds of machine" if found else ""
    cpu, cores = found.pop()
    return f"{cpu}, {cores} cores"


def _shown(name: str, values: Sequence[Any]) -> str:
    counted = Counter(_plain(name, value) for value in values)
    if len(counted) == 1:
        return next(iter(counted))
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        return f"{_plain(name, min(numbers))} to {_plain(name, max(numbers))}"
    shown = [f"{text} ({number} cells)" for text, number in counted.most_common(_VALUES)]
    rest = len(counted) - len(shown)
    return "; ".join(shown) + (f"; and {rest} others" if rest else "")


def _plain(name: str, value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(key, item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(name, item) for item in value)
    if isinstance(value, int) and (name == "memory" or name.endswith("bytes")):
        return f"{value / 1e9:.3g} GB" if rounded(value) >= 1e9 else f"{value / 1e6:.3g} MB"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

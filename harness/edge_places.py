"""The schedule option that says in which memory a graph's edge arrays are."""

from __future__ import annotations

from enum import Enum

from harness.options import option


class Place(Enum):
    """Where the arrays of a graph with an element for every edge are while a program runs.

    *resident*: in the memory of the device. *mapped*: in page-locked memory of the host, which kernels read in place
    (zero copy). The others are planned: *managed* memory, arrays *streamed* to the device in windows, and arrays
    *sharded* over several devices.
    """

    RESIDENT = "resident"
    MAPPED = "mapped"
    MANAGED = "managed"
    STREAMED = "streamed"
    SHARDED = "sharded"


def edges_option() -> str | None:
    """Define the option ``edges`` of a schedule dataclass."""
    return option(
        None, "GPU: memory of the edge arrays; mapped: of the host, read in place (null: resident)",
        values=(Place.RESIDENT.value, Place.MAPPED.value),
    )  # fmt: skip

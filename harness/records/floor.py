"""A lower bound ("floor") of the time of a run: the work that it cannot avoid, over the rates of the device.

A run that takes less contradicts the rates, the count of the work, or the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

Term = Literal["bytes", "atomics", "launches"]


class Rates(TypedDict):
    """The maximum rates of a device, measured once. Null: the device has no such operations, or they are not timed."""

    levels: Annotated[
        list[tuple[int, float]],
        Meta(description="levels of memory, nearest first: bytes that nearer levels hold, bytes read or written per s"),
    ]
    on_chip: Annotated[
        int, Meta(description="bytes of registers and first-level caches, which one kernel can keep over supersteps")
    ]
    adds: Annotated[float | None, Meta(description="atomic float32 additions per second, one at a time")]
    wide_adds: Annotated[float | None, Meta(description="the same with four additions in one instruction")]
    launch: Annotated[float | None, Meta(description="seconds of an empty kernel in a CUDA graph")]


class Work(TypedDict):
    """The least work of a run: bytes, additions and launches.

    ``bytes``: of distinct addresses, per superstep. ``adds``: atomic float32 additions. ``wide``: an instruction may do
    four of them. ``launches``: of kernels; 0: not counted.
    """

    bytes: list[int]
    adds: int
    wide: bool
    launches: int


class Floor(TypedDict):
    """A lower bound of the time of one timed run: the largest of its terms."""

    seconds: Annotated[float, Meta(description="lower bound of a run, in seconds; over all its supersteps")]
    largest: Annotated[Term, Meta(description="the term that equals it")]
    terms: Annotated[dict[Term, float], Meta(description="seconds by term")]
    bytes: Annotated[int, Meta(description="bytes of distinct addresses, summed over supersteps, at least")]
    adds: Annotated[int, Meta(description="atomic float32 additions of a run, at least; 0: none are known")]
    launches: Annotated[int, Meta(description="kernels that a run launched; 0: not counted")]
    rates: Annotated[Rates, Meta(description="the rates of the device by which it is computed")]


def floor_of(work: Work, rates: Rates) -> Floor | None:
    """Return the lower bound of a run; None if nothing is known that takes time.

    Of the bytes of a superstep, a cache keeps at most as many as it holds from the superstep before; the others come
    from farther away. On chip, only a kernel that runs several supersteps keeps data.
    """
    kept = rates["on_chip"] if work["launches"] < len(work["bytes"]) else 0
    add_rate = max(rates["adds"] or 0.0, rates["wide_adds"] or 0.0) if work["wide"] else rates["adds"]
    terms: dict[Term, float] = {
        "bytes": sum(_transfer(moved - kept, rates["levels"]) for moved in work["bytes"]),
        "atomics": work["adds"] / add_rate if add_rate else 0.0,
        "launches": work["launches"] * (rates["launch"] or 0.0),
    }
    largest = max(terms, key=lambda name: terms[name])
    if terms[largest] <= 0:
        return None
    return Floor(
        seconds=terms[largest], largest=largest, terms=terms, bytes=sum(work["bytes"]), adds=work["adds"],
        launches=work["launches"], rates=rates,
    )  # fmt: skip


def faster(one: Rates, other: Rates) -> Rates:
    """Return the higher of two measurements of each rate of a device; disturbances only lower them."""

    def higher(name: Literal["adds", "wide_adds"]) -> float | None:
        return max(filter(None, (one[name], other[name])), default=None)

    pairs = zip(one["levels"], other["levels"], strict=True)
    return Rates(
        levels=[(max(mine[0], its[0]), max(mine[1], its[1])) for mine, its in pairs],
        on_chip=one["on_chip"], adds=higher("adds"), wide_adds=higher("wide_adds"),
        launch=min(filter(None, (one["launch"], other["launch"])), default=None),
    )  # fmt: skip


def share_of_floor(record: Mapping[str, Any]) -> float | None:
    """Return the floor over the median time of a correct run: 1 cannot be exceeded. None without a floor or a time."""
    floor, solve = record["floor"], record["solve"]
    if floor is None or not solve or not solve["median"] or record["outcome"] != "ok":
        return None
    return float(floor["seconds"] / solve["median"])


def _transfer(moved: int, levels: Sequence[tuple[int, float]]) -> float:
    """Return the least seconds to move bytes of distinct addresses that were last used a superstep ago."""
    return max((max(0, moved - nearer) / rate for nearer, rate in levels), default=0.0)

"""The ways in which cuSPARSE multiplies a CSR matrix with dense features."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

Order = Literal["row", "column"]
ROUNDS = 5  # timings of each way, interleaved
FIRST_ROUNDS = 2  # of all ways; the other rounds are of those that take at most CLOSE times the least time so far
CLOSE = 1.5
LONG_MS = 50.0  # a slower way is timed only twice
FAR = 4.0  # once, if its first two calls take FAR times as long as the shortest call of all ways
QUEUE_MS = 5.0  # a sample lasts about as long
MOST_CALLS = 20
T = TypeVar("T", bound=Hashable)


class Way(NamedTuple):
    """One way to compute a product.

    ``routine``: SpMV takes one feature, SpMM any number. ``algorithm``: the CSR algorithm, 1 to 3 (SpMV: 1 or 2).
    ``order``: the storage order in which SpMM reads the dense operand and writes the result. ``preprocess``: cuSPARSE
    analyses the matrix once beforehand.
    """

    routine: Literal["SpMM", "SpMV"]
    algorithm: int
    order: Order = "row"
    preprocess: bool = False

    @property
    def analysed(self) -> bool:
        """True if cuSPARSE can analyse the matrix beforehand; preprocessing has no effect on SpMM algorithm 2."""
        return self.routine == "SpMV" or self.algorithm != 2

    def __str__(self) -> str:
        order = f", by {self.order}s" if self.routine == "SpMM" else ""
        return f"{self.routine} algorithm {self.algorithm}{order}{', preprocessed' * self.preprocess}"


def all_ways(features: int) -> tuple[Way, ...]:
    """Return every way to multiply with ``features`` columns."""
    orders: tuple[Order, ...] = ("row", "column") if features > 1 else ("row",)
    ways = [Way("SpMM", *one) for one in itertools.product((1, 2, 3), orders, (False, True))]
    ways = [way for way in ways if way.analysed or not way.preprocess]
    if features == 1:
        ways += [Way("SpMV", number, "row", preprocess) for number in (1, 2) for preprocess in (False, True)]
    return tuple(ways)


def queued_calls(ms: float) -> int:
    """Return the number of calls of ``ms`` milliseconds each that a sample queues: 1 to ``MOST_CALLS``."""
    return min(MOST_CALLS, max(1, round(QUEUE_MS / max(ms, 1e-3))))


def medians(
    ways: Sequence[T], milliseconds: Callable[[T], float], before: Mapping[T, tuple[float, float]] | None = None
) -> dict[T, float]:
    """Return the median time of every way in interleaved rounds; after two, only ways that may be the fastest go on.

    ``before``: the milliseconds of two single calls of each way, of which the first may load kernels; the second one of
    a long way is its first timing. A pause of the system in one of the two excludes no way.
    """
    calls = before or {}
    long = {way for way in calls if min(calls[way]) >= LONG_MS}
    far = {way for way in long if min(calls[way]) > FAR * min(map(min, calls.values()))}
    samples: dict[T, list[float]] = {way: [calls[way][1]] if way in long else [] for way in ways}
    for number in range(FIRST_ROUNDS):
        for way in ways:
            if len(samples[way]) == number and way not in far:
                samples[way].append(milliseconds(way))
    limit = CLOSE * min(map(min, samples.values()))
    going_on = [way for way, taken in samples.items() if min(taken) <= limit and taken[0] < LONG_MS]
    for _ in range(FIRST_ROUNDS, ROUNDS):
        for way in going_on:
            samples[way].append(milliseconds(way))
    return {way: statistics.median(taken) for way, taken in samples.items()}

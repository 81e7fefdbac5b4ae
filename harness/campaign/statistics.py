"""Times of repeated runs: the median, and an interval for it.

Pure Python, since the process that shows the table loads no numerical library and the samples are few.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
BOOTSTRAP_SEED = 20260101
_RESAMPLES = 2000
# The range of n samples holds the median with probability 1 - 2 / 2^n: 0.969 from six samples on, 0.75 for three.
# A bootstrap of fewer than six cannot promise 95 %, so the whole range is given together with what it does promise.
_FEWEST_FOR_BOOTSTRAP = 6


@dataclass(frozen=True)
class Interval:
    """The median of some times with the interval that holds the true one with probability ``confidence``; seconds."""

    median: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Width of the interval relative to the median; 0 for a median of 0."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def overlaps(self, other: Interval) -> bool:
        """Whether the intervals share a point, so that the two cannot be told apart."""
        return self.low <= other.high and other.low <= self.high


def median_interval(samples: Sequence[float], seed: int = BOOTSTRAP_SEED) -> Interval:
    """The median of ``samples`` (at least one) and its percentile-bootstrap interval (Efron 1979), with a fixed seed.

    With fewer than six samples the interval is their range, and its true confidence is given.
    """
    if not samples:
        raise ValueError("the median of no samples is not defined; measure at least one repetition")
    median = statistics.median(samples)
    count = len(samples)
    if count < _FEWEST_FOR_BOOTSTRAP:
        return Interval(median, min(samples), max(samples), 1.0 - 2.0 ** (1 - count))
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(samples, k=count)) for _ in range(_RESAMPLES))
    tail = round(_RESAMPLES * (1.0 - CONFIDENCE) / 2.0)
    return Interval(median, medians[tail], medians[-1 - tail], CONFIDENCE)

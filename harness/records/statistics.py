"""Times of repeated runs: the median with an interval, the rounds of a sweep taken together, ratios, trends.

Pure Python, since the process that shows the table loads no numerical library and the samples are few.
"""

from __future__ import annotations

import math
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
_FEWEST_FOR_TREND = 10  # below this the normal approximation of the test does not hold
_TREND_QUANTILE = 2.576  # of the normal distribution, both sides together 1 %


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
        """Whether the intervals share a point, so that the two cannot be told apart.

        A single sample is no interval, and says nothing about any difference.
        """
        if not self.confidence or not other.confidence:
            return True
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
    low, high = _ends([statistics.median(draw.choices(samples, k=count)) for _ in range(_RESAMPLES)])
    return Interval(median, low, high, CONFIDENCE)


def rounds_interval(rounds: Sequence[Sequence[float]], seed: int = BOOTSTRAP_SEED) -> Interval:
    """The median of the medians of several rounds, with an interval that also covers what differs between rounds.

    Rounds and the samples in each are drawn anew (a bootstrap of two levels, after Kalibera & Jones, "Rigorous
    benchmarking in reasonable time", ISMM 2013). Fewer than six rounds say little about what lies between them, so
    there the interval reaches at least over the medians of all rounds, and its confidence is what their range promises.
    """
    if len(rounds) == 1:
        return median_interval(rounds[0], seed)
    medians = [statistics.median(samples) for samples in rounds]
    draw = random.Random(seed)

    def drawn() -> float:
        chosen = draw.choices(rounds, k=len(rounds))
        return statistics.median(statistics.median(draw.choices(samples, k=len(samples))) for samples in chosen)

    low, high = _ends([drawn() for _ in range(_RESAMPLES)])
    if len(rounds) >= _FEWEST_FOR_BOOTSTRAP:
        return Interval(statistics.median(medians), low, high, CONFIDENCE)
    confidence = 1.0 - 2.0 ** (1 - len(rounds))
    return Interval(statistics.median(medians), min(low, *medians), max(high, *medians), confidence)


def trend(samples: Sequence[float]) -> float:
    """By how much the later half of the samples is above the earlier, relative; 0.0 where this may well be chance.

    Chance is ruled out by the Mann-Kendall test (Mann 1945, Kendall 1975; normal approximation) at the 1 % level.
    """
    count = len(samples)
    if count < _FEWEST_FOR_TREND:
        return 0.0
    score = sum((later > sample) - (later < sample) for i, sample in enumerate(samples) for later in samples[i + 1 :])
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18.0)
    if abs(score) - 1 < _TREND_QUANTILE * deviation:
        return 0.0
    earlier, later_half = statistics.median(samples[: count // 2]), statistics.median(samples[(count + 1) // 2 :])
    return later_half / earlier - 1.0 if earlier else 0.0


def _ends(resampled: list[float]) -> tuple[float, float]:
    """The values that leave half of the remaining probability on either side."""
    resampled.sort()
    tail = round(len(resampled) * (1.0 - CONFIDENCE) / 2.0)
    return resampled[tail], resampled[-1 - tail]

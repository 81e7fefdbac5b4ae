"""Statistics of repeated runs: medians with distribution-free intervals, merged rounds, trends.

Pure Python, because the process that prints the table loads no numerical library, and samples are few.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# An interval with a lower confidence is withheld, and so is every verdict that depends on it.
CONFIDENCE = 0.95
# Confidence of the interval of one median, chosen so that both intervals of a ratio hold with CONFIDENCE.
MEDIAN_CONFIDENCE = 0.975
# The range of n samples contains the median with probability 1 - 2 / 2^n: 0.969 for six.
FEWEST_SAMPLES = 6
_FEWEST_FOR_TREND = 10  # below this the normal approximation of the test is invalid
_TREND_QUANTILE = 2.576  # of the normal distribution, two-sided, 1 %


@dataclass(frozen=True)
class Interval:
    """The median of samples, and the interval that contains the true median with probability ``confidence``."""

    median: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """Width of the interval relative to the median; 0 for a median of 0."""
        return (self.high - self.low) / self.median if self.median else 0.0

    @property
    def sufficient(self) -> bool:
        """True if the confidence is at least ``CONFIDENCE``, so that a verdict may use the interval."""
        return self.confidence >= CONFIDENCE


def median_interval(samples: Sequence[float], confidence: float = MEDIAN_CONFIDENCE) -> Interval:
    """Return the median of ``samples`` (at least one) with an interval between two order statistics.

    The interval is the narrowest symmetric one with at least ``confidence``, or the whole range if there are too few
    samples for that. The confidence returned is exact for independent samples of any continuous distribution (Conover,
    "Practical Nonparametric Statistics", 3rd ed., section 3.2). Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("the median of no samples is not defined; measure at least one repetition")
    ordered = sorted(samples)
    rank, held = _rank(len(ordered), confidence)
    return Interval(statistics.median(ordered), ordered[rank], ordered[-1 - rank], held)


@lru_cache(maxsize=256)
def _rank(count: int, wanted: float) -> tuple[int, float]:
    """Return the number of samples below the interval of the median of ``count`` samples, and its confidence."""
    outside, found = 1, (0, 1.0 - 2.0 ** (1 - count))  # outside: 2^count times the probability of one tail
    for rank in range(1, count // 2):
        outside += math.comb(count, rank)
        confidence = 1.0 - 2 * outside / 2**count
        if confidence < wanted:
            break
        found = (rank, confidence)
    return found


def rounds_interval(rounds: Sequence[Sequence[float]]) -> Interval:
    """Return the median of the medians of several rounds with an interval.

    With six or more rounds, the samples are the medians of the rounds. The confidence then covers variation between
    rounds (Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). With fewer rounds, the confidence
    is that of the pooled samples, and the interval is widened to include the median of every round.
    """
    medians = [statistics.median(samples) for samples in rounds]
    if len(rounds) >= FEWEST_SAMPLES:
        return median_interval(medians)
    pooled = median_interval([sample for samples in rounds for sample in samples])
    low, high = min(pooled.low, *medians), max(pooled.high, *medians)
    return Interval(statistics.median(medians), low, high, pooled.confidence)


def trend(samples: Sequence[float]) -> float:
    """Return the relative increase of the median from the first half to the second half; 0.0 if not significant.

    Significance: Mann-Kendall test (Mann 1945, Kendall 1975; normal approximation) at the 1 % level.
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

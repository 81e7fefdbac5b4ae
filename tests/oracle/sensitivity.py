"""Errors of programs that are not affine, by Monte Carlo arithmetic.

The oracle runs several times in float64. Each superstep of a perturbed run moves every intermediate result by a
random amount of the size that float32 rounding and the tolerance allow. The differences between the runs show how
the program propagates such errors (Parker, Pierce and Eggert, "Monte Carlo arithmetic", Computing in Science &
Engineering 2(4), 2000). They replace a bound on the propagation, which grows without limit for a nonlinear program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tests.oracle.error_model import TINY, Array, Expected, U

RUNS = 4  # perturbed runs
SAFETY = 8.0  # the largest of a few draws underestimates the largest error by less than this factor
Step = Callable[[int, "Noise"], Array]


class Noise:
    """Random relative errors; ``quiet`` noise does not change values."""

    def __init__(self, seed: int | None, tolerance: float) -> None:
        self.generator = None if seed is None else np.random.default_rng(seed)
        self.tolerance = 0.0 if seed is None else tolerance

    def rounded(self, x: Array, units: Array | float) -> Array:
        """Return ``x`` with a relative error of up to ``units`` roundings in each entry."""
        if self.generator is None:
            return x
        return x * (1 + U * units * self.generator.uniform(-1, 1, x.shape))

    def left_out(self, x: Array) -> Array:
        """Return ``x`` as its readers may see it: up to the tolerance away."""
        if not self.tolerance:
            return x
        assert self.generator is not None
        return x + self.tolerance * self.generator.uniform(-1, 1, x.shape)


def expected_after(
    start: Callable[[Noise], Step], supersteps: Iterable[int], tolerance: float, by_row: bool
) -> dict[int, Expected]:
    """Return the iterates after these numbers of supersteps, with the errors that perturbed runs show.

    start: makes a new run; each call of the result makes one superstep and returns the answer. by_row: errors are
    relative to the largest entry of a row (values that change sign), otherwise to each entry.
    """
    wanted = sorted(set(supersteps))
    exact = _iterates(start(Noise(None, 0.0)), wanted, Noise(None, 0.0))
    runs = []
    for seed in range(RUNS):
        noise = Noise(seed, tolerance)
        runs.append(_iterates(start(noise), wanted, noise))
    return {n: _bounded(exact[n], [run[n] for run in runs], by_row, n) for n in wanted}


def _iterates(step: Step, wanted: list[int], noise: Noise) -> dict[int, Array]:
    kept = {}
    for number in range(max(wanted, default=0)):
        x = step(number, noise)
        if number + 1 in wanted:
            kept[number + 1] = x.copy()
    return kept


def _bounded(value: Array, perturbed: list[Array], by_row: bool, supersteps: int) -> Expected:
    difference = np.stack([np.abs(run - value) for run in perturbed])
    size = np.abs(value)
    scale = np.broadcast_to(size.max(axis=1, keepdims=True), size.shape) if by_row else size
    relative = np.divide(difference.max(axis=0), scale, out=np.zeros_like(size), where=scale > 0)
    row = np.maximum(relative.max(axis=1, keepdims=True), U)
    allowed = SAFETY * row * scale + TINY
    column = SAFETY * np.maximum(difference.sum(axis=1).max(axis=0), U * size.sum(axis=0)) + TINY
    return Expected(value, allowed, column, f"{supersteps} supersteps in float64, perturbed {len(perturbed)} times")

"""Warp-wide steps: the active lanes, and the value of each index variable in each lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARP = 32  # lanes
MOST_STEPS = 1 << 15  # sampled from one loop
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Lanes:
    """``n`` steps of warps.

    ``active``: bool[n, 32]. ``weights``: float64[n], the number of steps of the whole launch that each step represents.
    ``indices``: the value of every index variable in every lane, each int64[n, 32].
    """

    active: NDArray[np.bool_]
    weights: NDArray[np.float64]
    indices: Mapping[str, Indices] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Indices:
        return self.indices[name]

    def where(self, mask: NDArray[np.bool_]) -> Lanes:
        """Keep active only the lanes where ``mask`` holds."""
        return Lanes(self.active & mask, self.weights, self.indices)

    def everywhere(self) -> Lanes:
        """Make all lanes active."""
        return Lanes(np.ones_like(self.active), self.weights, self.indices)

    def having(self, **indices: NDArray[Any]) -> Lanes:
        """Add index variables; arrays are broadcast to [n, 32] as int64."""
        shape = self.active.shape
        made = {name: np.broadcast_to(np.asarray(value, np.int64), shape) for name, value in indices.items()}
        return Lanes(self.active, self.weights, {**self.indices, **made})

    def rows(self, which: NDArray[np.intp]) -> Lanes:
        """Select steps by position; a position may occur several times."""
        indices = {name: value[which] for name, value in self.indices.items()}
        return Lanes(self.active[which], self.weights[which], indices)


@dataclass(frozen=True)
class Load:
    """A load or an atomic operation of the traversal itself, on ``array[index]``.

    ``index`` names an index variable; an element has ``size`` bytes.
    """

    array: str
    index: str
    size: int = 4


@dataclass(frozen=True)
class Step:
    """The memory accesses of some steps.

    ``loads`` and ``atomics`` are the traversal's own accesses; ``blocks`` names the blocks of the kernel's template
    whose statements run. ``kinds`` restricts the accesses of a block with alternatives to these kinds.
    """

    lanes: Lanes
    loads: tuple[Load, ...] = ()
    blocks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("load", "reduce")
    atomics: tuple[Load, ...] = ()


def warps(units: NDArray[np.int64], weights: NDArray[np.float64]) -> Lanes:
    """Create one step per warp with all lanes active. Index variables: ``unit``, the warp's number, and ``lane``."""
    lanes = Lanes(np.ones((len(units), WARP), np.bool_), np.asarray(weights, np.float64))
    return lanes.having(unit=units[:, None], lane=np.arange(WARP))


def repeated(lanes: Lanes, name: str, first: Indices, last: Indices, stride: Indices | int = 1) -> Lanes:
    """Expand the loop ``for (name = first; name < last; name += stride)`` into one step per iteration.

    A step exists while at least one lane iterates; finished lanes are inactive. Of more than ``MOST_STEPS`` steps, an
    evenly drawn sample of ``MOST_STEPS`` represents all.
    """
    shape = lanes.active.shape
    begin, end, by = (np.broadcast_to(np.asarray(value, np.int64), shape) for value in (first, last, stride))
    trips = np.where(lanes.active, np.maximum(-(-(end - begin) // by), 0), 0)
    ends = np.cumsum(trips.max(axis=1, initial=0))
    places, times = drawn(int(ends[-1]) if len(ends) else 0, MOST_STEPS)
    rows = np.searchsorted(ends, places, side="right")
    turn = (places - np.concatenate([[0], ends])[rows])[:, None]
    found = lanes.rows(rows)
    made = Lanes(turn < trips[rows], found.weights * times, found.indices)
    return made.having(**{name: begin[rows] + turn * by[rows]})


def drawn(whole: int, most: int) -> tuple[NDArray[np.int64], float]:
    """Sample at most ``most`` of 0 .. ``whole`` - 1, one at random from each of ``most`` equal parts (stratified).

    Returns the sample and the number of elements that each sampled element represents.
    """
    if whole <= most:
        return np.arange(whole), 1.0
    random = np.random.default_rng(whole)
    return ((np.arange(most) + random.random(most)) * (whole / most)).astype(np.int64), whole / most

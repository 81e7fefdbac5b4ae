"""Warp-wide steps: which lanes take part, and what index variables hold in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARP = 32  # lanes
MOST_STEPS = 1 << 15  # of one loop that are looked at
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Lanes:
    """``n`` steps of warps: ``active`` (bool[n, 32]), the value of every index variable in every lane (int64[n, 32]),
    and how many steps of the whole launch each stands for (``weights``, float64[n])."""

    active: NDArray[np.bool_]
    weights: NDArray[np.float64]
    indices: Mapping[str, Indices] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Indices:
        return self.indices[name]

    def where(self, mask: NDArray[np.bool_]) -> Lanes:
        """Those lanes alone for which ``mask`` holds."""
        return Lanes(self.active & mask, self.weights, self.indices)

    def everywhere(self) -> Lanes:
        """All lanes."""
        return Lanes(np.ones_like(self.active), self.weights, self.indices)

    def having(self, **indices: NDArray[Any]) -> Lanes:
        """With further index variables; an array of fewer lanes or steps is repeated."""
        shape = self.active.shape
        made = {name: np.broadcast_to(np.asarray(value, np.int64), shape) for name, value in indices.items()}
        return Lanes(self.active, self.weights, {**self.indices, **made})

    def rows(self, which: NDArray[np.intp]) -> Lanes:
        """The steps at some positions, any of them several times."""
        indices = {name: value[which] for name, value in self.indices.items()}
        return Lanes(self.active[which], self.weights[which], indices)


@dataclass(frozen=True)
class Load:
    """A load, or an atomic operation, of a traversal's own: on the element at the index variable ``index`` of
    ``array``, of ``size`` bytes."""

    array: str
    index: str
    size: int = 4


@dataclass(frozen=True)
class Step:
    """What lanes do: ``loads`` and ``atomics`` of the traversal's own, and the statements of some ``blocks`` of the
    kernel's template.

    ``kinds``: only the accesses of these kinds, where a block does one thing or another.
    """

    lanes: Lanes
    loads: tuple[Load, ...] = ()
    blocks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("load", "reduce")
    atomics: tuple[Load, ...] = ()


def warps(units: NDArray[np.int64], weights: NDArray[np.float64]) -> Lanes:
    """One step for each of some warps; every lane takes part. ``unit``: the warp's number."""
    lanes = Lanes(np.ones((len(units), WARP), np.bool_), np.asarray(weights, np.float64))
    return lanes.having(unit=units[:, None], lane=np.arange(WARP))


def repeated(lanes: Lanes, name: str, first: Indices, last: Indices, stride: Indices | int = 1) -> Lanes:
    """The iterations of ``for (name = first; name < last; name += stride)``: a step for each that some lane makes, in
    which lanes that are done idle. Of more than ``MOST_STEPS`` so many stand for all, drawn evenly."""
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
    """At most ``most`` of 0 .. ``whole`` - 1, one at random from each of as many equal parts; and how many of all each
    stands for."""
    if whole <= most:
        return np.arange(whole), 1.0
    random = np.random.default_rng(whole)
    return ((np.arange(most) + random.random(most)) * (whole / most)).astype(np.int64), whole / most

"""What of a settled answer a changed graph no longer supports."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.differences import Differences, Posed, in_any_feature
from harness.language.expressions import K
from harness.language.program import EdgeReduce
from harness.language.settling import OneWay

Array = NDArray[Any]
ROUNDING = 1e-6  # relative: a value that a float32 engine took from a message equals the message in float64 to this


def unsupported(way: OneWay, before: Posed, after: Posed, differences: Differences) -> tuple[Array, int]:
    """For a program that tightens: the features ``[V, ...]`` whose value may have come by an arc that is gone or gives
    a worse value now, directly or through others; and how many arcs were looked at to tell.

    ``before`` is settled. What has the value it starts from has it of itself. An arc gave a value where its message
    equals it; that follows values upstream, and more than these where arcs tie.
    """
    message, name = way.reduction.message, way.state
    x, start = before.values[name], after.values[name]
    own = x == start
    lost = (way.sign * start > way.sign * x) & _near(x, start_of(before, name), way.sign)
    arcs = np.append(differences.removed, worse_arcs(way, before, after, differences))
    looked = len(arcs)
    heads = before.graph.csr.neighbours[arcs]
    gave = _near(x[heads], before.messages(message, arcs), way.sign) & ~own[heads]
    np.logical_or.at(lost, heads, gave)
    frontier = np.flatnonzero(in_any_feature(lost))
    while len(frontier):
        arcs = before.out_arcs(frontier)
        looked += len(arcs)
        heads, tails = before.graph.csr.neighbours[arcs], before.sources[arcs]
        gave = _near(x[heads], before.messages(message, arcs), way.sign) & lost[tails] & ~own[heads]
        fresh = gave & ~lost[heads]
        np.logical_or.at(lost, heads, fresh)
        frontier = np.unique(heads[in_any_feature(fresh)])
    return lost, looked


def start_of(before: Posed, name: str) -> Array:
    """What a property started from, in the shape of its values."""
    prop = before.program.properties[name]
    given = before.values[prop.start] if isinstance(prop.start, str) else np.float64(prop.start or 0.0)
    return np.broadcast_to(given, before.values[name].shape)


def worse_arcs(way: OneWay, before: Posed, after: Posed, differences: Differences) -> Array:
    """Of the arcs that both graphs have, those (in the old one) whose message tightens less now."""
    old, new = differences.old[differences.changed], differences.new[differences.changed]
    message, x = way.reduction.message, {way.state: before.values[way.state]}
    was, now = before.messages(message, old), after.messages(message, new, x)
    return old[in_any_feature(way.sign * now > way.sign * was)]


def _near(x: Array, given: Array, sign: int) -> NDArray[np.bool_]:
    """Where a value is no better than what was given."""
    with np.errstate(invalid="ignore"):
        slack = np.where(np.isfinite(x), ROUNDING * np.abs(x), 0.0)
        return np.asarray(sign * given <= sign * x + slack)


def unreached(name: str, stages: list[EdgeReduce], before: Posed, after: Posed) -> tuple[Array, int]:
    """For a program that is linear in its sources: the features ``[V, ...]`` that are not zero in the old answer though
    in the new graph no path leads there from where the start is not zero; and how many arcs were looked at to tell.

    Such values would only feed each other. The search ends as soon as all that is in question has been reached.
    """
    shape = after.program.properties[name].shape
    reached: Array = after.values[name] != 0
    asked = (before.values[name] != 0) & ~reached
    frontier, fresh, looked = np.flatnonzero(in_any_feature(reached)), reached, 0
    while len(frontier) and (asked & ~reached).any():
        arcs = after.out_arcs(frontier)
        looked += len(arcs)
        heads = after.graph.csr.neighbours[arcs]
        arrived = np.zeros_like(reached)
        for stage in stages:
            carried = after.messages(stage.message, arcs, {name: fresh.astype(np.float64)}) != 0
            by_feature = shape == (K,) and stage.message.shape[-1:] == (K,)
            axes = tuple(range(1, carried.ndim - 1)) if by_feature else tuple(range(1, carried.ndim))
            carried = carried.any(axis=axes) if axes else carried
            at = carried if by_feature else carried.reshape(len(arcs), *(1 for _ in shape))
            np.logical_or.at(arrived, heads, np.broadcast_to(at, (len(arcs), *reached.shape[1:])))
        fresh = arrived & ~reached
        reached = reached | fresh
        frontier = np.flatnonzero(in_any_feature(fresh))
    return asked & ~reached, looked

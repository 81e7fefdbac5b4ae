"""Invalidation: values of a settled answer that a changed graph no longer supports."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.differences import Differences, Posed, in_any_feature
from harness.language.expressions import K
from harness.language.monotone import OneWay
from harness.language.program import EdgeReduce

Array = NDArray[Any]
ROUNDING = 1e-6  # relative: a value that a float32 engine copied from a message equals the float64 message up to this


def unsupported(way: OneWay, before: Posed, after: Posed, differences: Differences) -> tuple[Array, int]:
    """Find the values of a tightening program that may depend on removed or worsened edges, directly or through others.

    Return the features ``[V, ...]`` to invalidate, bool, and the number of edges examined. ``before`` must be settled.
    A value equal to its start depends on no edge. An edge may have supplied a value if its message equals the value.
    The search follows values upstream; where edges tie, it invalidates more values than necessary.
    """
    message, name = way.reduction.message, way.state
    x, start = before.values[name], after.values[name]
    own = x == start
    lost = (way.sign * start > way.sign * x) & _near(x, start_of(before, name), way.sign)
    edges = np.append(differences.removed, worse_edges(way, before, after, differences))
    looked = len(edges)
    heads = before.graph.csr.neighbours[edges]
    gave = _near(x[heads], before.messages(message, edges), way.sign) & ~own[heads]
    np.logical_or.at(lost, heads, gave)
    frontier = np.flatnonzero(in_any_feature(lost))
    while len(frontier):
        edges = before.out_edges(frontier)
        looked += len(edges)
        heads, tails = before.graph.csr.neighbours[edges], before.sources[edges]
        gave = _near(x[heads], before.messages(message, edges), way.sign) & lost[tails] & ~own[heads]
        fresh = gave & ~lost[heads]
        np.logical_or.at(lost, heads, fresh)
        frontier = np.unique(heads[in_any_feature(fresh)])
    return lost, looked


def start_of(before: Posed, name: str) -> Array:
    """Return the start of a property, in the shape of its values."""
    prop = before.program.properties[name]
    given = before.values[prop.start] if isinstance(prop.start, str) else np.float64(prop.start or 0.0)
    return np.broadcast_to(given, before.values[name].shape)


def worse_edges(way: OneWay, before: Posed, after: Posed, differences: Differences) -> Array:
    """Return the common edges, by their positions in the old graph, whose message is a weaker bound in the new
    graph."""
    old, new = differences.old[differences.changed], differences.new[differences.changed]
    message, x = way.reduction.message, {way.state: before.values[way.state]}
    was, now = before.messages(message, old), after.messages(message, new, x)
    return old[in_any_feature(way.sign * now > way.sign * was)]


def _near(x: Array, given: Array, sign: int) -> NDArray[np.bool_]:
    """Return where a value is at most as good as the given one."""
    with np.errstate(invalid="ignore"):
        slack = np.where(np.isfinite(x), ROUNDING * np.abs(x), 0.0)
        return np.asarray(sign * given <= sign * x + slack)


def unreached(name: str, stages: list[EdgeReduce], before: Posed, after: Posed) -> tuple[Array, int]:
    """Find the values of a linear program that no path from a non-zero start supports in the new graph.

    The program is linear in its sources. Return the features ``[V, ...]`` that are non-zero in the old answer but
    unreachable in the new graph, bool, and the number of edges examined. Such values would only sustain each other
    along cycles. The search ends as soon as all candidates have been reached.
    """
    shape = after.program.properties[name].shape
    reached: Array = after.values[name] != 0
    requested = (before.values[name] != 0) & ~reached
    frontier, fresh, looked = np.flatnonzero(in_any_feature(reached)), reached, 0
    while len(frontier) and (requested & ~reached).any():
        edges = after.out_edges(frontier)
        looked += len(edges)
        heads = after.graph.csr.neighbours[edges]
        arrived = np.zeros_like(reached)
        for stage in stages:
            carried = after.messages(stage.message, edges, {name: fresh.astype(np.float64)}) != 0
            by_feature = shape == (K,) and stage.message.shape[-1:] == (K,)
            axes = tuple(range(1, carried.ndim - 1)) if by_feature else tuple(range(1, carried.ndim))
            carried = carried.any(axis=axes) if axes else carried
            at = carried if by_feature else carried.reshape(len(edges), *(1 for _ in shape))
            np.logical_or.at(arrived, heads, np.broadcast_to(at, (len(edges), *reached.shape[1:])))
        fresh = arrived & ~reached
        reached = reached | fresh
        frontier = np.flatnonzero(in_any_feature(fresh))
    return requested & ~reached, looked

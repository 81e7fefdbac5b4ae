"""Warm starts: from the answer on one graph to a start on a changed graph, with the same fixed point as a cold start.

The values to keep are derived from the program:
:mod:`harness.language.monotone`, :mod:`harness.language.invalidation`.

- A program that tightens (shortest paths, components) keeps all values if edges were added or give better values.
  Values that may depend on a removed or worsened edge are reset to the start, and so are values derived from them.
- A program that peels (the k-core) keeps all values if edges were removed, and restarts if edges were added.
- Other programs keep all values if the algorithm states that it settles at a fixed point from any start
  (:meth:`harness.language.algorithm.Algorithm.fixed_points`). If messages are linear in their sources, values that no
  path from the start supports any more are reset, since cycles would sustain them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import FixedPoints, Inputs
from harness.language.analysis import linear, source_properties
from harness.language.differences import Differences, Posed, differ, in_any_feature
from harness.language.invalidation import start_of, unreached, unsupported, worse_edges
from harness.language.monotone import OneWay, one_way, strictly_increasing
from harness.language.program import EdgeReduce, EdgeStep, EdgeUpdate, Program

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
Values = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The start of a run on a changed graph.

    ``state``: for ``Engine.reset``; empty for a restart. ``stale``: vertices that a superstep may change, bool[V], for
    ``Engine.narrow`` (None: any vertex). ``senders``: sources whose messages must be sent again, bool[V].
    ``vertices_reset``: number of vertices whose value was reset. ``edges_examined``: number of edges examined to find
    them. ``summary``: a summary in words.
    """

    summary: str
    state: dict[str, Array] = field(default_factory=dict)
    stale: NDArray[np.bool_] | None = None
    senders: NDArray[np.bool_] | None = None
    vertices_reset: int = 0
    edges_examined: int = 0
    restarted: bool = False


def kept_properties(program: Program) -> tuple[str, ...]:
    """Return the properties whose values a warm start keeps: all state."""
    return tuple(prop.name for prop in program.properties.values() if prop.role == "state")


def inputs_after(program: Program, before: Inputs, fresh: Inputs) -> Inputs:
    """Return the inputs on the changed graph.

    Those of edges and of the whole graph are ``fresh``. Those of vertices (sources, seeds, queries) stay as ``before``,
    so that the question stays the same.
    """
    kept = {name: value for name, value in before.properties.items() if program.properties[name].place == "vertex"}
    return Inputs({**fresh.properties, **kept}, fresh.parameters)


def warm_start(
    program: Program,
    features: int,
    old: tuple[Graph, Inputs],
    new: tuple[Graph, Inputs],
    values: Values,
    *,
    fixed_points: FixedPoints = "unknown",
    settled: bool = True,
) -> WarmStart:
    """Return the start on the graph and inputs ``new``, given the answer on ``old``.

    ``values``: the :func:`kept_properties` after the run on ``old``. ``settled``: whether that run had settled. Raises
    InvalidInput for values or inputs that do not fit.
    """
    if not (settled and program.control.settles):
        return restart("the previous run had not settled")
    if old[0].num_vertices != new[0].num_vertices:
        return restart("the number of vertices changed")
    before, after = Posed.of(program, old[0], features, old[1], values), Posed.of(program, new[0], features, new[1])
    differences = Differences.between(before, after)
    way = one_way(program)
    if isinstance(way, OneWay):
        return _one_way_start(way, before, after, differences)
    if fixed_points == "unknown":
        return restart(f"it is not known that {program.name} settles from another start")
    return _iterated_start(before, after, differences)


def restart(reason: str) -> WarmStart:
    """Return a cold start, with the reason."""
    return WarmStart(f"restarted: {reason}", restarted=True)


def _one_way_start(way: OneWay, before: Posed, after: Posed, differences: Differences) -> WarmStart:
    program, name = before.program, before.program.name
    if differences.everywhere or differences.vertices.any():
        return restart(f"inputs of {name} changed other than those of edges")
    start, x = after.values[way.state], before.values[way.state]
    if way.kind == "peels":
        if len(differences.added):
            return restart(f"{name} only removes vertices and cannot continue after insertions")
        least = {way.state: np.full_like(x, way.least)}
        shrinks = (before.messages(way.reduction.message, differences.removed, least) >= 0).all()
        if differences.changed.any() or not shrinks or (start != start_of(before, way.state)).any():
            return restart(f"the change may increase the sums of {name}, which only removes vertices")
        return _finish(before, after, differences, {way.state: x}, 0, 0)
    lost, looked = np.zeros_like(x, dtype=np.bool_), 0
    worse = len(differences.removed) or len(worse_edges(way, before, after, differences))
    if worse or (way.sign * start > way.sign * start_of(before, way.state)).any():
        message, shape = way.reduction.message, program.properties[way.state].shape
        if not strictly_increasing(message, way.state) or message.shape != shape:
            return restart(f"the messages of {name} do not determine which edge supplied a value")
        lost, looked = unsupported(way, before, after, differences)
    better = np.minimum if way.sign > 0 else np.maximum
    state = {way.state: np.where(lost, start, better(x, start))}
    return _finish(before, after, differences, state, int(in_any_feature(lost & (x != start)).sum()), looked)


def _iterated_start(before: Posed, after: Posed, differences: Differences) -> WarmStart:
    program, state, lost, looked = before.program, {}, np.zeros(before.graph.num_vertices, np.bool_), 0
    newly_joined = (before.graph.in_degrees == 0) & (after.graph.in_degrees > 0)
    stages = [stage for stage in program.stages if isinstance(stage, EdgeReduce) and source_properties(program, stage)]
    for name in kept_properties(program):
        values, start = before.values[name], after.values[name]
        if program.properties[name].place == "edge":
            state[name] = start.copy()
            state[name][differences.new] = values[differences.old]
            continue
        back = np.broadcast_to(newly_joined.reshape(-1, *(1 for _ in values.shape[1:])), values.shape)
        sent = [stage for stage in stages if name in source_properties(program, stage)]
        alone = all(source_properties(program, s) == (name,) and linear(s.message, frozenset([name])) for s in sent)
        given = isinstance(program.properties[name].start, str)
        if sent and alone and given and (len(differences.removed) or differences.changed.any()):
            gone, edges = unreached(name, sent, before, after)
            back, looked = back | gone, looked + edges
        state[name] = np.where(back, start, values)
        lost |= differ(state[name], values)
    return _finish(before, after, differences, state, int(np.count_nonzero(lost)), looked)


def _finish(
    before: Posed, after: Posed, differences: Differences, state: dict[str, Array], lost: int, looked: int
) -> WarmStart:
    """Compute the stale vertices for engines and the summary of the warm start."""
    program = before.program
    summary = f"warm, {lost} {'vertex' if lost == 1 else 'vertices'} reset" if lost else "warm"
    floats = {name: value if value.dtype == np.bool_ else value.astype(np.float32) for name, value in state.items()}
    if differences.everywhere or any(isinstance(stage, (EdgeUpdate, EdgeStep)) for stage in program.stages):
        return WarmStart(summary, floats, vertices_reset=lost, edges_examined=looked)
    vertex = [name for name in state if program.properties[name].place == "vertex"]
    moved = np.logical_or.reduce([differ(state[name], before.values[name]) for name in vertex])
    heads = after.graph.csr.neighbours
    touched = np.append(differences.added, differences.new[differences.changed])
    stale = differences.vertices | moved
    stale[before.graph.csr.neighbours[differences.removed]] = True
    stale[heads[touched]] = True
    stale[heads[moved[after.sources]]] = True
    senders = moved.copy()
    senders[after.sources[touched]] = True
    senders[after.sources[moved[heads]]] = True
    return WarmStart(summary, floats, stale, senders, lost, looked)

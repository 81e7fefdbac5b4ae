"""Lower bounds of the bytes that supersteps move, for any engine, from the visited edges and vertices that it reports.

Counted are arrays of distinct addresses, each once: a 4-byte id for every visited edge and, if all edges are visited,
the properties that their messages need. An engine may compute a property's part of a message in advance, skip what a
condition masks, and keep vertices that do not change. Therefore neither offsets, inputs of vertices nor temporary
properties count. Rows are taken to be read and written whole, in float32.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Superstep
from harness.facts import GraphFacts
from harness.language import Inputs, Program
from harness.language.evaluation import concrete
from harness.language.expressions import Expression, Shape
from harness.language.program import EdgeReduce, EdgeUpdate, edge_steps, reads
from harness.records.floor import Work

if TYPE_CHECKING:
    from harness.campaign.guarded_engine import GuardedEngine
    from harness.campaign.measurement import Timing
    from harness.campaign.problem import Problem
    from harness.graph import Graph

WORK = "work"  # the field of a report
ID = FLOAT = 4  # bytes
_PARTS_OF_PRODUCT = 3  # a product may run as up to three sums, which each visit an edge
_LOOK = 4096  # first values that are compared; those of most inputs differ


def work_of(engine: GuardedEngine, problem: Problem, timing: Timing) -> Work:
    """Return what the latest timed run did at least; call it before the next run.

    Of features in panels (:class:`harness.panels.engine.PanelEngine`) that is the work of one panel. A superstep
    reports the active sources of the panel with most.
    """
    program, steps = problem.program, timing.statistics.supersteps
    same = alike(program, problem.inputs, problem.graph)
    features = min(problem.features, engine.resolved_options().get("panel", problem.features))
    moved = least_bytes(program, problem.graph.facts, features, steps, same)
    done = engine.operations(timing.statistics)
    return Work(bytes=moved, adds=done.adds, wide=done.wide, launches=done.launches)


@dataclass(frozen=True)
class EdgeNeeds:
    """The data that the messages of a program read.

    ``row``: bytes of the changing properties of a source. ``edge``: bytes of the properties of an edge. ``most_visits``
    of an edge in a superstep, ``stages`` over edges. ``extrema``: all reductions are minima or maxima, which need no
    messages of sources that did not move. ``keeps``: no stage updates edges, so that only vertices move.
    """

    row: int
    edge: int
    most_visits: int
    stages: int
    extrema: bool
    keeps: bool


def edge_needs(program: Program, features: int, alike: Container[str] = ()) -> EdgeNeeds:
    """Return what the messages of a program need; ``alike``: inputs of edges that all have one value."""
    stages = [stage for stage in program.stages if isinstance(stage, (EdgeReduce, EdgeUpdate))]
    reducers = [stage.reducer if isinstance(stage, EdgeReduce) else "" for stage in stages]
    bytes_of = {}
    for name, prop in program.properties.items():
        moving = prop.role == "state" or (prop.role == "input" and prop.place == "edge" and name not in alike)
        bytes_of[name] = _bytes(prop.shape, features) if moving and prop.dtype != "bool" else 0
    values = [expression for stage in stages for expression in stage.expressions()]
    return EdgeNeeds(
        max((_needed(value, {"src"}, bytes_of, features) for value in values), default=0),
        max((_needed(value, {"edge", "reverse"}, bytes_of, features) for value in values), default=0),
        sum(_PARTS_OF_PRODUCT if reducer == "prod" else 1 for reducer in reducers),
        len(stages),
        all(reducer in ("min", "max") for reducer in reducers),
        "" not in reducers,
    )


def least_bytes(
    program: Program, graph: GraphFacts, features: int, supersteps: Sequence[Superstep], alike: Container[str] = ()
) -> list[int]:
    """Return the least bytes of every superstep of a run; ``alike``: see :func:`edge_needs`."""
    if edge_steps(program):
        return [_bytes_in_place(program, graph, features, alike)] * len(supersteps)
    needs, edges = edge_needs(program, features, alike), graph.num_edges
    if not needs.stages or not edges:
        return [0] * len(supersteps)
    visits = {step.edges for step in supersteps}
    # full propagation: the same multiple of the edges in every superstep
    cold = bool(supersteps) and supersteps[0].active >= graph.num_vertices
    full = cold and len(visits) == 1 and all(number and number % edges == 0 for number in visits)
    sides = program.control.alternate
    senders = graph.num_vertices - graph.out_degrees.between(0, 0)
    found = []
    for number, step in enumerate(supersteps):
        whole = full or (step.direction == "dense" and needs.stages == 1 and not sides)
        visited = edges if whole else min(edges, step.edges // needs.most_visits)
        all_active = step.active >= graph.num_vertices
        if needs.extrema and not all_active:
            visited = 0 if step.direction == "push" else visited  # an engine may skip sources that did not move
            whole = False
        moved = ID * visited
        if whole or (visited == edges and all_active and not sides):
            moved += needs.edge * edges + needs.row * senders
            if needs.keeps and number + 1 < len(supersteps):  # rows that move are written
                moved += needs.row * min(senders, supersteps[number + 1].active)
        found.append(moved)
    return found


def _bytes_in_place(program: Program, graph: GraphFacts, features: int, alike: Container[str]) -> int:
    """Return the least bytes of a superstep with steps that update both ends of every edge.

    Rows that a step writes at one end are read and written once for each vertex with such an edge.
    """
    senders = graph.num_vertices - graph.out_degrees.between(0, 0)
    receivers = graph.num_vertices - graph.in_degrees.between(0, 0)
    moved = 0
    for step in edge_steps(program):
        certain = {attribute for value in step.expressions() for attribute in _read_for_certain(value)}
        edge = {name for space, name in certain if space == "edge" and name not in alike}
        moved += graph.num_edges * (ID + sum(_bytes(program.properties[name].shape, features) for name in edge))
        for end, name, _ in step.values:
            vertices = senders if end == "src" else receivers if graph.one_way else 0
            moved += 2 * _bytes(program.properties[name].shape, features) * vertices
    return moved


def alike(program: Program, inputs: Inputs, graph: Graph) -> frozenset[str]:
    """Return the inputs of edges that have the same value on all edges: an engine may keep one."""
    names = [prop.name for prop in program.properties.values() if (prop.place, prop.role) == ("edge", "input")]
    arrays = {name: inputs.properties.get(name, graph.weights if name == "weight" else None) for name in names}
    return frozenset(name for name, array in arrays.items() if array is None or _constant(np.asarray(array)))


def _constant(array: NDArray[Any]) -> bool:
    return not len(array) or bool((array[:_LOOK] == array[0]).all() and (array == array[0]).all())


def _needed(value: Expression, spaces: Container[str], bytes_of: Mapping[str, int], features: int) -> int:
    """Return the bytes that the largest part of an expression needs that depends on the ``spaces`` only.

    An engine may store such a part in place of the properties that it reads.
    """
    found = set(reads(value))
    if not any(space in spaces for space, _ in found):
        return 0
    if all(space in spaces or space == "graph" for space, _ in found):
        read = {name for space, name in _read_for_certain(value) if space in spaces}
        return min(_bytes(value.shape, features), sum(bytes_of[name] for name in read))
    return max((_needed(part, spaces, bytes_of, features) for part in _unconditional(value)), default=0)


def _read_for_certain(value: Expression) -> Iterator[tuple[str, str]]:
    """Yield the reads that no condition masks."""
    if value.op == "read":
        yield value.attribute
    for part in _unconditional(value):
        yield from _read_for_certain(part)


def _unconditional(value: Expression) -> Sequence[Expression]:
    """Return the arguments that are evaluated whatever a condition is."""
    return value.args[:1] if value.op == "where" else value.args


def _bytes(shape: Shape, features: int) -> int:
    return FLOAT * int(np.prod(concrete(shape, features), dtype=np.int64))

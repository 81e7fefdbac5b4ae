"""The stages of a program that a check of one superstep on a sample of vertices needs.

The subgraph consists of the sample, its in-neighbours and the edges from these. It determines the values of a property
after a superstep, unless they depend on values that sources have received in the same superstep. The latter are *lost*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from harness.language.program import (
    SUPERSTEP,
    EdgeReduce,
    EdgeUpdate,
    GraphReduce,
    Program,
    Stage,
    VertexStep,
    edge_steps,
    names_vertices,
    reads,
)

_OF_THE_GRAPH = ("num_vertices", "num_edges")


def not_sampled(program: Program) -> str:
    """Return why supersteps of a program cannot be checked on a sample; empty if they can."""
    if program.control.alternate:
        return "the program alternates sides"
    for step in edge_steps(program):
        return f"{step.name} updates both ends of an edge in place, so a superstep depends on all edges"
    if SUPERSTEP in program.properties:
        return "the program reads the number of the superstep"
    for stage in program.stages:
        if names_vertices(stage):
            return f"{stage.name} names vertices by values, and these may be anywhere in the graph"
    reduced: set[str] = set()
    for stage, fresh in with_fresh(program):
        if any(name in _OF_THE_GRAPH for _, name in reads(stage)):
            return f"{stage.name} reads the size of the graph"
        if isinstance(stage, GraphReduce):
            if reads_any(stage, fresh):
                return f"{stage.name} reduces over the whole graph values received in the same superstep"
            if stage.into in reduced:
                return f"{stage.name} reduces over the whole graph into a property that was reduced before"
            reduced.add(stage.into)
    lost = lost_properties(program)
    for name in program.outputs:
        if name in lost:
            return f"{lost[name]} reads values that its sources received in the same superstep"
    return ""


def lost_properties(program: Program) -> dict[str, str]:
    """Return the properties whose values in the subgraph differ from the whole after a superstep, with the stage that
    causes it."""
    lost: dict[str, str] = {}
    for stage, fresh in with_fresh(program):
        seen = tuple(reads(stage))
        by = [lost[name] for _, name in seen if name in lost]
        by += [stage.name for space, name in seen if space in ("src", "reverse") and name in fresh]
        if by:
            lost |= dict.fromkeys(stage.writes, by[0])
    return lost


def leaving(program: Program) -> tuple[str, ...]:
    """Return the lost state of edges that a superstep on a subgraph determines where the source is sampled.

    Its last update reads from the source what that received in the same superstep, and the reverse edge, so that the
    subgraph has the edges back to the in-neighbours: the messages of belief propagation, for example.
    """
    lost, found = lost_properties(program), []
    for stage, fresh in with_fresh(program):
        if not isinstance(stage, EdgeUpdate) or stage.updates not in lost:
            continue
        seen = tuple(reads(stage))
        known = all(name not in lost or name == stage.updates for _, name in seen)
        only_sources = all(space == "src" for space, name in seen if name in fresh)
        if known and only_sources and any(space == "reverse" for space, _ in seen):
            found.append(stage.updates)
    writers = [stage.updates for stage in program.stages if isinstance(stage, EdgeUpdate)]
    return tuple(name for name in found if writers.count(name) == 1)


def with_fresh(program: Program) -> Iterator[tuple[Stage, frozenset[str]]]:
    """Yield every stage with the properties that by then depend on messages of the same superstep."""
    fresh: frozenset[str] = frozenset()
    for stage in program.stages:
        yield stage, fresh
        if isinstance(stage, EdgeReduce) or reads_any(stage, fresh):
            fresh |= frozenset(stage.writes)


def reads_any(stage: Stage, names: frozenset[str]) -> bool:
    """Return whether a stage reads any of the named properties."""
    return any(name in names for _, name in reads(stage))


def without_edges(program: Program) -> Program:
    """Return the part of a program that needs no edges.

    It consists of whole-graph reductions and vertex stages that do not depend on messages of the same superstep.
    """
    stages = tuple(
        stage
        for stage, fresh in with_fresh(program)
        if isinstance(stage, (GraphReduce, VertexStep)) and not reads_any(stage, fresh)
    )
    written = {name for stage in stages for name in stage.writes}
    properties = {
        name: prop
        for name, prop in program.properties.items()
        if prop.place != "edge" and (prop.role != "temporary" or name in written)
    }
    return replace(program, properties=properties, stages=stages)


def determined(program: Program) -> tuple[str, ...]:
    """Return the properties that a superstep on a subgraph determines: the outputs, and state that is not lost."""
    lost = lost_properties(program)
    return tuple(dict.fromkeys((*program.outputs, *(name for name in state_of(program) if name not in lost))))


def state_of(program: Program) -> tuple[str, ...]:
    """Return the state of vertices and edges."""
    return tuple(name for name, prop in program.properties.items() if prop.role == "state" and prop.place != "graph")


def part_for(program: Program, names: Collection[str]) -> Program:
    """Return the stages of a program, and their properties, that some properties after a superstep depend on."""
    needed = set(names)
    stages: list[Stage] = []
    for stage in reversed(program.stages):
        if not needed.isdisjoint(stage.writes):
            stages.insert(0, stage)
            needed |= {*stage.writes, *(name for _, name in reads(stage))}
    known = program.properties
    needed |= {prop.start for name, prop in known.items() if name in needed and isinstance(prop.start, str)}
    properties = {name: prop for name, prop in known.items() if name in needed}
    return replace(program, properties=properties, stages=tuple(stages))

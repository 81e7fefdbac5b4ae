"""Programs: properties, stages and control, as plain immutable data.

A program is the result of tracing an algorithm. One superstep runs the stages in order; every stage reads what the
stages before it wrote. An edge stage reads source, destination and edge; its writes are visible from the next stage on.
The exception is :class:`EdgeStep`, in which every edge reads what the edges before it wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from harness.language.errors import SourceLine
from harness.language.expressions import DType, Expression, Shape, walk
from harness.language.pretty import format_expression

Reducer: TypeAlias = Literal["sum", "prod", "min", "max"]
REDUCERS: Final[tuple[Reducer, ...]] = ("sum", "prod", "min", "max")
IDENTITY: Final[dict[Reducer, float]] = {"sum": 0.0, "prod": 1.0, "min": float("inf"), "max": float("-inf")}
Norm: TypeAlias = Literal["max", "sum"]
NORMS: Final[tuple[Norm, ...]] = ("max", "sum")
Place: TypeAlias = Literal["vertex", "edge", "graph"]
Role: TypeAlias = Literal["input", "state", "temporary", "builtin"]
End: TypeAlias = Literal["src", "dst"]
ENDS: Final[tuple[End, ...]] = ("src", "dst")
EdgeOrder: TypeAlias = Literal["any", "given"]
EDGE_ORDERS: Final[tuple[EdgeOrder, ...]] = ("any", "given")
Extremum: TypeAlias = Literal["min", "max"]
EXTREMA: Final[tuple[Extremum, ...]] = ("min", "max")
Conflicts: TypeAlias = Literal["serial", "lossy"]
CONFLICTS: Final[tuple[Conflicts, ...]] = ("serial", "lossy")

BUILTIN_VERTEX: Final = ("degree", "in_degree", "out_degree")
BUILTIN_GRAPH: Final = ("num_vertices", "num_edges")
SUPERSTEP: Final = "superstep"  # the number of the superstep, from 0; a builtin of programs that read it


@dataclass(frozen=True)
class Property:
    """A value on every vertex, on every edge, or one for the graph.

    ``role``: *input* is given and constant. *state* persists across supersteps and has a ``start`` (another property's
    name or a constant). *temporary* is written in a superstep before it is read. *builtin* comes from the graph
    (degrees). ``nonnegative``: the author's promise that no value is below zero; inputs and the reference run are
    checked for it.
    """

    name: str
    place: Place
    shape: Shape
    dtype: DType = "float"
    role: Role = "temporary"
    start: str | float | None = None
    nonnegative: bool = False


@dataclass(frozen=True, eq=False)
class EdgeReduce:
    """Compute ``into(v) = reducer over in-edges (u, v) of message(src=u, dst=v, edge)``.

    ``initial`` (prod only): a property of the destination that is one more factor, applied before the scaling.
    """

    name: str
    into: str
    reducer: Reducer
    message: Expression
    line: SourceLine
    initial: Expression | None = None

    def expressions(self) -> tuple[Expression, ...]:
        return (self.message,) if self.initial is None else (self.message, self.initial)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.into,)


@dataclass(frozen=True, eq=False)
class EdgeUpdate:
    """Compute ``updates(u, v) = value(src=u, dst=v, edge)`` on every edge; ``edge.reverse`` reads the previous
    values."""

    name: str
    updates: str
    value: Expression
    line: SourceLine

    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.updates,)


@dataclass(frozen=True, eq=False)
class VertexStep:
    """New values of vertex properties from the vertex's own; all are read before any is written."""

    name: str
    values: tuple[tuple[str, Expression], ...]
    line: SourceLine

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(value for _, value in self.values)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)


@dataclass(frozen=True, eq=False)
class VertexReduce:
    """Compute ``into(w) = reducer over the vertices v that name w of message(v)``.

    Vertex v names ``at(v)`` (:mod:`harness.language.named_vertices`). A vertex that names none sends nothing.
    """

    name: str
    into: str
    reducer: Extremum
    message: Expression
    at: Expression
    line: SourceLine

    def expressions(self) -> tuple[Expression, ...]:
        return (self.message, self.at)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.into,)


@dataclass(frozen=True, eq=False)
class GraphReduce:
    """Compute ``into = reducer over all vertices of value(v)``: one value for the graph."""

    name: str
    into: str
    reducer: Reducer
    value: Expression
    line: SourceLine

    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.into,)


@dataclass(frozen=True, eq=False)
class EdgeStep:
    """Update both ends of every edge in place, one edge after another, each edge once.

    ``values``: the new value of a vertex property at an end of the edge, ``(end, property, value)``. An edge reads the
    values of both ends after all earlier edges, then writes both. ``order``: *given*, that of the edges in the CSR;
    *any*, some order, which may differ between supersteps. ``conflicts`` is the least that the program accepts.
    *serial*: the result is that of the edges one after another. *lossy*: of two edges with a common end that run at the
    same time, one may overwrite what the other wrote, or add its change to it.
    """

    name: str
    values: tuple[tuple[End, str, Expression], ...]
    order: EdgeOrder
    conflicts: Conflicts
    line: SourceLine

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(value for _, _, value in self.values)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for _, name, _ in self.values))


Stage: TypeAlias = EdgeReduce | EdgeUpdate | VertexStep | VertexReduce | GraphReduce | EdgeStep


@dataclass(frozen=True)
class Control:
    """The stopping rule of a run, and the vertices that a superstep updates.

    A run is settled when the properties that edge stages and whole-graph reductions read move by no more than
    ``tolerance`` in a superstep. ``tolerance`` names a run-time parameter; the movement is measured in ``norm``
    (:mod:`harness.language.criterion`). Without a tolerance the run is settled when nothing moves at all.

    ``relative``: the movement is relative to the new values; always so in the norm *sum*. ``settles`` False: exactly
    ``max_supersteps`` supersteps run. ``alternate``: even supersteps update the left side of a bipartite graph, odd
    ones the right; edge updates and whole-graph reductions cover both sides.
    """

    max_supersteps: int = 100
    settles: bool = True
    tolerance: str | None = None
    relative: bool = False
    alternate: bool = False
    norm: Norm = "max"


@dataclass(frozen=True)
class Output:
    """A property that is an output, with its allowed relative error (per vertex, in the maximum norm).

    ``floor``: errors are relative to the vertex's magnitude, but at least to this share of the largest magnitude in the
    output.
    """

    name: str
    bound: float
    floor: float = 0.0


@dataclass(frozen=True, eq=False)
class Program:
    """A traced algorithm.

    ``parameters`` maps run-time parameters to their values at tracing. ``setup``: stages that run once, before the
    first superstep (:mod:`harness.language.once`); their results are inputs. ``earlier``: the phase that runs before
    this one (:mod:`harness.language.phases`); its outputs are inputs.
    """

    name: str
    properties: Mapping[str, Property]
    stages: tuple[Stage, ...]
    control: Control
    results: tuple[Output, ...]
    parameters: Mapping[str, float]
    setup: tuple[Stage, ...] = ()
    earlier: Program | None = None

    @property
    def phases(self) -> tuple[Program, ...]:
        """The phases in the order in which they run; this program is the last one."""
        return (*(self.earlier.phases if self.earlier is not None else ()), self)

    @property
    def answers(self) -> dict[str, Property]:
        """The outputs of all phases, by name."""
        return {name: phase.properties[name] for phase in self.phases for name in phase.outputs}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the properties to validate, of this phase."""
        return tuple(result.name for result in self.results)

    @property
    def bound(self) -> float:
        """The largest relative error that any output may have."""
        return max(result.bound for result in self.results)

    @property
    def max_supersteps(self) -> int:
        """The largest number of supersteps of a run."""
        return self.control.max_supersteps

    @property
    def names_vertices(self) -> bool:
        """True if a stage reads from, or reduces into, vertices that values name
        (:mod:`harness.language.named_vertices`)."""
        return any(names_vertices(stage) for stage in self.stages)

    @property
    def fingerprint(self) -> str:
        """A hash of the program's structure; parameter values and source lines are excluded."""
        text = json.dumps(self.serialise(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def serialise(self) -> dict[str, Any]:
        """Return plain data that determines the program up to run-time parameter values."""
        once = {"setup": [_serialise_stage(stage) for stage in self.setup]} if self.setup else {}
        before = {"earlier": self.earlier.serialise()} if self.earlier is not None else {}
        return {
            **before,
            **once,
            "name": self.name,
            "properties": [_serialise_property(prop) for prop in self.properties.values()],
            "stages": [_serialise_stage(stage) for stage in self.stages],
            "control": _serialise_control(self.control),
            "outputs": [r.name for r in self.results],
            "parameters": sorted(self.parameters),
        }


def _serialise_control(control: Control) -> list[Any]:
    return [control.settles, control.tolerance, control.relative, control.alternate, control.norm]


def _serialise_property(prop: Property) -> list[Any]:
    promise = ["nonnegative"] if prop.nonnegative else []
    return [prop.name, prop.place, str(prop.shape), prop.dtype, prop.role, prop.start, *promise]


def _serialise_stage(stage: Stage) -> list[Any]:
    reducer = getattr(stage, "reducer", None)
    found = [type(stage).__name__, stage.name, reducer, list(stage.writes), [e.key for e in stage.expressions()]]
    if isinstance(stage, EdgeStep):
        found += [[[end, name] for end, name, _ in stage.values], stage.order, stage.conflicts]
    return found


def edge_steps(program: Program) -> tuple[EdgeStep, ...]:
    """Return the stages that update both ends of edges in place."""
    return tuple(stage for stage in program.stages if isinstance(stage, EdgeStep))


def reads(stage_or_expression: Stage | Expression) -> Iterator[tuple[str, str]]:
    """Yield every distinct ``(space, property)`` that is read; the space of another vertex's property is *at*."""
    roots = (stage_or_expression,) if isinstance(stage_or_expression, Expression) else stage_or_expression.expressions()
    for node in walk(*roots):
        if node.op == "read":
            yield node.attribute
        elif node.op == "at":
            yield "at", node.attribute


def names_vertices(stage: Stage) -> bool:
    """Return whether a stage reads from, or reduces into, vertices that values name."""
    return isinstance(stage, VertexReduce) or any(space == "at" for space, _ in reads(stage))


def describe(program: Program) -> str:
    """Return the program, or one phase of it, as text: properties, stages in order, control."""
    lines = [f"program {program.name}{_phase(program)}"]
    for prop in program.properties.values():
        if prop.role != "builtin":
            start = f", start {prop.start}" if prop.start is not None else ""
            promise = ", nonnegative" if prop.nonnegative else ""
            lines.append(f"  {prop.place} {prop.name}: {prop.dtype}{prop.shape} ({prop.role}{start}{promise})")
    lines += [f"  once, {stage.name}: {line}" for stage in program.setup for line in _describe_stage(stage)]
    lines += [f"  {stage.name}: {line}" for stage in program.stages for line in _describe_stage(stage)]
    control = program.control
    rule = f"{control.max_supersteps}"
    if control.settles:
        measure = "sum" if control.norm == "sum" else "relative" if control.relative else "absolute"
        within = "exactly" if control.tolerance is None else f"within self.{control.tolerance}, {measure}"
        rule = f"until settled ({within}), at most {control.max_supersteps}"
    lines.append(f"  supersteps: {rule}{', alternating sides' if control.alternate else ''}")
    lines += [f"  output {result.name}, relative error at most {result.bound:g}" for result in program.results]
    return "\n".join(lines)


def _phase(program: Program) -> str:
    """Return which phase of several a program is, for its title."""
    return f", phase {len(program.phases)}" if program.earlier is not None else ""


def _describe_stage(stage: Stage) -> list[str]:
    match stage:
        case EdgeReduce():
            condition, message = _guarded(
                stage.message, lambda e: e.op == "const" and e.attribute == IDENTITY[stage.reducer]
            )
            chosen = f" where {condition}" if condition else ""
            first = f"{format_expression(stage.initial)} times the " if stage.initial is not None else ""
            return [f"{stage.into}(v) = {first}{stage.reducer} over in-edges{chosen} of {message}"]
        case EdgeUpdate():
            return [f"{stage.updates}(u, v) = {_kept(stage.value, ('edge', stage.updates))}"]
        case VertexStep():
            return [f"{name}(v) = {_kept(value, ('v', name))}" for name, value in stage.values]
        case VertexReduce():
            named = format_expression(stage.at)
            message = format_expression(stage.message)
            return [f"{stage.into}(w) = {stage.reducer} over the vertices v with {named} = w of {message}"]
        case GraphReduce():
            return [f"{stage.into} = {stage.reducer} over vertices of {format_expression(stage.value)}"]
        case EdgeStep():
            order = "in any order" if stage.order == "any" else "in the order of the CSR"
            head = f"in place, edge by edge {order}, conflicts {stage.conflicts}"
            new = [f"  {end}.{name} = {_kept(value, (end, name))}" for end, name, value in stage.values]
            return [head, *new]


def _kept(value: Expression, old: tuple[str, str]) -> str:
    """Format a new value; a conditional one, which otherwise keeps the old value, with its condition last."""
    condition, new = _guarded(value, lambda e: e.op == "read" and e.attribute == old)
    return f"{new} where {condition}, else unchanged" if condition else new


def _guarded(value: Expression, is_nothing: Callable[[Expression], bool]) -> tuple[str, str]:
    """Format condition and value of ``where(condition, value, nothing)``; for other expressions the condition is
    empty."""
    if value.op == "where" and is_nothing(value.args[2]):
        return format_expression(value.args[0]), format_expression(value.args[1])
    return "", format_expression(value)

"""Tracing: each function of an algorithm is called once with symbolic arguments and returns expressions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, overload

from harness.language.assembly import assembled
from harness.language.control import ControlRecorder
from harness.language.declarations import Declarations
from harness.language.directions import ALONG, Along
from harness.language.edge_steps import edge_step
from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Expression, _operand, read
from harness.language.guards import Guard
from harness.language.named_stages import read_before_written, reduction_at, scalar_to_reduce
from harness.language.once import Once, separated
from harness.language.operators import where
from harness.language.phases import declared_after, needed
from harness.language.program import (
    IDENTITY,
    REDUCERS,
    Conflicts,
    EdgeOrder,
    EdgeReduce,
    EdgeUpdate,
    Extremum,
    GraphReduce,
    Place,
    Program,
    Reducer,
    VertexReduce,
    VertexStep,
    edge_steps,
    reads,
)
from harness.language.readers import (
    ARGUMENTS,
    PLACE_OF_ARGUMENT,
    EdgeReader,
    GraphReader,
    Reader,
    VertexReader,
    vertex_number,
)
from harness.language.recorded_properties import PropertyRecorder
from harness.language.stage_names import line_of, name_of
from harness.language.wellformed import initial_factor, require_float

__all__ = ["ProgramBuilder", "Reader"]

Function = Callable[..., Any]


class ProgramBuilder(PropertyRecorder, ControlRecorder):
    """The recorder that :meth:`Algorithm.build` declares a program with.

    ``line``: the source line to report if something is missing.
    """

    def __init__(self, name: str, line: SourceLine | None = None) -> None:
        self.name, self.line = name, line
        self._earlier: ProgramBuilder | None = None  # the phase before this one
        self._begin(Declarations())

    def _begin(self, properties: Declarations) -> None:
        """Begin a phase that finds some properties."""
        super().__init__()
        self._properties = properties
        self._inherited = frozenset(properties)
        self._outward: list[int] = []  # positions of the reductions over out-edges
        self._results: list[tuple[str, Expression, float]] = []
        self._guard: Guard | None = None
        self._once: ProgramBuilder | None = None
        self._runs_once = False

    @property
    def once(self) -> Once:
        """The recorder of stages that run once, before the first superstep (:mod:`harness.language.once`)."""
        if self._once is None:
            self._once = ProgramBuilder(self.name, self.line)
            self._once._properties = self._properties
            self._once._runs_once = True
        return Once(self._once)

    def then(self) -> None:
        """End a phase: what follows is another one, which runs when this one has ended.

        A phase ends by its own stopping rule. Its outputs are inputs of the phases after it, as are all inputs so far;
        its other state and its temporaries are unknown there.
        """
        ended = copy.copy(self)
        self._begin(declared_after(self._properties, [name for name, _, _ in self._results]))
        self._earlier = ended

    # stages -----------------------------------------------------------------------------------------------------
    def over_edges(
        self, *, into: str | None = None, reduce: Reducer | None = None, updates: str | None = None,
        along: Along = "in", when: Function | None = None, initial: str | None = None,
        update: Literal["both"] | None = None, order: EdgeOrder = "any", conflicts: Conflicts = "serial",
    ) -> Callable[[Function], Function]:  # fmt: skip
        """Decorate an edge function: reduce its messages ``into`` a vertex property, or let it update an edge property
        or both ends of the edge.

        The function takes any of ``src``, ``dst``, ``edge``, ``graph``. ``when`` is a guard over the same arguments: if
        it is false for an edge, neither this stage nor the edge stages directly after it run for that edge. A ``prod``
        of vectors or matrices is scaled, per vertex, to a largest magnitude of 1 (see
        :mod:`harness.language.products`). ``initial``: a vertex property that is one more factor of a ``prod``, before
        it is scaled; ``without()`` does not remove it.

        ``along="out"``: reduce over the out-edges (v, w) of a vertex v instead of its in-edges (u, v); ``src`` is then
        the vertex v that receives, ``dst`` is w. The algorithm's ``prepare_graph`` must return
        ``graph.both_directions()``: :mod:`harness.language.directions` explains why.

        ``update="both"``: the function returns ``{"src": {"property": new value, ...}, "dst": {...}}``. Edges run one
        after another, and each reads what the edges before it wrote (:class:`~harness.language.program.EdgeStep`
        defines ``order`` and ``conflicts``). ``when`` then belongs to this stage only.
        """
        if update is not None:
            if update != "both" or (into, reduce, updates, initial, along) != (None, None, None, None, "in"):
                raise LanguageError('over_edges(update="both") takes order=, conflicts= and when= only')
            return lambda function: self._edge_step(function, when, order, conflicts)
        if (into is None) == (updates is None) or (into is None) != (reduce is None):
            raise LanguageError('over_edges() takes either into= with reduce=, or updates=, or update="both"')
        if (order, conflicts) != ("any", "serial"):
            raise LanguageError('order= and conflicts= belong to over_edges(update="both")')
        if reduce is not None and reduce not in REDUCERS:
            raise LanguageError(f"reduce={reduce!r} is not known; the reducers are {', '.join(REDUCERS)}")
        if along not in ALONG or (along == "out" and updates is not None):
            raise LanguageError(f'along={along!r}: a reduction runs along="in" or along="out"; an update has neither')

        def decorate(function: Function) -> Function:
            value = self._value(function, "edge")
            guard = self._guard_of("edge", when, function)
            line = line_of(function)
            if updates is not None:
                self._edge_update(updates, value, guard, function, line)
            else:
                assert into is not None
                assert reduce is not None
                require_float(value, function.__name__, line)
                if guard is not None:
                    value = where(guard, value, IDENTITY[reduce])
                first = None if initial is None else initial_factor(self._properties, initial, reduce, value, line)
                self._write(into, "vertex", value, line)
                self._note_written(into)
                if along == "out":
                    self._outward.append(len(self._stages))
                self._stages.append(EdgeReduce(name_of(function), into, reduce, value, line, first))
            return function

        return decorate

    def _edge_update(
        self, updates: str, value: Expression, guard: Expression | None, function: Function, line: SourceLine
    ) -> None:
        prop = self._properties.get(updates)
        if prop is None or prop.role != "state" or prop.place != "edge":
            raise LanguageError(f"updates={updates!r} must name an edge property declared with a start", line)
        if guard is not None:
            value = where(guard, value, read("edge", updates, prop.shape, prop.dtype))
        self._properties.write(updates, "edge", value, line)
        self._note_written(updates)
        self._stages.append(EdgeUpdate(name_of(function), updates, value, line))

    def _edge_step(self, function: Function, when: Function | None, order: str, conflicts: str) -> Function:
        self._guard = None
        guard = None if when is None else self._condition(when, "edge", function)
        returned, name, line = self._trace(function, "edge"), name_of(function), line_of(function)
        self._stages.append(edge_step(name, returned, guard, order, conflicts, self._properties, line))
        return function

    @overload
    def over_vertices(self, function: Function) -> Function: ...
    @overload
    def over_vertices(
        self, function: None = None, *, when: Function | None = None, into: str | None = None,
        reduce: Extremum | None = None, at: Function | None = None,
    ) -> Callable[[Function], Function]: ...  # fmt: skip
    def over_vertices(
        self, function: Function | None = None, *, when: Function | None = None, into: str | None = None,
        reduce: Extremum | None = None, at: Function | None = None,
    ) -> Any:  # fmt: skip
        """Decorate a vertex function: it takes ``v`` (and ``graph``) and returns ``{"property": new value, ...}``.

        ``when`` is a guard: if it is false for a vertex, neither this stage nor the vertex stages directly after it run
        for it.

        With ``into``, ``reduce`` (min or max) and ``at`` the function returns a scalar, which is reduced ``into`` a
        property of the vertex that ``at``, a function too, names (:class:`~harness.language.program.VertexReduce`).
        """
        if (into, reduce, at) != (None, None, None):
            return self._over_named(into, reduce, at, when)

        def decorate(function: Function) -> Function:
            result, line = self._trace(function, "vertex"), line_of(function)
            if not isinstance(result, dict) or not result:
                raise LanguageError(f"{function.__name__} must return {{'property': value, ...}}", line)
            guard = self._guard_of("vertex", when, function)
            values = []
            for name, given in result.items():
                value = _operand(given)
                if guard is not None:
                    prop = self._properties.get(name)
                    if prop is None or prop.role == "temporary":
                        raise LanguageError(f"{name!r} is written under a guard: declare it with a start", line)
                    value = where(guard, value, read("v", name, prop.shape, prop.dtype))
                values.append((name, value))
            for name, value in values:
                self._write(name, "vertex", value, line)
            step = VertexStep(name_of(function), tuple(values), line)
            self._stages += read_before_written(step, self._unused, self._write)
            return function

        return decorate if function is None else decorate(function)

    def _over_named(self, into: str | None, reduce: str | None, at: Function | None, when: Function | None) -> Any:
        name, reducer, naming = reduction_at(into, reduce, at, when)

        def decorate(function: Function) -> Function:
            value, line = scalar_to_reduce(self._value(function, "vertex"), function), line_of(function)
            named = vertex_number(self._value(naming, "vertex"), "at=")
            self._write(name, "vertex", value, line)
            self._guard = None
            self._stages.append(VertexReduce(name_of(function), name, reducer, value, named, line))
            return function

        return decorate

    def over_graph(self, *, into: str, reduce: Reducer) -> Callable[[Function], Function]:
        """Decorate a vertex function whose values are reduced over the whole graph; the result is read as
        ``graph.<into>``."""
        if reduce not in REDUCERS:
            raise LanguageError(f"reduce={reduce!r} is not known; the reducers are {', '.join(REDUCERS)}")

        def decorate(function: Function) -> Function:
            value = self._value(function, "vertex")
            line = line_of(function)
            require_float(value, function.__name__, line)
            self._write(into, "graph", value, line)
            self._guard = None
            self._stages.append(GraphReduce(name_of(function), into, reduce, value, line))
            return function

        return decorate

    # answer -----------------------------------------------------------------------------------------------------------
    def output(self, name: str, *, bound: Expression | float, floor: float = 0.0) -> None:
        """Name a property as an output; ``bound`` (an expression of parameters) is its allowed relative error.

        ``floor``: errors are relative to the vertex's own magnitude, but at least to this share of the largest
        magnitude in the output. 0 requires relative accuracy at every vertex. No engine can provide that if values are
        differences of larger numbers, as in the solution of a linear system.
        """
        if name in self._inherited and self._earlier is not None:
            raise LanguageError(f"{name!r} belongs to an earlier phase; its outputs are outputs of the program anyway")
        if name not in self._properties or self._properties[name].role != "state":
            raise LanguageError(f"output {name!r} must be a declared property with a start")
        limit = _operand(bound)
        if limit.shape or any(True for _ in reads(limit)):
            raise LanguageError(
                f"the bound of output {name!r} is {limit!r}; it must be a number computed from parameters"
            )
        if not isinstance(floor, (int, float)) or not 0.0 <= floor <= 1.0:
            raise LanguageError(f"the floor of output {name!r} is {floor!r}; it is a plain number from 0 to 1")
        self._results.append((name, limit, float(floor)))

    def finish(self, parameters: Mapping[str, float]) -> Program:
        """Return the program. Raises LanguageError if something is missing."""
        return self._finish(parameters, self._over_out_edges())

    def _over_out_edges(self) -> str:
        """Return the name of a stage of any phase that reduces over out-edges; empty if there is none."""
        for builder in (self._once, self):
            if builder is not None and builder._outward:
                return builder._stages[builder._outward[0]].name
        return "" if self._earlier is None else self._earlier._over_out_edges()

    def _finish(self, parameters: Mapping[str, float], over_out_edges: str) -> Program:
        """Return the program; ``over_out_edges``: the name of a stage that reduces over out-edges, in any phase."""
        earlier = None if self._earlier is None else self._earlier._finish(parameters, over_out_edges)
        for step in () if earlier is None else edge_steps(earlier):
            raise LanguageError(f"{step.name} updates both ends of edges; only the last phase may do that", step.line)
        what = self.name if earlier is None else f"phase {len(earlier.phases) + 1} of {self.name}"
        if not self._stages:
            raise LanguageError(f"{what} has no stages; decorate functions with p.over_edges, ...", self.line)
        if not self._results:
            raise LanguageError(f"{what} names no output; add p.output('property', bound=...)", self.line)
        written = {name for stage in self._stages for name in stage.writes}
        for name, _, _ in self._results:
            if name not in written:
                raise LanguageError(f"no stage of {what} writes the output {name!r}", self.line)
        once = ([], []) if self._once is None else (self._once._stages, self._once._outward)
        every = self._stages, self._outward
        setup, self._stages = separated(once, every, self._properties, over_out_edges)
        inherited = () if earlier is None else self._inherited
        properties = needed(self._properties, [*setup, *self._stages], inherited)
        return assembled(
            self.name, properties, (setup, self._stages), self._control, self._results, parameters, earlier, self.line
        )

    # implementation ---------------------------------------------------------------------------------------------
    def _trace(self, function: Function, kind: str) -> Any:
        if not inspect.isfunction(function):
            raise LanguageError(f"a stage or a guard is a plain function, not {function!r}")
        if self._after_stages:
            raise LanguageError(
                f"{function.__name__} follows repeat() or until_settled(), but every superstep runs it, as it does the "
                "stages before: there are no final stages. Declare it before them, or begin a phase with then()",
                line_of(function),
            )
        allowed = ARGUMENTS[kind]
        arguments = []
        for name in inspect.signature(function).parameters:
            if name not in allowed:
                raise LanguageError(
                    f"{function.__name__} has an argument {name!r}; {kind} functions take {', '.join(allowed)}",
                    line_of(function),
                )
            reader = {"edge": EdgeReader, "graph": GraphReader, "v": VertexReader}.get(name, Reader)
            arguments.append(reader(name, PLACE_OF_ARGUMENT[name], self._properties))
        return function(*arguments)

    def _value(self, function: Function, kind: str) -> Expression:
        """Return the one value that an edge function or a guard returns."""
        result = self._trace(function, kind)
        if result is None or isinstance(result, dict):
            met = "nothing" if result is None else "a dict"
            raise LanguageError(f"{function.__name__} must return one value; it returned {met}", line_of(function))
        return _operand(result)

    def _guard_of(self, kind: str, when: Function | None, function: Function) -> Expression | None:
        """Return the condition of this stage: its own guard and the guards of the preceding stages of its sequence."""
        previous = self._guard if self._guard is not None and self._guard.kind == kind else None
        if previous is not None and kind == "edge":
            again = sorted({name for _, name in reads(previous.condition)} & previous.written)
            if again:
                raise LanguageError(
                    f"the guard before {function.__name__} reads {again[0]!r}, which its sequence of edge stages has "
                    "written since; give the later stages a separate guard after a vertex stage",
                    line_of(function),
                )
        self._guard = previous
        if when is None:
            return None if previous is None else previous.condition
        condition = self._condition(when, kind, function)
        if kind == "vertex":
            condition = self._remember(condition, function)
        if previous is None:
            self._guard = Guard(kind, condition)
        else:
            self._guard = Guard(kind, previous.condition & condition, previous.written)
        return self._guard.condition

    def _condition(self, when: Function, kind: str, function: Function) -> Expression:
        condition = self._value(when, kind)
        if condition.dtype != "bool" or condition.shape:
            raise LanguageError(
                f"the guard of {function.__name__} gives a {condition.dtype} of shape {condition.shape}; it must give "
                "one bool",
                line_of(when),
            )
        return condition

    def _write(self, name: str, place: Place, value: Expression, line: SourceLine) -> None:
        """Record that a stage writes a property."""
        if self._runs_once and name in self._properties and self._properties[name].role in ("input", "state"):
            raise LanguageError(
                f"{name!r} is declared; the result of a stage that runs once is a new property: remove its declaration",
                line,
            )
        self._properties.write(name, place, value, line)
        if self._runs_once:
            self._properties.once.add(name)

    def _note_written(self, name: str) -> None:
        if self._guard is not None:
            self._guard.written.add(name)

    def _unused(self, base: str) -> str:
        name, number = base, 1
        while name in self._properties:
            number += 1
            name = f"{base}_{number}"
        return name

    def _remember(self, condition: Expression, function: Function) -> Expression:
        """Store a guard, which is tested before its stage writes, in a temporary that later stages read."""
        name = self._unused(f"{name_of(function).lstrip('_') or 'stage'}_guard")
        self._write(name, "vertex", condition, line_of(function))
        self._stages.append(VertexStep(name, ((name, condition),), line_of(function)))
        return read("v", name, (), "bool")

"""Tracing: each function of an algorithm is called once with symbolic arguments and yields expressions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from harness.language.errors import LanguageError, SourceLine
from harness.language.evaluation import Evaluator
from harness.language.expressions import Dimension, DType, Expression, Shape, _operand, as_shape, read, walk
from harness.language.operators import where
from harness.language.program import (
    BUILTIN_GRAPH,
    BUILTIN_VERTEX,
    IDENTITY,
    REDUCERS,
    Control,
    EdgeReduce,
    EdgeUpdate,
    GraphReduce,
    Output,
    Place,
    Program,
    Property,
    Reducer,
    Stage,
    VertexStep,
    reads,
)

if TYPE_CHECKING:
    from harness.language.algorithm import Algorithm

Function = Callable[..., Any]
_PLACE_OF_ARGUMENT: dict[str, Place] = {
    "src": "vertex", "dst": "vertex", "v": "vertex", "edge": "edge", "graph": "graph"
}  # fmt: skip


class Reader:
    """A symbolic argument: ``src.lp`` is the expression that reads property lp of the source."""

    def __init__(self, space: str, place: Place, properties: Mapping[str, Property]) -> None:
        self._space, self._place, self._properties = space, place, properties

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        prop = self._properties.get(name)
        if prop is None or prop.place != self._place:
            names = [p.name for p in self._properties.values() if p.place == self._place]
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(names)) or 'none'}."
            kind = f"{prop.place} property is read from the {self._space} argument" if prop else "such property"
            raise LanguageError(
                f"{self._space}.{name}: no {self._place} property {name!r} is known here; {hint}"
                if prop is None
                else f"{self._space}.{name}: {name!r} is a {kind}; read it from an argument of that kind"
            )
        return read(self._space, name, prop.shape, prop.dtype)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise LanguageError(f"{self._space}.{name} cannot be assigned; return the new value instead")
        super().__setattr__(name, value)


class EdgeReader(Reader):
    """The symbolic edge; ``edge.reverse`` is the arc from destination to source, as it was before the stage."""

    @property
    def reverse(self) -> Reader:
        return Reader("reverse", "edge", self._properties)


class ProgramBuilder:
    """What :meth:`Algorithm.build` writes the program into."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._properties: dict[str, Property] = {
            name: Property(name, "vertex", (), role="builtin") for name in BUILTIN_VERTEX
        } | {name: Property(name, "graph", (), role="builtin") for name in BUILTIN_GRAPH}
        self._stages: list[Stage] = []
        self._results: list[tuple[str, Expression]] = []
        self._control = Control()
        self._guard: tuple[str, Expression] | None = None  # kind of the run of stages, and what must hold in it

    # properties -------------------------------------------------------------------------------------------------
    def vertex(
        self, name: str, shape: Shape | Dimension = (), *, dtype: type[float] | type[bool] = float,
        start: str | float | None = None,
    ) -> None:  # fmt: skip
        """Declare a vertex property: an input, or, with ``start`` (a property's name or a constant), state."""
        self._declare(name, "vertex", shape, dtype, start)

    def edge(
        self, name: str, shape: Shape | Dimension = (), *, dtype: type[float] | type[bool] = float,
        start: str | float | None = None,
    ) -> None:  # fmt: skip
        """Declare an edge property: an input, or, with ``start``, state. ``weight`` is the graph's own."""
        self._declare(name, "edge", shape, dtype, start)

    def _declare(
        self, name: str, place: Place, shape: Shape | Dimension, dtype: type, start: str | float | None
    ) -> None:
        if name in self._properties:
            raise LanguageError(f"property {name!r} is declared twice")
        if not name.isidentifier() or name.startswith("_"):
            raise LanguageError(f"{name!r} is not a property name: use a Python identifier without leading underscore")
        if dtype not in (float, bool):
            raise LanguageError(f"property {name!r}: dtype is float or bool, not {dtype!r}")
        kind: DType = "bool" if dtype is bool else "float"
        dims = as_shape(shape)
        if isinstance(start, str):
            other = self._properties.get(start)
            if other is None or (other.place, other.shape, other.dtype) != (place, dims, kind):
                raise LanguageError(
                    f"property {name!r} starts as {start!r}, which is no {place} {kind} of shape {dims}"
                )
        role = "state" if start is not None else "input"
        self._properties[name] = Property(name, place, dims, kind, role, start)  # type: ignore[arg-type]

    # stages -----------------------------------------------------------------------------------------------------
    def over_edges(
        self, *, into: str | None = None, reduce: Reducer | None = None, updates: str | None = None,
        when: Function | None = None,
    ) -> Callable[[Function], Function]:  # fmt: skip
        """Decorate an edge function: reduce its messages ``into`` a vertex property, or let it update an edge property.

        The function takes any of ``src``, ``dst``, ``edge``, ``graph``. ``when`` is a guard over the same arguments:
        where it is false neither this stage nor the edge stages directly after it run for that edge.
        """
        if (into is None) == (updates is None) or (into is None) != (reduce is None):
            raise LanguageError("over_edges() takes either into= with reduce=, or updates=")
        if reduce is not None and reduce not in REDUCERS:
            raise LanguageError(f"reduce={reduce!r} is not known; the reducers are {', '.join(REDUCERS)}")

        def decorate(function: Function) -> Function:
            value = self._trace(function, "edge")
            guard = self._guard_of("edge", when, function)
            line = _line_of(function)
            if updates is not None:
                self._edge_update(updates, value, guard, function, line)
            else:
                assert into is not None
                assert reduce is not None
                self._require_float(value, function)
                if guard is not None:
                    value = where(guard, value, IDENTITY[reduce])
                self._write(into, "vertex", value, line)
                self._stages.append(EdgeReduce(function.__name__, into, reduce, value, line))
            return function

        return decorate

    def _edge_update(
        self, updates: str, value: Expression, guard: Expression | None, function: Function, line: SourceLine
    ) -> None:
        prop = self._properties.get(updates)
        if prop is None or prop.role != "state" or prop.place != "edge":
            raise LanguageError(f"updates={updates!r} must name an edge property declared with a start", line)
        if value.shape != prop.shape:
            raise LanguageError(f"{function.__name__} gives shape {value.shape}; {updates!r} has {prop.shape}", line)
        if guard is not None:
            value = where(guard, value, read("edge", updates, prop.shape, prop.dtype))
        self._stages.append(EdgeUpdate(function.__name__, updates, value, line))

    def over_vertices(self, function: Function | None = None, *, when: Function | None = None) -> Any:
        """Decorate a vertex function: it takes ``v`` (and ``graph``) and returns ``{"property": new value, ...}``.

        ``when`` is a guard: where it is false neither this stage nor the vertex stages directly after it run.
        """

        def decorate(function: Function) -> Function:
            result = self._trace(function, "vertex")
            line = _line_of(function)
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
            self._stages.append(VertexStep(function.__name__, tuple(values), line))
            return function

        return decorate if function is None else decorate(function)

    def over_graph(self, *, into: str, reduce: Reducer) -> Callable[[Function], Function]:
        """Decorate a vertex function whose values are reduced over the whole graph, read later as ``graph.<into>``."""
        if reduce not in REDUCERS:
            raise LanguageError(f"reduce={reduce!r} is not known; the reducers are {', '.join(REDUCERS)}")

        def decorate(function: Function) -> Function:
            value = self._trace(function, "vertex")
            line = _line_of(function)
            self._require_float(value, function)
            self._write(into, "graph", value, line)
            self._guard = None
            self._stages.append(GraphReduce(function.__name__, into, reduce, value, line))
            return function

        return decorate

    # control and answer -----------------------------------------------------------------------------------------
    def until_settled(self, tolerance: Expression | float, *, relative: bool = False, at_most: int) -> None:
        """Run until no source is active: none moved by more than ``tolerance`` since it was last propagated."""
        self._limit(at_most)
        if not isinstance(tolerance, Expression) or tolerance.op != "param":
            raise LanguageError("the tolerance must be a float field of the algorithm, such as self.tolerance")
        self._control = Control(at_most, True, tolerance.attribute, bool(relative), self._control.alternate)

    def repeat(self, supersteps: int) -> None:
        """Run exactly this many supersteps."""
        self._limit(supersteps)
        self._control = Control(supersteps, False, None, False, self._control.alternate)

    @staticmethod
    def _limit(supersteps: int) -> None:
        if not isinstance(supersteps, int) or supersteps < 1:
            raise LanguageError(f"the number of supersteps is a positive int, not {supersteps!r}")

    def alternate_sides(self) -> None:
        """Let even supersteps update the left side of a bipartite graph, odd ones the right."""
        c = self._control
        self._control = Control(c.max_supersteps, c.settles, c.tolerance, c.relative, True)

    def output(self, name: str, *, bound: Expression | float) -> None:
        """Name a property as the answer; ``bound`` (of parameters) is the relative error it may have."""
        if name not in self._properties or self._properties[name].role == "temporary":
            raise LanguageError(f"output {name!r} must be a declared property with a start")
        self._results.append((name, _operand(bound)))

    def finish(self, parameters: Mapping[str, float]) -> Program:
        """The program; raises LanguageError when something is missing."""
        if not self._stages:
            raise LanguageError(f"{self.name} has no stages")
        if not self._results:
            raise LanguageError(f"{self.name} names no output; add p.output('property', bound=...)")
        results = tuple(Output(name, float(Evaluator(_no_read, parameters, 1)(b)[0])) for name, b in self._results)
        used = {n.attribute for stage in self._stages for n in walk(*stage.expressions()) if n.op == "param"}
        used |= {self._control.tolerance}
        return Program(
            self.name,
            dict(self._properties),
            tuple(self._stages),
            self._control,
            results,
            {name: value for name, value in parameters.items() if name in used},
        )

    # inner workings ---------------------------------------------------------------------------------------------
    def _trace(self, function: Function, kind: str) -> Any:
        allowed = ("src", "dst", "edge", "graph") if kind == "edge" else ("v", "graph")
        arguments = []
        for name in inspect.signature(function).parameters:
            if name not in allowed:
                raise LanguageError(
                    f"{function.__name__} has an argument {name!r}; {kind} functions take {', '.join(allowed)}",
                    _line_of(function),
                )
            reader = EdgeReader if name == "edge" else Reader
            arguments.append(reader(name, _PLACE_OF_ARGUMENT[name], self._properties))
        result = function(*arguments)
        return result if isinstance(result, dict) else _operand(result)

    @staticmethod
    def _require_float(value: Any, function: Function) -> None:
        if not isinstance(value, Expression) or value.dtype != "float":
            raise LanguageError(f"{function.__name__} must give one float value to reduce", _line_of(function))

    def _guard_of(self, kind: str, when: Function | None, function: Function) -> Expression | None:
        """The condition under which this stage runs: its own guard and those of the stages of its run before it."""
        previous = self._guard[1] if self._guard is not None and self._guard[0] == kind else None
        if when is None:
            self._guard = (kind, previous) if previous is not None else None
            return previous
        condition = self._trace(when, kind)
        if not isinstance(condition, Expression) or condition.dtype != "bool" or condition.shape:
            raise LanguageError(f"the guard of {function.__name__} must give one bool", _line_of(when))
        if kind == "vertex":
            condition = self._remember(condition, function)
        elif any(space == "edge" and self._properties[name].role == "state" for space, name in reads(condition)):
            raise LanguageError("the guard of an edge stage cannot read an edge property that changes", _line_of(when))
        guard = condition if previous is None else previous & condition
        self._guard = (kind, guard)
        return guard

    def _remember(self, condition: Expression, function: Function) -> Expression:
        """A guard is tested before its stage writes, so it is kept in a temporary that later stages read."""
        name = f"{function.__name__}_guard"
        self._write(name, "vertex", condition, _line_of(function))
        self._stages.append(VertexStep(name, ((name, condition),), _line_of(function)))
        return read("v", name, (), "bool")

    def _write(self, name: str, place: Place, value: Expression, line: SourceLine) -> None:
        prop = self._properties.get(name)
        if prop is None:
            self._properties[name] = Property(name, place, value.shape, value.dtype, "temporary")
        elif prop.role in ("input", "builtin"):
            raise LanguageError(f"{name!r} is an input; declare it with a start to write it", line)
        elif (prop.place, prop.shape, prop.dtype) != (place, value.shape, value.dtype):
            raise LanguageError(
                f"{name!r} is a {prop.place} {prop.dtype} of shape {prop.shape}; this gives a {place} {value.dtype} "
                f"of shape {value.shape}", line,
            )  # fmt: skip


def _no_read(space: str, name: str) -> NoReturn:
    raise LanguageError(f"the bound of an output depends on parameters alone; it reads {space}.{name}")


def _line_of(function: Function) -> SourceLine:
    code = function.__code__
    return SourceLine(code.co_filename, code.co_firstlineno)


def trace(algorithm: Algorithm) -> Program:
    """Trace an algorithm: float and bool fields become run-time parameters, int and str fields are constants."""
    builder = ProgramBuilder(algorithm.name)
    symbolic, parameters = algorithm.symbolic()
    symbolic.build(builder)
    return builder.finish(parameters)

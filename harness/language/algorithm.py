"""The base class of algorithms: parameters as dataclass fields, the maths in ``build``, real inputs in ``inputs``."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from harness.language.errors import InvalidInput, LanguageError, authored
from harness.language.expressions import parameter
from harness.language.program import Program
from harness.language.stage_names import line_of
from harness.language.tracing import ProgramBuilder
from harness.options import options_in, problems

if TYPE_CHECKING:
    from harness.graph import Graph

MOST_FEATURES = 256  # limit on every engine: compiled kernels keep a row of features in registers or a stack buffer
Values = Mapping[str, NDArray[np.generic]]
FixedPoints: TypeAlias = Literal["unknown", "one", "several"]


@dataclass(frozen=True)
class Inputs:
    """Initial data of a run.

    ``properties``: input properties by name, float32 or bool, of shape ``[V, ...]``, ``[E, ...]`` in CSR order, or the
    property's own shape for a graph property. ``parameters``: run-time parameters by name.
    """

    properties: Values = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowance:
    """Absolute error bounds of one output.

    ``entries``: bound of each entry, in the shape of the output. ``totals``: bound of the error summed over all
    vertices or edges, for each feature; None: the sum of ``entries``.
    """

    entries: NDArray[Any]
    totals: NDArray[Any] | None = None


@dataclass(frozen=True)
class Answer:
    """The expected outputs by name, in float64, and the ``method`` that computed them.

    ``allowances``: error bounds by output; empty if every output must be equal (bound 0). ``least_supersteps``: a lower
    bound on the supersteps of a settled run from the program's start, since one superstep carries values over one edge.
    """

    values: Values
    method: str
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    least_supersteps: int = 0


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Algorithm:
    """The base class of algorithms.

    Subclasses become frozen dataclasses automatically. Float and bool fields are run-time parameters: in ``build`` they
    are traced as symbols, so a new value does not recompile. Int and str fields are constants of the program. A field
    may be an ``option(default, help, values=..., within=...)`` (:func:`harness.api.option`): ``describe`` shows it, and
    the constructor raises InvalidInput for a value that is not accepted.
    """

    name: ClassVar[str] = ""
    # True if the metrics are meaningful only for a settled run; they are then omitted for a run that reached its limit.
    rated_when_settled: ClassVar[bool] = False
    # For programs with steps in place: the share by which a metric may be outside the interval of float64 runs in
    # random orders. None: metrics do not show whether such a run is right.
    interval_slack: ClassVar[float | None] = None
    # For programs with steps in place whose metrics are errors: a run in which one exceeds this multiple of its start
    # has diverged.
    diverged_over: ClassVar[float | None] = None
    # True if records have the metrics after each superstep of a program without steps in place.
    metrics_by_superstep: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for problem in problems(options_in(type(self)), vars(self)):
            raise InvalidInput(f"{self.name}: {problem}")

    def build(self, p: ProgramBuilder) -> None:
        """Write the program: declare properties, decorate stages, set the stopping rule and name the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not define build()")

    def inputs(self, graph: Graph, features: int) -> Inputs:
        """Return the inputs of a run on ``graph`` with ``features`` features; they are the same for every engine.

        Raises InvalidInput if the graph or the parameters are unsuitable.
        """
        return Inputs(parameters=self.parameter_values())

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the graph that the program runs on, derived from the given one (with reverse edges added, for
        example)."""
        return graph

    def fixed_points(self) -> FixedPoints:
        """Return where runs settle that start from other values than the program's own.

        *one*: at the only fixed point, once unsupported values are reset. *several*: at any of several fixed points.
        *unknown*: not known.

        Warm starts depend on it (:mod:`harness.language.warm`) unless the program's form determines more. With one
        fixed point, answers are compared with each other. With several, each answer is compared with its own next
        superstep.
        """
        return "unknown"

    def default_features(self, graph: Graph) -> int | None:
        """Return the natural number of features on this graph, or None."""
        return None

    def settled_answer(self, graph: Graph, features: int) -> Answer | None:
        """Return the answer of a settled run, computed by an independent method that is fast at any size, such as a
        library's.

        ``graph`` is the graph that the program runs on. Return None if there is no such method: answers are then
        compared with the program's float64 reference.
        """
        return None

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return measures of the answer's quality for the task, such as ``{"accuracy": 0.97}``.

        ``graph`` is the given graph, before :meth:`prepare_graph`.
        """
        return {}

    def artefacts(self, graph: Graph, values: Values, folder: Path) -> None:
        """Write pictures or files that show the answer into ``folder``; ``graph`` is the given graph."""

    def parameter_values(self) -> dict[str, float]:
        """Return the run-time parameters. Raises InvalidInput for a value that is not finite."""
        values = {name: float(getattr(self, name)) for name in self._run_time_fields()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise InvalidInput(f"{self.name}: parameter {name} is {value}; it must be finite")
        return values

    def symbolic(self) -> tuple[Self, dict[str, float]]:
        """Return a copy whose float and bool fields are symbols, and the values of these fields."""
        symbols = copy.copy(self)
        for name, dtype in self._run_time_fields().items():
            object.__setattr__(symbols, name, parameter(name, "bool" if dtype is bool else "float"))
        return symbols, self.parameter_values()

    def _run_time_fields(self) -> dict[str, type]:
        kinds: dict[object, type] = {"float": float, float: float, "bool": bool, bool: bool}
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: kinds[f.type] for f in fields if f.type in kinds}


def trace(algorithm: Algorithm) -> Program:
    """Trace an algorithm: float and bool fields become run-time parameters, int and str fields are constants.

    Raises LanguageError for a program that is not well formed, and for any exception of ``build`` at the line where it
    was raised; InvalidInput for an invalid parameter.
    """
    builder = ProgramBuilder(algorithm.name, line_of(type(algorithm).build))
    symbolic, parameters = algorithm.symbolic()
    with authored(f"{algorithm.name}.build", LanguageError):
        symbolic.build(builder)
    return builder.finish(parameters)

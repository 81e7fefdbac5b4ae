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
from harness.language.tracing import ProgramBuilder, line_of

if TYPE_CHECKING:
    from harness.graph import Graph

MOST_FEATURES = 256  # of a program, on any engine: compiled kernels hold a row of features at once
Values = Mapping[str, NDArray[np.generic]]
FixedPoints: TypeAlias = Literal["unknown", "one", "several"]


@dataclass(frozen=True)
class Inputs:
    """What a run starts from: input properties by name (``[V, ...]``, ``[E, ...]`` in CSR order, or of its own shape
    where it is one for the whole graph; float32 or bool) and run-time parameters by name."""

    properties: Values = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowance:
    """By how much an output may be off, absolute. ``entries``: each entry, in the shape of the output; ``totals``: the
    sum over all vertices or edges, for each feature; None: what the entries add up to."""

    entries: NDArray[Any]
    totals: NDArray[Any] | None = None


@dataclass(frozen=True)
class Answer:
    """The outputs by name, in float64, and the ``method`` that they were found by.

    ``allowances``: by output; empty where every output has to be equal, its bound being 0. ``least_supersteps``: no
    settled run can have taken fewer from the program's start, since a superstep carries values over one arc.
    """

    values: Values
    method: str
    allowances: Mapping[str, Allowance] = field(default_factory=dict)
    least_supersteps: int = 0


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Algorithm:
    """An algorithm, written once.

    Subclasses are frozen dataclasses without saying so. Float and bool fields are run-time parameters: in ``build``
    they are traced as symbols, so a new value does not recompile. Int and str fields shape the program.
    """

    name: ClassVar[str] = ""
    # Whether the metrics mean nothing before a run has settled, so that none are given of one that was stopped.
    rated_when_settled: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)

    def build(self, p: ProgramBuilder) -> None:
        """Write the program: declare properties, decorate stages, say when to stop and what the answer is."""
        raise NotImplementedError(f"{type(self).__name__} does not define build()")

    def inputs(self, graph: Graph, features: int) -> Inputs:
        """The inputs of a run on ``graph`` with ``features`` features; the same for every engine.

        Raises InvalidInput when the graph or the parameters do not fit.
        """
        return Inputs(parameters=self.parameter_values())

    def prepare_graph(self, graph: Graph) -> Graph:
        """The graph that the program runs on, made from the one given (reverse arcs added, say)."""
        return graph

    def fixed_points(self) -> FixedPoints:
        """Where runs settle that start from other values than the program's own: at the *one* fixed point that there
        is, once values that nothing supports are reset; at any of *several*; or that is *unknown*.

        Warm starts rest on it (:mod:`harness.language.warm`) unless the program's form tells more. Answers at one fixed
        point are compared with each other; of several, each is held against its own next superstep.
        """
        return "unknown"

    def default_features(self, graph: Graph) -> int | None:
        """The natural number of features on this graph, if there is one."""
        return None

    def settled_answer(self, graph: Graph, features: int) -> Answer | None:
        """What a settled run gives, by a method that has nothing to do with the program and is fast at any size, such
        as a library's; ``graph`` is the one that the program runs on.

        None where there is no such method: answers are then held against the program's float64 reference.
        """
        return None

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """How good the answer is for the task, such as ``{"accuracy": 0.97}``; ``graph`` is the one that was given,
        before :meth:`prepare_graph`."""
        return {}

    def artefacts(self, graph: Graph, values: Values, folder: Path) -> None:
        """Write pictures or files that show the answer into ``folder``; ``graph`` is the one that was given."""

    def parameter_values(self) -> dict[str, float]:
        """The run-time parameters. Raises InvalidInput for a value that is not finite."""
        values = {name: float(getattr(self, name)) for name in self._run_time_fields()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise InvalidInput(f"{self.name}: parameter {name} is {value}; it must be finite")
        return values

    def symbolic(self) -> tuple[Self, dict[str, float]]:
        """A copy whose float and bool fields are symbols, and the values they stand for."""
        twin = copy.copy(self)
        for name, dtype in self._run_time_fields().items():
            object.__setattr__(twin, name, parameter(name, "bool" if dtype is bool else "float"))
        return twin, self.parameter_values()

    def _run_time_fields(self) -> dict[str, type]:
        kinds: dict[object, type] = {"float": float, float: float, "bool": bool, bool: bool}
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: kinds[f.type] for f in fields if f.type in kinds}


def trace(algorithm: Algorithm) -> Program:
    """Trace an algorithm: float and bool fields become run-time parameters, int and str fields are constants.

    Raises LanguageError for a program that is not well formed, and for any exception of ``build`` at the line where it
    arose; InvalidInput for a parameter that does not fit.
    """
    builder = ProgramBuilder(algorithm.name, line_of(type(algorithm).build))
    symbolic, parameters = algorithm.symbolic()
    with authored(f"{algorithm.name}.build", LanguageError):
        symbolic.build(builder)
    return builder.finish(parameters)

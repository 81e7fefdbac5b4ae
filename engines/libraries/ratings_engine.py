"""The base of engines that call a library for matrix factorisation by stochastic gradient descent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.api import (
    Device,
    Engine,
    EngineFailure,
    Graph,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Superstep,
    Unsupported,
    Yes,
    initial_values,
    schedule_text,
)
from harness.api.library import RecognisedSGD, recognised_sgd

Array: TypeAlias = NDArray[Any]


class RatingsEngine(Engine):
    """A library that factorises ratings in sweeps. ``sgd_mf`` is recognised by its structure, all else is refused.

    :meth:`sweeps` continues a run by any number of sweeps. Libraries that keep no state between calls run those before
    once more.
    """

    library: ClassVar[str]
    bytes_per_edge: ClassVar[int]  # of the library's own ratings

    @abstractmethod
    def refused(self, problem: RecognisedSGD, graph: Graph, features: int) -> str:
        """Return why the library cannot solve a recognised program; empty if it can."""

    @abstractmethod
    def load(self) -> None:
        """Load the library."""

    @abstractmethod
    def convert(self, graph: Graph) -> None:
        """Make what the library takes, except the values of ratings."""

    @abstractmethod
    def pose(self) -> None:
        """Give the library the ratings in ``start``. Raises Unsupported for inputs that it cannot take."""

    @abstractmethod
    def sweeps(self, done: int, more: int) -> None:
        """Continue by ``more`` sweeps after ``done``."""

    @abstractmethod
    def factors(self) -> Mapping[str, Array]:
        """Return ``x`` [V, k] and, with biases, ``b`` [V] after the sweeps, by these names."""

    @abstractmethod
    def order(self) -> Array | float:
        """Return the order of ratings in a sweep, int[E]; 0.0 if the library does not report it and loses none."""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the library's update is the program's."""
        if device.kind != "cpu":
            return No(f"{self.library} runs on the processor only")
        problem = recognised_sgd(program)
        if problem is None:
            return No(f"{self.library} has no function for this program; this engine calls it for sgd_mf")
        if not graph.facts.one_way:
            return No(f"{self.library} takes ratings: edges from the left to the right side of a bipartite graph")
        reason = self.refused(problem, graph, features)
        if reason:
            return No(reason)
        return Yes(self.bytes_per_edge * graph.num_edges + 16 * (features + 4) * graph.num_vertices)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Load the library and convert the graph. Raises EngineFailure for a refused program."""
        answer = self.supports(program, graph, features, device)
        problem = recognised_sgd(program)
        if isinstance(answer, No) or problem is None:
            raise EngineFailure(answer.reason if isinstance(answer, No) else "not recognised")
        assert graph.bipartite is not None
        self.program, self.graph, self.features, self.problem = program, graph, features, problem
        self.threads, (self.left, self.right) = device.threads, graph.bipartite
        with phases("load"):
            self.load()
        with phases("transform"):
            self.convert(graph)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Read ratings, first factors and rates. Raises Unsupported for warm starts and what the library cannot do."""
        if state:
            raise Unsupported(f"{self.library} starts from the program's own start")
        values = initial_values(self.program, self.graph, self.features, inputs, {}, np.float32)
        self.start = {own: values[name] for own, name in self.problem.properties.items() if name in values}
        given = {**self.program.parameters, **inputs.parameters}
        self.rates = {own: float(given[name]) for own, name in self.problem.parameters.items()}
        self.done = 0
        self.pose()

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run sweeps, each a superstep over all edges."""
        self.sweeps(self.done, max_supersteps)
        self.done += max_supersteps
        each = Superstep(self.graph.num_vertices, self.graph.num_edges, "dense")
        return RunStatistics(settled=False, supersteps=[each] * max_supersteps)

    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one sweep; return its order, or a loss of 0 without one."""
        self.run(1)
        return {self.problem.step: self.order()}

    def values(self, name: str) -> NDArray[np.generic]:
        """Return factors or biases as float32; before a run, their start. Raises EngineFailure for other properties."""
        own = {theirs: mine for mine, theirs in self.problem.properties.items()}.get(name, name)
        found = self.factors() if self.done else self.start
        if own not in ("x", "b") or own not in found:
            raise EngineFailure(f"{self.library} gives factors and biases only; {name!r} was requested")
        return np.array(found[own], np.float32)

    def explain(self) -> str:
        """Return the schedule, and what the library runs."""
        return f"{schedule_text(self)}\n{self.library}: {self.what_runs()}"

    @abstractmethod
    def what_runs(self) -> str:
        """Return what the library calls and how its answer is checked, for ``explain``."""

    def close(self) -> None:
        """Release graph, ratings and factors."""
        for name in ("graph", "start"):
            self.__dict__.pop(name, None)

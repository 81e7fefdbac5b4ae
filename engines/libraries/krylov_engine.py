"""SciPy's Krylov solvers as an engine, for programs whose fixed point solves a linear system.

A superstep of such a program is x -> A x + b, so its fixed point solves (I - A) x = b. The operator is one superstep
of the SciPy engine in float64, for all features at once; b is a superstep from 0. A solver stops by the norm of its
residual, and its relative tolerance says little about single entries. Therefore it is called with a tolerance ten times
smaller each time, from where it stopped, until one superstep meets the program's own criterion.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import linalg

from engines.libraries.library_engine import MARGIN
from engines.libraries.schedules import ScipySchedule
from engines.libraries.scipy_engine import ScipyEngine
from engines.libraries.solving import Array, Reader, Solver, Solving
from harness.api import (
    Criterion,
    Device,
    Engine,
    EngineFailure,
    Graph,
    Inputs,
    No,
    Phases,
    Program,
    Unsupported,
    Yes,
)
from harness.api.linear import not_affine, state_of

TIGHTER, TIGHTEST = 0.1, 1e-15  # relative tolerances of the solvers
MOST_ITERATIONS = 500
SYMMETRIC = 1e-12  # relative; weights are of float32, but the same both ways
VECTORS = 24  # of GMRES, which keeps 20


class KrylovEngine(Solving, Engine):
    """One of SciPy's iterative solvers."""

    library = "scipy.sparse.linalg"
    every_way: ClassVar = ("bicgstab", "cg", "cgs", "gmres", "tfqmr")

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the fixed point solves a linear system whose matrix is sparse."""
        reason = not_affine(program)
        if reason:
            return No(reason)
        answer = ScipyEngine(ScipySchedule()).supports(program, graph, features, device)
        if isinstance(answer, No):
            return answer
        return Yes(2 * answer.bytes_needed + 8 * VECTORS * features * graph.num_vertices)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare SciPy's supersteps."""
        self.program, self.graph, self.features = program, graph, features
        self._supersteps = ScipyEngine(ScipySchedule())
        self._supersteps.dtype, self._supersteps.run_length = np.float64, None
        self._supersteps.prepare(program, graph, features, device, phases)

    @property
    def result(self) -> str:
        """The only state."""
        return state_of(self.program)

    def pose(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Fill the matrices, and compute b."""
        self._supersteps.reset(inputs, state)
        if state:
            raise Unsupported("the solvers start from the program's own start")
        self.start = np.array(self._supersteps.values(self.result))
        self._parameters = {**self.program.parameters, **inputs.parameters}
        self._right = self._after(np.zeros_like(self.start)).ravel()

    def _after(self, values: Array) -> Array:
        """Return the result one superstep after ``values``, float64 of the same shape."""
        return np.asarray(self._supersteps.after({self.result: values})[self.result])

    def _met(self, before: Array, now: Array) -> bool:
        """Return whether the program's criterion is met, with MARGIN."""
        criterion = Criterion.of(self.program)
        assert criterion is not None
        tolerance = {criterion.tolerance: MARGIN * self._parameters[criterion.tolerance]}
        return criterion.met({self.result: before}, {self.result: now}, tolerance)

    def _times(self, vector: Array) -> Array:
        """Return (I - A) times a vector of all features, float64[V * k]."""
        vector = vector.ravel()
        after = self._after(vector.reshape(self.start.shape)).ravel()
        return np.asarray(vector - (after - self._right))

    def solvers(self) -> Mapping[str, Solver]:
        """Return every solver; conjugate gradients for symmetric matrices only."""
        ways = [name for name in self.every_way if name != "cg" or self._symmetric()]
        return {name: functools.partial(self._solved, getattr(linalg, name)) for name in ways}

    def _symmetric(self) -> bool:
        """Return whether two random vectors show no asymmetry."""
        one, other = np.random.default_rng(0).standard_normal((2, self._right.size))
        left, right = float(one @ self._times(other)), float(other @ self._times(one))
        return abs(left - right) <= SYMMETRIC * float(np.linalg.norm(one) * np.linalg.norm(other))

    def _solved(self, solver: Any) -> Reader:
        """Solve until the criterion is met; return a reader of one superstep from there."""
        size = self._right.size
        operator = linalg.LinearOperator((size, size), matvec=self._times, dtype=np.float64)
        relative, found = self._parameters[str(self.program.control.tolerance)], self.start.ravel()
        while relative >= TIGHTEST:
            found, _ = solver(operator, self._right, found, rtol=relative, maxiter=MOST_ITERATIONS)
            before = found.reshape(self.start.shape)
            now = self._after(before)
            if self._met(before, now):
                return lambda: now
            if not np.isfinite(found).all():
                break
            relative *= TIGHTER
        raise EngineFailure(
            f"{solver.__name__} did not meet the program's criterion, with relative tolerances down to {TIGHTEST:g}; "
            "give another way, or a larger tolerance of the algorithm"
        )

    def close(self) -> None:
        """Release the matrices."""
        super().close()
        supersteps = self.__dict__.pop("_supersteps", None)
        if supersteps is not None:
            supersteps.close()

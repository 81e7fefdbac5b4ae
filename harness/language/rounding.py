"""The reference with errors put in: what float32, and what change-driven schedules do not send, can do to an answer.

The model names no engine. Every operation may be off by one unit roundoff u = 2^-24 of its result. A sum over the n
in-edges of a vertex, added in any order, may be off by (n - 1) u of the sum of the magnitudes (Higham, "Accuracy and
Stability of Numerical Algorithms", 2002, sec. 4.2). One after another, equal terms get near: each is rounded alike, so
that the sum is off by up to n u / 4. Half of the bound is put in. A sum over all vertices is pairwise or in float64:
(32 + log2 V) u. A linear system is solved with a componentwise backward error of (3 K + 1) u (sec. 10.1). A source may
lag behind by a share of the tolerance, since change-driven schedules send only what moved by more. So may a property of
an edge: one of the n factors of a product by an n-th of the tolerance, relative to its value. Edges lag for a vertex
together, as the terms of its sums err together, so half of this bound is put in as well.

A run puts in all of these errors at their full size, each with the same sign at every vertex and in every superstep, so
that they add up along paths and around cycles instead of cancelling. An operation draws its sign, since equal errors of
dividend and divisor cancel; the first two features have opposite ones and others draw theirs, since equal errors of all
features cancel where rows are normalised. In a run whose sums err ``apart``, every vertex draws the sign of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.analysis import factors
from harness.language.criterion import propagated_share
from harness.language.evaluation import Evaluator, Read, Without
from harness.language.expressions import Expression
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Program
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
UNIT = 2.0**-24
# Libraries promise one or two units for division and square root, a few for the transcendental functions.
ROUNDINGS = {
    "add": 1, "sub": 1, "mul": 1, "outer": 1, "max_product": 1, "div": 2, "sqrt": 2, "without": 4,
    "exp": 4, "log": 4, "pow": 8,
}  # fmt: skip
FACTOR_ROUNDINGS = 4  # of a factor of a product over edges, whose logarithm is added
WHOLE_GRAPH_ROUNDINGS = 32
SYMMETRIC = ("solve_spd", "inverse")


def signs(key: str, values: Array) -> Array:
    """``[1, ...]``: +1 or -1 for every feature of ``values`` (``[N, ...]``), drawn for an operation, ``key``."""
    shape = values.shape[1:]
    random = np.random.default_rng(zlib.crc32(key.encode()))
    symmetric = len(shape) == 2 and shape[0] == shape[1]  # as a Gram matrix stays
    found = np.asarray(random.choice([-1.0, 1.0], shape[:1] if symmetric else shape))
    if found.size > 1:
        found.reshape(-1)[1] = -found.reshape(-1)[0]
    return np.asarray(found[None, :, None] * found[None, None, :] if symmetric else found[None])


class RoundedEvaluator(Evaluator):
    """Evaluates expressions, every operation with the error that float32 may make in it."""

    def __init__(self, read: Read, parameters: Mapping[str, float], features: int, without: Without | None) -> None:
        super().__init__(read, parameters, features, np.float64, without)

    def _apply(self, node: Expression) -> Array:
        if node.dtype == "bool":
            return np.asarray(super()._apply(node))
        if node.op in SYMMETRIC:
            matrix, *right = (self(arg) for arg in node.args)
            return np.asarray(super()._structural(node, [self._other_system(node, matrix), *right]))
        value: Array = super()._apply(node)
        if node.op in ("param", "const"):
            exact = (value.astype(np.float32) == value).all()
            return value if exact else off(value, UNIT * signs(node.key, value))
        roundings, magnitude = self._roundings(node, value)
        return off(value, roundings * UNIT * signs(node.key, value), magnitude) if roundings else value

    def _roundings(self, node: Expression, value: Array) -> tuple[int, Array | None]:
        """How many roundings an operation has, and the magnitude that they are relative to (None: its result's)."""
        match node.op:
            case "sum" | "dot" | "matmul":
                args = [self(arg) for arg in node.args]
                terms = args[0].shape[-1] if node.op != "sum" else int(np.prod(args[0].shape[1:]))
                signed = any((arg < 0).any() for arg in args)
                return terms, self._structural(node, [np.abs(arg) for arg in args]) if signed else None
            case "normalize":
                return value.shape[-1] + 2, None
        return ROUNDINGS.get(node.op, 0), None

    def _other_system(self, node: Expression, matrix: Array) -> Array:
        """A system within the backward error of a Cholesky solution."""
        scale = np.sqrt(np.abs(np.einsum("nii->ni", matrix)))
        error = (3 * matrix.shape[-1] + 1) * UNIT * scale[:, :, None] * scale[:, None, :]
        return np.asarray(matrix + error * signs(node.key, matrix))


class RoundedRun(ReferenceRun):
    """A reference run with the errors of this module in it.

    ``lag``: the share of the program's tolerance by which sources may lag behind (None: what engines may leave unsent).
    ``apart``: whether every vertex has a sign of its own for its sums over in-edges.
    """

    def __init__(
        self, program: Program, graph: Graph, features: int, *, lag: float | None = None, apart: bool = False
    ) -> None:
        super().__init__(program, graph, features)
        self._share = propagated_share(program) if lag is None else lag
        self._factors = factors(program)
        self._roundings = (np.asarray(graph.in_degrees, np.float64) - 1) / 2
        if apart:
            self._roundings *= np.random.default_rng(0).choice([-1.0, 1.0], graph.num_vertices)
        self._state = {prop.name for prop in program.properties.values() if prop.role == "state"}

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Every property to its start, or to ``state``; the lag follows from the tolerance among the inputs."""
        tolerance, self._lag_relative = stopping(self.program, inputs)
        self._lag = self._share * tolerance
        super().reset(inputs, state)

    def _evaluates(self, read: Read, without: Without | None = None) -> Evaluator:
        return RoundedEvaluator(read, self._parameters, self.features, without)

    def _sent(self, name: str, sources: Array) -> Array:
        return self._lagging(name, super()._sent(name, sources), self._lag)

    def _lagging(self, name: str, values: Array, lag: float) -> Array:
        """What may have been sent last of a property; what is zero has nothing to send."""
        if not lag or name not in self._state or values.dtype == np.bool_:
            return values
        size = np.abs(values)
        return off(values, signs(name, values), lag * size if self._lag_relative else np.minimum(lag, size))

    def _update_edges(self, stage: EdgeUpdate) -> None:
        super()._update_edges(stage)
        name = stage.updates
        if name not in self._factors:
            self._value[name] = self._lagging(name, self._value[name], self._lag / 2)
        elif self._lag:
            value, count = self._value[name], np.empty(self.graph.num_edges)
            count[self._arc] = np.maximum(self.graph.in_degrees, 1)[self._destinations]
            lag = (self._lag / 2 / count).reshape(-1, *(1 for _ in value.shape[1:])) * np.abs(value)
            self._value[name] = off(value, signs(name, value), lag)

    def _received(self, stage: EdgeReduce, messages: Array, arcs: slice) -> Array:
        if stage.reducer not in ("sum", "prod"):
            return messages
        factors = stage.reducer == "prod"
        roundings = FACTOR_ROUNDINGS if factors else self._roundings[self._destinations[arcs]]
        roundings = np.reshape(roundings, (-1,) + (1,) * (messages.ndim - 1))
        return off(messages, roundings * UNIT * signs(stage.name, messages))

    def _reduce_graph(self, stage: GraphReduce) -> None:
        super()._reduce_graph(stage)
        if stage.reducer in ("sum", "prod"):
            value = self._value[stage.into]
            roundings = WHOLE_GRAPH_ROUNDINGS + np.log2(max(self.graph.num_vertices, 1))
            self._value[stage.into] = off(value, roundings * UNIT * signs(stage.name, value))


def off(values: Array, error: Array, magnitude: Array | None = None) -> Array:
    """Values that are off by ``error`` times ``magnitude`` (None: their own); infinities and NaN stay."""
    with np.errstate(invalid="ignore", over="ignore"):
        changed = error * (np.abs(values) if magnitude is None else magnitude)
        changed += values
    return changed if np.isfinite(changed).all() else np.where(np.isfinite(values), changed, values)


def stopping(program: Program, inputs: Inputs) -> tuple[float, bool]:
    """The tolerance that a run stops at, and whether it is relative."""
    control = program.control
    if control.tolerance is None:
        return 0.0, False
    return float({**program.parameters, **inputs.parameters}[control.tolerance]), control.relative

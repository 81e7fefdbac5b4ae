"""The reference with errors put in: what float32, and what change-driven schedules do not send, can do to an answer.

The model names no engine. Every operation may be off by one unit roundoff u = 2^-24 of its result. A sum over the n
in-edges of a vertex, added in any order, may be off by (n - 1) u of the sum of the magnitudes (Higham, "Accuracy and
Stability of Numerical Algorithms", 2002, sec. 4.2). A sum over all vertices is pairwise or in float64: (32 + log2 V) u.
A linear system is solved with a componentwise backward error of (3 K + 1) u (sec. 10.1). A source may lag behind by as
much as the tolerance, since change-driven schedules send only what moved by more.

A run puts in all of these errors at their full size, with the same sign at every vertex, so that they add up along
paths and around cycles instead of cancelling. Sign pattern 0 is + everywhere, which is the worst case of programs that
grow with their arguments (shortest paths, PageRank); pattern 1 is its negative; others draw a sign for each operation
and feature, since equal errors of all features cancel where rows are normalised.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.evaluation import Evaluator, Read, Without
from harness.language.expressions import Expression
from harness.language.program import EdgeReduce, GraphReduce, Program
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


class Signs:
    """The signs of a pattern, by what they are for: 1 for each feature."""

    def __init__(self, pattern: int) -> None:
        self._pattern = pattern

    def __call__(self, key: str, values: Array) -> Array:
        """``[1, ...]``: +1 or -1 for every feature of ``values`` (``[N, ...]``)."""
        shape = values.shape[1:]
        if self._pattern < 2:
            return np.asarray(np.full((1, *shape), 1.0 - 2.0 * self._pattern))
        random = np.random.default_rng([self._pattern, zlib.crc32(key.encode())])
        if len(shape) == 2 and shape[0] == shape[1]:  # symmetric, as a Gram matrix stays
            row = random.choice([-1.0, 1.0], shape[0])
            return np.asarray(row[None, :, None] * row[None, None, :])
        return np.asarray(random.choice([-1.0, 1.0], (1, *shape)))


class RoundedEvaluator(Evaluator):
    """Evaluates expressions, every operation with the error that float32 may make in it."""

    def __init__(
        self, read: Read, parameters: Mapping[str, float], features: int, without: Without | None, signs: Signs
    ) -> None:
        super().__init__(read, parameters, features, np.float64, without)
        self._signs = signs

    def _apply(self, node: Expression) -> Array:
        if node.dtype == "bool":
            return np.asarray(super()._apply(node))
        if node.op in SYMMETRIC:
            matrix, *right = (self(arg) for arg in node.args)
            return np.asarray(super()._structural(node, [self._other_system(node, matrix), *right]))
        value: Array = super()._apply(node)
        if node.op in ("param", "const"):
            exact = (value.astype(np.float32) == value).all()
            return value if exact else off(value, UNIT * self._signs(node.key, value))
        roundings, magnitude = self._roundings(node, value)
        return off(value, roundings * UNIT * self._signs(node.key, value), magnitude) if roundings else value

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
        return np.asarray(matrix + error * self._signs(node.key, matrix))


class RoundedRun(ReferenceRun):
    """A reference run with the errors of this module in it. ``tolerance``: by how much sources may lag behind;
    relative to their values if ``relative``."""

    def __init__(
        self, program: Program, graph: Graph, features: int, *, pattern: int, tolerance: float = 0.0,
        relative: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(program, graph, features)
        self._signs, self._lag, self._lag_relative = Signs(pattern), tolerance, relative
        self._terms = np.asarray(graph.in_degrees, np.float64)
        self._state = {prop.name for prop in program.properties.values() if prop.role == "state"}

    def _evaluates(self, read: Read, without: Without | None = None) -> Evaluator:
        return RoundedEvaluator(read, self._parameters, self.features, without, self._signs)

    def _sent(self, name: str, sources: Array) -> Array:
        return self._lagging(name, super()._sent(name, sources))

    def _lagging(self, name: str, values: Array) -> Array:
        """What may have been sent last of a property; what is zero has nothing to send."""
        if not self._lag or name not in self._state or values.dtype == np.bool_:
            return values
        size = np.abs(values)
        lag = self._lag * size if self._lag_relative else np.minimum(self._lag, size)
        return off(values, self._signs(name, values), lag)

    def _received(self, stage: EdgeReduce, messages: Array, arcs: slice) -> Array:
        if stage.reducer not in ("sum", "prod"):
            return messages
        count = self._terms[self._destinations[arcs]] - 1 if stage.reducer == "sum" else FACTOR_ROUNDINGS
        roundings = np.reshape(count, (-1,) + (1,) * (messages.ndim - 1))
        return off(messages, roundings * UNIT * self._signs(stage.name, messages))

    def _reduce_graph(self, stage: GraphReduce) -> None:
        super()._reduce_graph(stage)
        if stage.reducer in ("sum", "prod"):
            value = self._value[stage.into]
            roundings = WHOLE_GRAPH_ROUNDINGS + np.log2(max(self.graph.num_vertices, 1))
            self._value[stage.into] = off(value, roundings * UNIT * self._signs(stage.name, value))


def off(values: Array, error: Array, magnitude: Array | None = None) -> Array:
    """Values that are off by ``error`` times ``magnitude`` (None: their own); infinities and NaN stay."""
    with np.errstate(invalid="ignore", over="ignore"):
        changed = values + error * (np.abs(values) if magnitude is None else magnitude)
    return np.where(np.isfinite(values), changed, values)

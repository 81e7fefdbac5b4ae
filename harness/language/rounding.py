"""The reference with injected errors: the effect of float32 and of values that change-driven schedules do not send.

The model is independent of engines. Every operation has an error of one unit roundoff u = 2^-24 of its result. A sum
over the n in-edges of a vertex, in any order, has an error of up to (n - 1) u times the sum of the magnitudes (Higham,
"Accuracy and Stability of Numerical Algorithms", 2002, sec. 4.2). A sequential sum of equal terms comes near this
bound: all terms are rounded alike, so its error reaches n u / 4. Half of the bound is injected. A sum over all vertices
is pairwise or in float64: (32 + log2 V) u. A product over in-edges is a sum of logarithms: the error of that sum,
relative to the sum of the logarithms' magnitudes, is the relative error of the product. A linear system is solved with
a componentwise backward error of (3 K + 1) u (sec. 10.1).

A source may lag by a share of the tolerance, since change-driven schedules send only larger changes. So may a property
of an edge. If it is one of the n factors of a product, it may lag by 1/n of that share, relative to its value. In real
runs the factors of a vertex do lag together and by nearly as much. Therefore the full lag is injected into factors, and
half of it into other properties of edges, since the response is doubled.

A run injects all of these errors at their full size, each with the same sign at every vertex and in every superstep.
Therefore they accumulate along paths and around cycles instead of cancelling. The sign is random per operation, since
equal errors of dividend and divisor cancel. The first two features have opposite signs and the others random ones,
since equal errors of all features cancel where rows are normalised. With ``apart``, every vertex has a random sign for
its sums.

Errors and lags of factors act through differences between features. Where few features of a product are large, these
may have the same random sign. Programs with products are therefore also run with the signs of every ``bit`` of the
features' indices (:func:`patterns`): any two features have opposite signs in one of these runs.

The errors of two sums at a vertex are independent of each other, since their terms are added in orders that differ or
have other roundings. If they had one sign, they would cancel in a quotient, such as a mean; with opposite signs they
cancel in a product. So are the lag of the sources and the errors of sums over all vertices: the error of a sum over n
in-edges, (n - 1) u / 2, cancels an opposite lag of as many u, and a vertex with such an in-degree would have no
response. These causes of error are numbered (:func:`causes`). In the first run all sums over edges have one sign.
Programs with several causes are also run with the signs of every bit of their numbers: any two causes have opposite
signs in one of these runs, and so both signs relative to each other. With ``apart`` every sum has signs of its own.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.analysis import factors
from harness.language.criterion import PROPAGATED_SHARE, propagated_share
from harness.language.evaluation import At, Evaluator, Read, Without
from harness.language.expressions import Expression
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Program, Stage
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
UNIT = 2.0**-24
# Libraries guarantee one or two units for division and square root, and a few for the transcendental functions.
ROUNDINGS = {
    "add": 1, "sub": 1, "mul": 1, "outer": 1, "max_product": 1, "div": 2, "sqrt": 2, "without": 4,
    "exp": 4, "log": 4, "pow": 8,
}  # fmt: skip
FACTOR_ROUNDINGS = 4  # of a factor of a product over edges
LOGARITHM_ROUNDINGS = 2  # of its logarithm, relative to that logarithm
WHOLE_GRAPH_ROUNDINGS = 32
SYMMETRIC = ("solve_spd", "inverse")
LAG = "lag"  # the cause of error that sources may not have sent their latest values


class Pattern(NamedTuple):
    """The signs of the errors of a run.

    ``feature``: the bit of a feature's index that gives the sign of the errors and of the lag of its factors (None:
    random signs). ``cause``: the bit of the number of a cause of error (:func:`causes`) that turns its sign (None: no
    sign is turned).
    """

    feature: int | None = None
    cause: int | None = None


RANDOM = Pattern()


def signs(key: str, values: Array) -> Array:
    """Draw +1 or -1 for every feature of ``values`` (``[N, ...]``), seeded by the operation's ``key``; returns ``[1,
    ...]``."""
    return _signs(key, values.shape[1:])


@functools.cache
def _signs(key: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(zlib.crc32(key.encode()))
    symmetric = len(shape) == 2 and shape[0] == shape[1]  # keeps a Gram matrix symmetric
    found = np.asarray(random.choice([-1.0, 1.0], shape[:1] if symmetric else shape))
    if found.size > 1:
        found.reshape(-1)[1] = -found.reshape(-1)[0]
    return np.asarray(found[None, :, None] * found[None, None, :] if symmetric else found[None])


class RoundedEvaluator(Evaluator):
    """Evaluates expressions; injects into every operation the error that float32 may have."""

    def __init__(
        self, read: Read, parameters: Mapping[str, float], features: int, without: Without | None, at: At | None
    ) -> None:
        super().__init__(read, parameters, features, np.float64, without, at=at)

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
        """Return the number of roundings of an operation, and the magnitude they are relative to (None: of its
        result)."""
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
        """Return a system within the backward error of a Cholesky solution."""
        scale = np.sqrt(np.abs(np.einsum("nii->ni", matrix)))
        error = (3 * matrix.shape[-1] + 1) * UNIT * scale[:, :, None] * scale[:, None, :]
        return np.asarray(matrix + error * signs(node.key, matrix))


class RoundedRun(ReferenceRun):
    """A reference run with the errors of this module.

    ``lag``: the share of the program's tolerance by which sources may lag (None: the largest share that engines may
    leave unsent). ``apart``: every vertex has its own random sign for each of its sums over in-edges.
    """

    def __init__(
        self,
        program: Program,
        graph: Graph,
        features: int,
        *,
        lag: float | None = None,
        apart: bool = False,
        pattern: Pattern = RANDOM,
    ) -> None:
        super().__init__(program, graph, features)
        self._share = propagated_share(program) if lag is None else lag
        self._pattern = pattern
        self._factors, self._sums, self._apart = factors(program), edge_sums(program), apart
        self._causes = causes(program)
        self._signed_roundings: dict[int, Array] = {}
        self._state = {prop.name for prop in program.properties.values() if prop.role == "state"}

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set every property to its start, or to ``state``; the lag follows from the tolerance in the inputs."""
        tolerance, self._lag_relative = stopping(self.program, inputs)
        self._lag, self._edge_lag = self._share * tolerance, PROPAGATED_SHARE * tolerance
        self._sent_values: dict[str, tuple[Array, Array]] = {}
        super().reset(inputs, state)

    def _evaluates(self, read: Read, without: Without | None = None, at: At | None = None) -> Evaluator:
        return RoundedEvaluator(read, self._parameters, self.features, without, at)

    def _named(self, stage: Stage, numbers: Array) -> tuple[Array, Array]:
        return super()._named(stage, np.rint(numbers))  # float32 computes with small integers without errors

    def _sent(self, name: str, sources: Array) -> Array:
        value = self._value[name]
        if name not in self._sent_values or self._sent_values[name][0] is not value:
            self._sent_values[name] = value, self._lagging(name, value, self._lag)
        return self._sent_values[name][1].take(sources, axis=0)

    def _lagging(self, name: str, values: Array, lag: float) -> Array:
        """Return the values of a property that may have been sent last; zero does not lag."""
        if not lag or name not in self._state or values.dtype == np.bool_:
            return values
        size, sign = np.abs(values), self._turned(LAG) * signs(name, values)
        return off(values, sign, lag * size if self._lag_relative else np.minimum(lag, size))

    def _update_edges(self, stage: EdgeUpdate) -> None:
        super()._update_edges(stage)
        name = stage.updates
        if name not in self._factors:
            self._value[name] = self._lagging(name, self._value[name], self._edge_lag / 2)
        elif self._edge_lag:
            value, count = self._value[name], np.empty(self.graph.num_edges)
            count[self._edge] = np.maximum(self.graph.in_degrees, 1)[self._destinations]
            lag = (self._edge_lag / count).reshape(-1, *(1 for _ in value.shape[1:])) * np.abs(value)
            self._value[name] = off(value, self._factor_signs(name, value), lag)

    def _factor_signs(self, name: str, values: Array) -> Array:
        """Return the signs of the errors of factors ``[1, ...]``: random ones, or a bit of the feature's index."""
        bit = self._pattern.feature
        if bit is None or values.ndim == 1:
            return signs(name, values)
        features = np.arange(values.shape[1]).reshape(1, -1, *(1 for _ in values.shape[2:]))
        return np.where(features >> bit & 1, 1.0, -1.0)

    def _received(self, stage: EdgeReduce, messages: Array, edges: slice) -> Array:
        vertices = self._destinations[edges]
        if stage.reducer == "sum":
            number, turned = self._sums.index(stage.name), self._turned(stage.name)
            roundings = self._roundings(number)[vertices].reshape(-1, *(1 for _ in messages.shape[1:]))
            return off(messages, roundings * UNIT, factor=turned * signs(self._sums[0], messages))
        return self._factor(stage.name, messages, vertices) if stage.reducer == "prod" else messages

    def _turned(self, cause: str) -> float:
        """Return -1 if the pattern turns the sign of a cause of error, else 1."""
        bit = self._pattern.cause
        return -1.0 if bit is not None and self._causes.index(cause) >> bit & 1 else 1.0

    def _roundings(self, number: int = 0) -> Array:
        """Return the roundings of the sum with this number, or of a product, at every vertex ``[V]``; negative where
        they have the other sign."""
        if number not in self._signed_roundings:
            found = (np.asarray(self.graph.in_degrees, np.float64) - 1) / 2
            if self._apart:
                found *= np.random.default_rng(number).choice([-1.0, 1.0], len(found))
            self._signed_roundings[number] = found
        return self._signed_roundings[number]

    def _first_factor(self, name: str, vertices: slice) -> Array:
        return self._factor(name, super()._first_factor(name, vertices), vertices)

    def _factor(self, name: str, values: Array, vertices: slice | Array) -> Array:
        """Return factors of the products of ``vertices`` with the errors of logarithms and of their sums."""
        roundings = self._roundings()[vertices].reshape(-1, *(1 for _ in values.shape[1:]))
        logarithms = np.log(np.abs(values), where=values != 0, out=np.zeros(values.shape))
        error = FACTOR_ROUNDINGS + (roundings + LOGARITHM_ROUNDINGS) * np.abs(logarithms)
        return off(values, error * UNIT, factor=self._factor_signs(name, values))

    def _reduce_graph(self, stage: GraphReduce) -> None:
        super()._reduce_graph(stage)
        if stage.reducer in ("sum", "prod"):
            value = self._value[stage.into]
            roundings = WHOLE_GRAPH_ROUNDINGS + np.log2(max(self.graph.num_vertices, 1))
            self._value[stage.into] = off(value, roundings * UNIT * self._turned(stage.name) * signs(stage.name, value))


def edge_sums(program: Program) -> list[str]:
    """Return the names of the sums over edges, whose numbers are their positions."""
    return [stage.name for stage in program.stages if isinstance(stage, EdgeReduce) and stage.reducer == "sum"]


def causes(program: Program) -> list[str]:
    """Return the causes of error that are independent of each other, whose numbers are their positions.

    They are the sums over edges, the lag of values that a run with a tolerance does not send (:data:`LAG`), and the
    sums and products over all vertices.
    """
    lags = [LAG] if program.control.tolerance is not None else []
    whole = [one for one in program.stages if isinstance(one, GraphReduce) and one.reducer in ("sum", "prod")]
    return [*edge_sums(program), *lags, *(stage.name for stage in whole)]


def patterns(program: Program, features: int) -> list[Pattern]:
    """Return the patterns of signs that the responses of a program are the largest of."""
    products = any(isinstance(stage, EdgeReduce) and stage.reducer == "prod" for stage in program.stages)
    of_features = range((features - 1).bit_length() if products else 0)
    of_causes = range(max(0, len(causes(program)) - 1).bit_length())
    return [RANDOM, *(Pattern(feature=bit) for bit in of_features), *(Pattern(cause=bit) for bit in of_causes)]


def off(values: Array, error: Array, magnitude: Array | None = None, factor: Array | None = None) -> Array:
    """Add ``error`` times ``factor`` (None: 1) times ``magnitude`` (None: that of the values).

    Infinities and NaN are unchanged.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        changed = np.abs(np.asarray(values, np.float64)) if magnitude is None else np.array(magnitude, np.float64)
        changed *= error
        if factor is not None:
            changed *= factor
        changed += values
        finite = np.isfinite(changed.sum())  # a sum of finite values may overflow: then all are checked
    return changed if finite else np.where(np.isfinite(values), changed, values)


def stopping(program: Program, inputs: Inputs) -> tuple[float, bool]:
    """Return the tolerance of a run, and whether it is relative."""
    control = program.control
    if control.tolerance is None:
        return 0.0, False
    return float({**program.parameters, **inputs.parameters}[control.tolerance]), control.relative

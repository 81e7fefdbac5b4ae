"""Near-far: the fixed point of a program of paths, by relaxing vertices in order of priority.

The vertices whose value is within the *threshold* are in the near list, others that wait are in the far pile. In a
superstep all vertices of the near list send. A vertex whose value improves enters the next near list, or the far pile.
Once the near list is empty, the threshold becomes the best value of the far pile plus *delta*, and the pile is split
again (Davidson et al. 2014, *Work-efficient parallel GPU methods for single-source shortest paths*, section 4.3). This
is delta-stepping (Meyer and Sanders 2003) with two buckets. A small delta means few relaxations, as in Dijkstra's
method, and many supersteps; with an unbounded one the near list is a plain work list.

Each feature of a vertex waits and sends for itself, since its messages read no other feature. The program's form is
derived (:mod:`harness.language.priority_order`). Messages are rounded as in supersteps, and of all paths the best sum
remains, so that the values are those of a settled bulk-synchronous run; only the sign of a zero may differ.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.contract import Engine, EngineFailure, No, RunStatistics, Unsupported, Yes, schedule_text
from harness.language.evaluation import concrete
from harness.language.expressions import Expression
from harness.language.initial_state import Start, on_device
from harness.language.priority_order import PriorityOrder, fold, priority_order

if TYPE_CHECKING:
    from harness.contract import Device
    from harness.graph import Graph
    from harness.language import Inputs, Program

Array = NDArray[np.float32]
NEAR_FAR = "near_far"
GUARD = 1_000_000  # a limit of so many supersteps guards runs that do not settle; it is no part of the answer
SAMPLES = 1 << 16  # edges whose lengths give the default of delta, at most
UNBOUNDED = float(np.finfo(np.float32).max)  # as a delta; a record has no infinities
OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@dataclass(frozen=True)
class Counts:
    """The work of a run, of all features: ``supersteps``, ``thresholds`` that were set, and ``edges`` visited."""

    supersteps: int
    thresholds: int
    edges: int

    def plain(self) -> tuple[tuple[str, int], ...]:
        """Return the entry of a record."""
        return ("supersteps", self.supersteps), ("thresholds", self.thresholds), ("edges", self.edges)


def message_text(order: PriorityOrder, operators: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    """Return a message in a language with 32-bit floats: ``operators`` are formats, ``inputs`` names of values.

    The value of the source is ``value``; constants are written so that 32 bits represent them exactly.
    """

    def leaf(node: Expression) -> str:
        if node.op == "const":
            value = float(np.float32(node.attribute))
            exact = repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}INFINITY"
            return operators["const"].format(exact)
        if node.op == "param":
            return inputs[node.attribute]
        space, name = node.attribute
        return "value" if space == "src" else inputs[name]

    made = {name: operators[name].format for name in OPERATORS}
    return str(fold(order.message, leaf, made))


def inputs_of(order: PriorityOrder) -> dict[str, str]:
    """Return the names of edge inputs and parameters in generated code: ``input_0`` and so on, ``parameter_0``."""
    edges = {name: f"input_{at}" for at, name in enumerate(order.inputs)}
    return edges | {name: f"parameter_{at}" for at, name in enumerate(order.parameters)}


class NearFarEngine(Engine):
    """Finds the fixed point of a program of paths in order of priority; a subclass does so on one kind of device.

    The schedule has ``delta``: the width of the near list in values, or None. The default is ``default_widths`` times
    the mean by which a message is worse than its source's value. If all are worse by the same, delta is unbounded: the
    order of a plain list is then that of the values.
    """

    stepwise = False
    deterministic = True  # the values, though not the counts
    default_widths: ClassVar[float]
    order: PriorityOrder
    _counts: Counts | None = None  # of the first run after the preparation
    _delta: float | None = None  # of the latest reset

    def most_items(self) -> float:
        """Return the most values of all vertices that the engine has numbers for."""
        return math.inf

    @abstractmethod
    def bytes_needed(self, graph: Graph, lanes: int, inputs: int, device: Device) -> int:
        """Return the bytes of all arrays that the engine allocates.

        ``lanes``: values of a vertex. ``inputs``: properties of edges that messages read.
        """

    @abstractmethod
    def start(self, values: Array, edges: tuple[Array, ...], parameters: tuple[np.float32, ...]) -> None:
        """Set the values, float32 ``[V, lanes]``, the inputs of edges, float32 ``[E]``, and the parameters of a run."""

    @abstractmethod
    def solve(self) -> Counts:
        """Replace the values by those of the fixed point."""

    @abstractmethod
    def answer(self) -> Array:
        """Return the values, float32 ``[V, lanes]``."""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program's values may be found in order of priority."""
        found = priority_order(program)
        reason = near_far_refusal(program, graph.num_vertices, features, self.most_items())
        if reason or isinstance(found, str):
            return No(reason)
        needed = self.bytes_needed(graph, lanes_of(program, found, features), len(found.inputs), device)
        return Yes(needed, stepwise=False)

    def pose(self, program: Program, graph: Graph, features: int) -> None:
        """Set the problem of the next runs."""
        found = priority_order(program)
        if isinstance(found, str):
            raise EngineFailure(f"order=near_far: {found}")
        self.program, self.graph, self.features, self.order = program, graph, features, found
        self.lanes = lanes_of(program, found, features)
        self._counts, self._delta, self._settled = None, None, False
        self._ranges: dict[str, tuple[Any, tuple[float, float]]] = {}

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Set the problem that :meth:`explain` describes; nothing is compiled."""
        self.pose(program, graph, features)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the values to those before a run. Raises Unsupported if a message may be better than its source."""
        order = self.order
        start = Start(self.program, self.graph, self.features, inputs, state or {})
        properties = self.program.properties
        given = {name: _on_host(start.of(properties[name])) for name in order.inputs}
        known = {**self.program.parameters, **inputs.parameters}
        parameters = {name: float(known[name]) for name in order.parameters}
        ranges = {name: self._range(name, array) for name, array in given.items()}
        ranges |= {name: (value, value) for name, value in parameters.items()}
        refused = order.refusal(ranges)
        if refused:
            raise Unsupported(f"order=near_far: {refused}")
        values = np.asarray(_on_host(start.of(properties[order.state])), np.float32)
        best = -order.sign * math.inf
        if any(math.isinf(limit) for limits in ranges.values() for limit in limits) and bool((values == best).any()):
            raise Unsupported(f"order=near_far: a start of {best:g} and an infinite input have no sum")
        self._shape, self._settled = values.shape, False
        self._delta = self._width(given, parameters) if self.schedule.delta is None else float(self.schedule.delta)
        edges = tuple(np.ascontiguousarray(given[name], np.float32) for name in order.inputs)
        self.start(
            values.reshape(len(values), self.lanes), edges, tuple(np.float32(parameters[name]) for name in parameters)
        )

    def _range(self, name: str, array: NDArray[Any]) -> tuple[float, float]:
        """Return the least and the largest value of an array, known from the last reset if it cannot have changed."""
        known = self._ranges.get(name)
        if known is None or known[0] is not array or array.flags.writeable:
            found = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
            known = self._ranges[name] = array, found
        return known[1]

    def _width(self, edges: Mapping[str, NDArray[Any]], parameters: Mapping[str, float]) -> float:
        """Return the default of delta."""
        stride = max(1, self.graph.num_edges // SAMPLES)
        lengths = np.abs(np.ravel(step_of(self.order, {**edges, **parameters}, stride)))
        lengths = lengths[np.isfinite(lengths)]
        if not lengths.size or lengths.min() == lengths.max():
            return UNBOUNDED
        return float(self.default_widths * lengths.mean(dtype=np.float64))

    @property
    def delta(self) -> np.float32:
        """The width of the near list since the latest reset."""
        assert self._delta is not None, "reset() comes first"
        return np.float32(self._delta)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Find the fixed point, unless it is found; the limit has no meaning."""
        if not self._settled:
            counts = self.solve()
            self._counts, self._settled = self._counts or counts, True
        return RunStatistics(settled=True)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return the state, float32 ``[V, ...]``. Raises EngineFailure for another property."""
        self.require_state(name)
        return self.answer().reshape(self._shape)

    def require_state(self, name: str) -> None:
        """Raise EngineFailure for a property other than the state."""
        if name != self.order.state:
            raise EngineFailure(f"near-far gives {self.order.state!r} and no other property; {name!r} was requested")

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the order, delta once it is known, and what the first run after :meth:`prepare` did."""
        delta = self.schedule.delta if self._delta is None else self._delta
        known = {"order": NEAR_FAR} | ({} if delta is None else {"delta": delta})
        return known if self._counts is None else {**known, "solved": self._counts.plain()}

    def explain(self) -> str:
        """Return the schedule, the order, and the condition on the inputs."""
        order, given = self.order, self.schedule.delta
        best = "least" if order.sign > 0 else "largest"
        needed = ", ".join([*order.inputs, *order.parameters]) or "the inputs"
        mean = f"{self.default_widths:g} times the mean length of an edge, unbounded if all are equal"
        return "\n".join([
            schedule_text(self),
            f"near-far: leaves bulk-synchronous order; each feature of a vertex sends by itself, {best} values first",
            f"delta: {mean if given is None else format(given, 'g')}",
            f"required of {needed}: no message is better than its source's value",
        ])  # fmt: skip


def near_far_refusal(program: Program, num_vertices: int, features: int, most_items: float = math.inf) -> str:
    """Return why a program's values cannot be found in order of priority; empty if they can, if its inputs allow it.

    ``most_items``: the most values of all vertices. The inputs are checked by :meth:`NearFarEngine.reset`.
    """
    found = priority_order(program)
    if isinstance(found, str):
        return f"order=near_far: {found}; leave it unset"
    if program.max_supersteps < min(num_vertices - 1, GUARD):
        limit = f"after {program.max_supersteps} supersteps"
        return f"order=near_far gives the fixed point, and {program.name} may end before it, {limit}"
    if num_vertices * lanes_of(program, found, features) > most_items:
        return f"order=near_far numbers vertices times features up to {most_items:.0f}; take fewer features"
    return ""


def _on_host(values: Any) -> NDArray[Any]:
    """Return values in memory of the host; inputs may be on a device."""
    return np.asarray(values.get() if on_device(values) else values)


def lanes_of(program: Program, order: PriorityOrder, features: int) -> int:
    """Return the number of values of a vertex."""
    return math.prod(concrete(program.properties[order.state].shape, features))


def step_of(order: PriorityOrder, inputs: Mapping[str, Any], stride: int) -> NDArray[Any]:
    """Return by how much a message differs from its source's value 0, for each ``stride``-th edge or for all alike."""

    def leaf(node: Expression) -> Any:
        if node.op == "const":
            return np.float64(node.attribute)
        if node.op == "param":
            return np.float64(inputs[node.attribute])
        space, name = node.attribute
        return np.float64(0) if space == "src" else np.asarray(inputs[name][::stride], np.float64)

    return np.asarray(fold(order.message, leaf, OPERATORS))

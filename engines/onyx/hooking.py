"""Hooking and pointer jumping: the fixed point of programs that only pass the least (or largest) value on.

In such a program every vertex takes the least of its value and those of its neighbours, so that at the fixed point all
vertices of a component have the least value in it. On a graph in which every edge has a reverse edge, the components
can be found without supersteps: a forest has a tree for each component found so far, an edge between two trees hooks
the root of one to a smaller vertex of the other, and jumps from a vertex to its grandparent shorten the paths (Shiloach
and Vishkin 1982). The first edges of all vertices come first. After them most vertices of many graphs are in one tree,
whose other edges need not be read (Sutton, Ben-Nun and Barak 2018). Then the least value of each tree is found and
stored at all of its vertices.

The program is recognised by its structure. The answer is that of its supersteps, because values are only compared and
copied; only the sign of a zero may differ.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.api import (
    Device,
    Engine,
    EngineFailure,
    Expression,
    Graph,
    GraphFacts,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Yes,
    schedule_text,
)
from harness.api.library import Start, VertexStep, compose, concrete, one_way

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule

FIRST_EDGES = 2  # of each vertex, before the largest tree is known; the number of Sutton, Ben-Nun and Barak (2018)
UNLIMITED = 1_000_000  # supersteps, the default limit of components: a program with this many or more has no limit
LEAST_EDGES = 1 << 13  # of a thread of a CPU: 16,128 edges take 82 us on two threads and 116 on one (an Intel Xeon)
SAMPLES = 1024  # vertices by which the largest tree is found; another tree instead of it only takes more time


@dataclass(frozen=True)
class Flood:
    """A program whose fixed point gives each component one value: the least, or largest, value of ``state`` in it."""

    state: str
    least: bool

    @classmethod
    def of(cls, program: Program) -> Flood | str:
        """Return the form of a program, or the reason why it has none."""
        form = one_way(program)
        if isinstance(form, str) or form.kind != "tightens":
            return f"{program.name} does not only pass the least or the largest value on"
        state, into = form.state, form.reduction.into
        wanted = {("v", state), ("v", into)}
        steps = [stage for stage in program.stages if isinstance(stage, VertexStep)]
        value = dict(compose(steps)).get(state)
        taken = [] if value is None else [_read(part) for part in value.args]
        if _read(form.reduction.message) != ("src", state):
            return f"{program.name} changes values on their way along edges"
        if value is None or value.op not in ("min", "max") or len(taken) != 2 or set(taken) != wanted:
            return f"{program.name} does more than to compare a vertex with its neighbours"
        if not program.control.settles or program.outputs != (state,):
            return f"{program.name} gives more than the values of its fixed point"
        return cls(state, least=form.sign > 0)


def hooking_refusal(program: Program, graph: GraphFacts) -> str:
    """Return why hooking cannot find the values of a program on a graph; empty if it can."""
    found = Flood.of(program)
    if isinstance(found, str):
        return f"hooking: {found}"
    if not graph.paired:
        return "hooking finds components of graphs in which every edge has a reverse edge"
    if program.max_supersteps < min(graph.num_vertices - 1, UNLIMITED):
        limit = f"after {program.max_supersteps} supersteps"
        return f"hooking gives the fixed point, and {program.name} may end before it, {limit}"
    return ""


def _read(node: Expression) -> tuple[str, str] | None:
    """Return the space and the name of an expression that only reads a property; None for other expressions."""
    return tuple(node.attribute) if node.op == "read" else None


class HookingEngine(Engine):
    """Finds components by hooking and gives each its value; a subclass does so on one kind of device."""

    stepwise = False
    deterministic = True
    schedule: OnyxSchedule
    flood: Flood

    @abstractmethod
    def bytes_needed(self, graph: Graph, row_bytes: int) -> int:
        """Return the bytes of all arrays that the engine allocates; ``row_bytes``: of the values of a vertex."""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the fixed point is a value for each component, and every edge has a reverse edge.

        A program that is limited to fewer than ``UNLIMITED`` supersteps is refused if a path of the graph may be
        longer. With a higher limit the fixed point is the answer, also at the end of longer paths.
        """
        found, reason = Flood.of(program), hooking_refusal(program, graph.facts)
        if reason or isinstance(found, str):
            return No(reason)
        shape = concrete(program.properties[found.state].shape, features)
        return Yes(self.bytes_needed(graph, 4 * math.prod(shape)), stepwise=False)

    def pose(self, program: Program, graph: Graph, features: int) -> None:
        """Set the problem of the next runs."""
        found = Flood.of(program)
        assert isinstance(found, Flood), found
        self.program, self.graph, self.features, self.flood = program, graph, features, found

    def start(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None) -> NDArray[np.float32]:
        """Return the values before the run, float32 ``[V, ...]``."""
        start = Start(self.program, self.graph, self.features, inputs, state or {})
        values: Any = start.of(self.program.properties[self.flood.state])
        on_device = hasattr(values, "__cuda_array_interface__")
        return np.array(values.get() if on_device else values, np.float32)

    @abstractmethod
    def solve(self) -> None:
        """Replace the values by those of the fixed point."""

    @abstractmethod
    def answer(self) -> NDArray[np.float32]:
        """Return the values."""

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Set the problem."""
        self.pose(program, graph, features)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Compute the fixed point; ``max_supersteps`` is ignored."""
        self.solve()
        return RunStatistics(settled=True)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return the state, float32 ``[V, ...]``. Raises EngineFailure for another property."""
        self.require_state(name)
        return self.answer()

    def require_state(self, name: str) -> None:
        """Raise EngineFailure for a property other than the state."""
        if name != self.flood.state:
            raise EngineFailure(f"hooking gives {self.flood.state!r} and no other property; {name!r} was requested")

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the option that selects this engine; the others have no meaning for it."""
        return {"hooking": True}

    def explain(self) -> str:
        """Return what is computed instead of supersteps."""
        which = "least" if self.flood.least else "largest"
        return (
            f"{schedule_text(self)}\nhooking and pointer jumping: no supersteps. Every vertex of a component gets the "
            f"{which} {self.flood.state} in it, the fixed point of the program."
        )

"""The arrays of a plan: what each holds, its length and dtype, its second buffer, and what a run begins with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harness.language.analysis import mutable
from harness.lowering.edge_tables import Places, Reverse, Rows
from harness.lowering.graph_store import Structure, Table

if TYPE_CHECKING:
    from harness.facts import GraphFacts
    from harness.language import Program
    from harness.language.analysis import FoldGroup
    from harness.language.program import Property
    from harness.lowering.cuda.layout import DeviceLayout
    from harness.lowering.tracking import Tracking


class Holds(Enum):
    """What a buffer holds. The value describes it."""

    STRUCTURE = "offsets, rows or neighbours of the graph"
    TABLE = "what the engine computes from the graph once"
    PARAMETERS = "run-time parameters of the program"
    PROPERTY = "values of a property"
    SENT = "values of a property that were last propagated to a group"
    DIRTY = "flags of vertices, or rows, that a group has to recompute"
    ACTIVE = "flags of vertices whose movement a group has not received yet"
    FRESH = "flags of vertices whose new values are in the second buffer"
    ROWS = "flags of sources with edges that moved since they were propagated"
    MOVED = "flags of edges that moved since they were propagated"
    FAR = "flags of edges whose new values are in the second buffer"
    CHANGED = "flag of a graph value that changed"
    FLIPS = "number of times that two buffers have swapped"
    SECOND = "the second buffer of an array"
    WORK = "intermediate values of kernels"

    @property
    def flags_vertices(self) -> bool:
        """Whether it holds flags of vertices that select what a kernel processes."""
        return self in (Holds.DIRTY, Holds.ACTIVE, Holds.FRESH)


class Order(Enum):
    """The order in which the values of a property are stored; the value is the prefix of its arrays."""

    VERTEX = "vertex"
    CSR = "csr"
    CSC = "csc"
    GRAPH = "graph"

    def array(self, name: str) -> str:
        """Return the name of the array of a property in this order."""
        return f"{self.value}_{name}"


ORDERS = {"vertex": (Order.VERTEX,), "edge": (Order.CSR, Order.CSC), "graph": (Order.GRAPH,)}


Source: TypeAlias = Structure | Table[Any]


@dataclass(frozen=True)
class Buffer:
    """An array on a device, under the name by which kernels take it: ``rows`` rows of ``stride`` values.

    ``of``: the property, group, graph value or array that it belongs to. ``order``: of a property. ``twin``: the name
    of the buffer with which it swaps; empty if there is none. ``flips``: the name of the buffer that counts these
    swaps, if the device decides when to swap. ``start``: the number with which every run fills it; None: a run begins
    with the values of a property, or with undetermined values. ``source``: the part of the graph, or the table, whose
    array the store of the graph has; None: every executor has an array of its own. ``of_edges``: it has a row for every
    edge, and no kernel writes it.
    """

    name: str
    holds: Holds
    of: str = ""
    dtype: str = "float32"
    rows: int = 1
    stride: int = 1
    order: Order | None = None
    twin: str = ""
    flips: str = ""
    start: float | None = None
    kept: bool = False
    source: Source | None = None
    of_edges: bool = False

    @property
    def length(self) -> int:
        """The number of values, including padding."""
        return self.rows * self.stride

    @property
    def kind(self) -> type[np.generic]:
        """The dtype of NumPy."""
        return np.dtype(self.dtype).type

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.length * np.dtype(self.dtype).itemsize


def work(name: str, length: int, dtype: str = "float32", *, start: float | None = None) -> Buffer:
    """Return a buffer of intermediate values."""
    return Buffer(name, Holds.WORK, dtype=dtype, rows=length, start=start, kept=True)


def table(name: str, length: int, source: Table[Any]) -> Buffer:
    """Return the buffer of an array of an engine's table, uint32."""
    return Buffer(name, Holds.TABLE, dtype="uint32", rows=length, kept=True, source=source, of_edges=source.of_edges)


def second(array: str) -> str:
    """Return the name of the second buffer of an array."""
    return f"next_{array}"


def flag_of(holds: Holds, group: str) -> str:
    """Return the name of a group's flags."""
    return f"{holds.name.lower()}_{group}"


def flips_of(array: str) -> str:
    """Return the name of the count of swaps of an array's two buffers."""
    return f"flips_{array}"


def exchanged(name: str, swapped: Iterable[str], twins: Mapping[str, str]) -> str:
    """Return the buffer that lies where ``name`` does before swaps, after the buffers ``swapped`` and their twins have
    swapped."""
    twin = twins.get(name, "")
    return twin if twin and not {name, twin}.isdisjoint(swapped) else name


def of_property(program: Program, prop: Property, order: Order, facts: GraphFacts, layout: DeviceLayout) -> Buffer:
    """Return the buffer of a property in an order.

    State of vertices and of the graph is kept. A temporary that stays within kernels has no array.
    """
    kept = prop.role == "state" and prop.place != "edge"
    rows = {"vertex": facts.num_vertices, "edge": facts.num_edges, "graph": 1}[prop.place]
    dtype = "bool" if prop.dtype == "bool" else "float32"
    stride = layout.stride(prop.shape)
    given = prop.place == "edge" and not mutable(program, prop.name)
    return Buffer(
        order.array(prop.name), Holds.PROPERTY, prop.name, dtype, rows, stride, order, kept=kept, of_edges=given
    )  # fmt: skip


def of_structure(facts: GraphFacts, *, many_edges: bool) -> Iterator[Buffer]:
    """Yield the arrays of a graph that kernels may take."""
    sources: dict[str, Source] = {part.value: part for part in Structure}
    sources |= {"in_rows": Rows(incoming=True), "out_rows": Rows(incoming=False)}
    sources |= {"reverse": Reverse(), "places": Places()}
    for name, source in sources.items():
        if source.of_edges:
            yield Buffer(name, Holds.STRUCTURE, "", "uint32", facts.num_edges, source=source, of_edges=True)
        else:
            position = "int64" if many_edges else "uint32"
            yield Buffer(name, Holds.STRUCTURE, "", position, facts.num_vertices + 1, source=source)


def of_tracking(tracking: Tracking, facts: GraphFacts, layout: DeviceLayout) -> Iterator[Buffer]:
    """Yield the flags and the sent values that change tracking may keep."""
    vertices, edges = facts.num_vertices, facts.num_edges
    for group in tracking.groups:
        name = tracking.name(group)
        dirty = flag_of(Holds.DIRTY, name)
        yield Buffer(dirty, Holds.DIRTY, name, "bool", vertices, twin=second(dirty), start=1)
        yield Buffer(second(dirty), Holds.SECOND, dirty, "bool", vertices, twin=dirty)
        yield Buffer(flag_of(Holds.ACTIVE, name), Holds.ACTIVE, name, "bool", vertices, start=1)
        for holds, rows in ((Holds.FRESH, vertices), (Holds.ROWS, vertices), (Holds.MOVED, edges), (Holds.FAR, edges)):
            yield Buffer(flag_of(holds, name), holds, name, "bool", rows, start=0)
        yield from _sent(tracking, group, facts, layout)
    for prop in tracking.program.properties.values():
        if prop.place == "graph":
            yield Buffer(flag_of(Holds.CHANGED, prop.name), Holds.CHANGED, prop.name, "bool", start=1)


def _sent(tracking: Tracking, group: FoldGroup, facts: GraphFacts, layout: DeviceLayout) -> Iterator[Buffer]:
    if not tracking.change_driven or group not in tracking.propagating():
        return
    for kept in dict.fromkeys((*tracking.sent(group), *(name for _, name in tracking.edges(group)))):
        prop = tracking.program.properties[kept]
        like = of_property(tracking.program, prop, ORDERS[prop.place][0], facts, layout)
        name = tracking.name(group)
        always = prop.place == "vertex"
        yield Buffer(f"sent_{name}_{kept}", Holds.SENT, name, like.dtype, like.rows, like.stride, kept=always)


def of_program(program: Program, facts: GraphFacts, layout: DeviceLayout) -> Iterator[Buffer]:
    """Yield the arrays of a program's properties, in each order in which kernels may store them."""
    for prop in program.properties.values():
        for order in ORDERS[prop.place]:
            yield of_property(program, prop, order, facts, layout)

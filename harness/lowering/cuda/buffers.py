"""The arrays of a plan: what each holds, its length and dtype, its second buffer, and what a run begins with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.language.analysis import mutable
from harness.lowering.buffers import ORDERS, Buffer, Holds, Order, second
from harness.lowering.edge_tables import Places, Reverse, Rows
from harness.lowering.graph_store import Structure, Table

if TYPE_CHECKING:
    from harness.facts import GraphFacts
    from harness.language import Program
    from harness.language.analysis import FoldGroup
    from harness.language.program import Property
    from harness.lowering.cuda.layout import DeviceLayout
    from harness.lowering.tracking import Tracking


Source: TypeAlias = Structure | Table[Any]


@dataclass(frozen=True)
class CudaBuffer(Buffer):
    """An array on a CUDA device.

    ``partner``: the name of the buffer with which it swaps; empty if there is none. ``flips``: the name of the buffer
    that counts these swaps, if the device decides when to swap. ``kept``: it is allocated even if no kernel takes it.
    ``source``: the part of the graph, or the table, whose array the store of the graph has; None: every executor has an
    array of its own. ``of_edges``: it has a row for every edge, and no kernel writes it.
    """

    partner: str = ""
    flips: str = ""
    kept: bool = False
    source: Source | None = None
    of_edges: bool = False


def work(name: str, length: int, dtype: str = "float32", *, start: float | None = None) -> CudaBuffer:
    """Return a buffer of intermediate values."""
    return CudaBuffer(name, Holds.WORK, dtype=dtype, rows=length, start=start, kept=True)


def table(name: str, length: int, source: Table[Any], dtype: str = "uint32") -> CudaBuffer:
    """Return the buffer of an array of an engine's table."""
    return CudaBuffer(name, Holds.TABLE, dtype=dtype, rows=length, kept=True, source=source, of_edges=source.of_edges)


def flag_of(holds: Holds, group: str) -> str:
    """Return the name of a group's flags."""
    return f"{holds.name.lower()}_{group}"


def flips_of(array: str) -> str:
    """Return the name of the count of swaps of an array's two buffers."""
    return f"flips_{array}"


def exchanged(name: str, swapped: Iterable[str], ping_pong: Mapping[str, str]) -> str:
    """Return the buffer in the place of ``name`` after the buffers ``swapped`` have swapped with their partners."""
    partner = ping_pong.get(name, "")
    return partner if partner and not {name, partner}.isdisjoint(swapped) else name


def of_property(
    program: Program, prop: Property, order: Order, facts: GraphFacts, layout: DeviceLayout
) -> CudaBuffer:  # fmt: skip
    """Return the buffer of a property in an order.

    State of vertices and of the graph is kept, and the inputs from which it starts, so that a reset copies them on the
    device. A temporary that stays within kernels has no array.
    """
    starts = {other.start for other in program.properties.values() if other.role == "state"}
    kept = prop.place != "edge" and (prop.role == "state" or (prop.role == "input" and prop.name in starts))
    given = prop.place == "edge" and not mutable(program, prop.name)
    return CudaBuffer.of_property(prop, order, facts, layout, kept=kept, of_edges=given)


def of_structure(facts: GraphFacts, *, many_edges: bool) -> Iterator[CudaBuffer]:
    """Yield the arrays of a graph that kernels may take."""
    sources: dict[str, Source] = {part.value: part for part in Structure}
    sources |= {"in_rows": Rows(incoming=True), "out_rows": Rows(incoming=False)}
    sources |= {"reverse": Reverse(), "places": Places()}
    for name, source in sources.items():
        if source.of_edges:
            yield CudaBuffer(name, Holds.STRUCTURE, "", "uint32", facts.num_edges, source=source, of_edges=True)
        else:
            position = "int64" if many_edges else "uint32"
            yield CudaBuffer(name, Holds.STRUCTURE, "", position, facts.num_vertices + 1, source=source)


def of_tracking(tracking: Tracking, facts: GraphFacts, layout: DeviceLayout) -> Iterator[CudaBuffer]:
    """Yield the flags and the sent values that change tracking may keep."""
    vertices, edges = facts.num_vertices, facts.num_edges
    for group in tracking.groups:
        name = tracking.name(group)
        dirty = flag_of(Holds.DIRTY, name)
        yield CudaBuffer(dirty, Holds.DIRTY, name, "bool", vertices, partner=second(dirty), start=1)
        yield CudaBuffer(second(dirty), Holds.SECOND, dirty, "bool", vertices, partner=dirty)
        yield CudaBuffer(flag_of(Holds.ACTIVE, name), Holds.ACTIVE, name, "bool", vertices, start=1)
        for holds, rows in ((Holds.FRESH, vertices), (Holds.ROWS, vertices), (Holds.MOVED, edges), (Holds.FAR, edges)):
            yield CudaBuffer(flag_of(holds, name), holds, name, "bool", rows, start=0)
        yield from _sent(tracking, group, facts, layout)
    for prop in tracking.program.properties.values():
        if prop.place == "graph":
            yield CudaBuffer(flag_of(Holds.CHANGED, prop.name), Holds.CHANGED, prop.name, "bool", start=1)


def _sent(tracking: Tracking, group: FoldGroup, facts: GraphFacts, layout: DeviceLayout) -> Iterator[CudaBuffer]:
    if not tracking.change_driven or group not in tracking.propagating():
        return
    for kept in dict.fromkeys((*tracking.sent(group), *(name for _, name in tracking.edges(group)))):
        prop = tracking.program.properties[kept]
        like = of_property(tracking.program, prop, ORDERS[prop.place][0], facts, layout)
        name = tracking.name(group)
        always = prop.place == "vertex"
        yield CudaBuffer(f"sent_{name}_{kept}", Holds.SENT, name, like.dtype, like.rows, like.stride, kept=always)


def of_program(program: Program, facts: GraphFacts, layout: DeviceLayout) -> Iterator[CudaBuffer]:
    """Yield the arrays of a program's properties, in each order in which kernels may store them."""
    for prop in program.properties.values():
        for order in ORDERS[prop.place]:
            yield of_property(program, prop, order, facts, layout)

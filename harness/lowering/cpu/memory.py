"""The arrays of one run on the CPU, by the names that kernels use.

Vertex properties are ``vertex_<name>``. Edge properties are ``csr_<name>`` or ``csc_<name>``, in the order of the
traversal that reads them. Values of the graph are ``graph_<name>``. What else an array holds is known from its
:class:`~harness.lowering.cpu.buffers.CpuBuffer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph
from harness.language import Inputs, Program
from harness.language.initial_state import Start
from harness.language.program import Property
from harness.lowering.buffers import ORDERS, Holds, Order
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.edge_places import EdgePlace, ResidentEdges
from harness.lowering.cpu.flags import BLOCK, blocks_of, flag_arrays
from harness.lowering.layout import Layout

Array = NDArray[Any]
EDGES_AT_ONCE = 1 << 20  # whose given values are packed at once on their way to a file


class Memory:
    """The arrays of a plan's buffers.

    ``structure``: arrays of the graph, and tables computed from it, by name. ``place``: of the edge arrays.
    """

    def __init__(
        self,
        program: Program,
        graph: Graph,
        layout: Layout,
        buffers: Sequence[CpuBuffer],
        structure: Mapping[str, Array],
        place: EdgePlace,
    ) -> None:
        self.place = place
        self._given: dict[str, Array] = {}  # edge values in CSR order that are in the place
        self.program, self.graph, self.layout, self.buffers = program, graph, layout, buffers
        self.arrays: dict[str, Array] = dict(structure)
        for buffer in buffers:
            if buffer.two_levels:
                levels = flag_arrays(buffer.length, bool(buffer.start))
                self.arrays[buffer.name], self.arrays[blocks_of(buffer.name)] = levels
            elif buffer.holds is not Holds.PROPERTY:  # those are made by a reset
                self.arrays[buffer.name] = buffer.allocated()

    def holding(self, *kinds: Holds) -> Iterator[CpuBuffer]:
        """Yield the buffers that hold one of ``kinds``."""
        return (buffer for buffer in self.buffers if buffer.holds in kinds)

    def set_flags(self, name: str, value: bool | NDArray[np.bool_], first: int = 0, last: int | None = None) -> None:
        """Set or clear the flags of the vertices ``first .. last``."""
        last = self.graph.num_vertices if last is None else last
        self.arrays[name][first:last] = value
        if value is not False:
            self.arrays[blocks_of(name)][first // BLOCK : -(-last // BLOCK)] = True

    def any_flags_may_be_set(self, name: str) -> None:
        """Record that flags were set without their second level."""
        self.arrays[blocks_of(name)][:] = True

    def swap(self, one: str, other: str) -> None:
        """Swap the names of two arrays."""
        self.arrays[one], self.arrays[other] = self.arrays[other], self.arrays[one]

    def swap_flags(self, one: str, other: str) -> None:
        """Swap the names of two sets of flags."""
        self.swap(one, other)
        self.swap(blocks_of(one), blocks_of(other))

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set parameters, inputs, state and flags. Raises InvalidInput for a missing or misshapen input."""
        values = dict(self.program.parameters) | dict(inputs.parameters)
        self.arrays["parameters"] = np.array([values[name] for name in self.program.parameters] or [0.0], np.float32)
        start = Start(self.program, self.graph, self.layout.features, inputs, state)
        for prop in self.program.properties.values():
            if prop.place != "edge":
                self._set(f"{prop.place}_{prop.name}", start.of(prop), prop)
        self._reset_edges(start)
        for buffer in self.buffers:
            if buffer.start is not None:
                self._begin(buffer, buffer.start)

    def _begin(self, buffer: CpuBuffer, value: float) -> None:
        self.arrays[buffer.name][:] = value
        if buffer.two_levels:
            self.arrays[blocks_of(buffer.name)][:] = value

    def values(self, name: str) -> Array:
        """Return a property as ``[V, ...]``, or an edge property as ``[E, ...]`` in CSR order."""
        prop = self.program.properties[name]
        if name in self._given:
            return self._given[name]
        if prop.place != "edge":
            return self.layout.unpack(self.arrays[f"{prop.place}_{name}"], prop.shape)
        if f"csr_{name}" in self.arrays:
            return self.layout.unpack(self.arrays[f"csr_{name}"], prop.shape)
        ordered = self.layout.unpack(self.arrays[f"csc_{name}"], prop.shape)
        result = np.empty_like(ordered)
        result[self.graph.csc.edge_ids] = ordered
        return result

    def _set(self, name: str, values: Array, prop: Property) -> None:
        kind = np.bool_ if prop.dtype == "bool" else np.float32
        packed = self.layout.pack(values.astype(kind, copy=False), prop.shape)
        if name in self.arrays and self.arrays[name].shape == packed.shape:
            self.arrays[name][:] = packed
        else:
            self.arrays[name] = packed

    def _reset_edges(self, start: Start) -> None:
        """Set the edge properties in every order that kernels read."""
        edges = [buffer for buffer in self.holding(Holds.PROPERTY) if buffer.order in ORDERS["edge"]]
        for name in dict.fromkeys(buffer.of for buffer in edges):
            prop = self.program.properties[name]
            values = start.of(prop)
            kept = [buffer for buffer in edges if buffer.of == name]
            if not isinstance(self.place, ResidentEdges) and kept[0].placed:
                self._put(kept, prop, values)
                continue
            for buffer in kept:
                ordered = values if buffer.order is Order.CSR else self.graph.in_csc_order(values)
                self._set(buffer.name, ordered, prop)

    def _put(self, buffers: Sequence[CpuBuffer], prop: Property, values: Array) -> None:
        """Put given values of edges, in CSR order, in the place; those of the previous reset stay there."""
        if self._given.get(prop.name) is values:
            return
        for buffer in buffers:
            assert buffer.order is not None
            weights = self.graph.in_weights if values is self.graph.weights else None
            ordered = values if buffer.order is Order.CSR else weights
            if ordered is not None and buffer.stride == 1 and ordered.dtype == buffer.kind:
                self.arrays[buffer.name] = self.place.placed(ordered, buffer.order)
            else:
                parts = self._packed_parts(buffer, prop, values)
                self.arrays[buffer.name] = self.place.written(parts, buffer.length, buffer.kind, buffer.order)
        self._given[prop.name] = values

    def _packed_parts(self, buffer: CpuBuffer, prop: Property, values: Array) -> Iterator[Array]:
        """Yield the packed rows of an edge property in the order of a buffer, few at once."""
        for first in range(0, self.graph.num_edges, EDGES_AT_ONCE):
            part: Any = slice(first, first + EDGES_AT_ONCE)
            if buffer.order is Order.CSC:
                part = self.graph.in_edge_ids[part]
            yield self.layout.pack(values[part].astype(buffer.kind, copy=False), prop.shape)

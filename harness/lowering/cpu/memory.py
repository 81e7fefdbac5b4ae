"""The arrays of one run on the CPU, by the names that kernels use.

Vertex properties are ``vertex_<name>``. Edge properties are ``csr_<name>`` or ``csc_<name>``, in the order of the
traversal that reads them. Values of the graph are ``graph_<name>``. Engines add arrays of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import Inputs, Program
from harness.language.program import Property
from harness.language.start import Start
from harness.lowering.cpu.flags import BLOCK, blocks_of, flag_arrays
from harness.lowering.layout import Layout, aligned_zeros

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]


class Memory:
    """Allocate the arrays that kernels name, and set them to the start of a run."""

    def __init__(self, program: Program, graph: Graph, layout: Layout) -> None:
        self.program, self.graph, self.layout = program, graph, layout
        self.arrays: dict[str, Array] = {
            "in_offsets": graph.csc.offsets,
            "in_neighbours": graph.csc.neighbours,
            "out_offsets": graph.csr.offsets,
            "out_neighbours": graph.csr.neighbours,
        }
        self._needed: set[str] = set()

    def need(self, names: Iterable[str]) -> None:
        """Declare arrays that kernels take."""
        self._needed |= set(names)

    def add(self, name: str, array: Array) -> Array:
        """Add an array that belongs to the engine."""
        self.arrays[name] = array
        return array

    def like(self, name: str, prop: str) -> Array:
        """Add a zeroed array of the engine, in the layout of a vertex property."""
        p = self.program.properties[prop]
        dtype = np.bool_ if p.dtype == "bool" else np.float32
        return self.add(name, aligned_zeros(self.graph.num_vertices * self.layout.stride(p.shape), dtype))

    def add_flags(self, name: str, value: bool) -> None:
        """Add two-level flags of the vertices, all ``value``."""
        self.arrays[name], self.arrays[blocks_of(name)] = flag_arrays(self.graph.num_vertices, value)

    def set_flags(self, name: str, value: bool | NDArray[np.bool_], first: int = 0, last: int | None = None) -> None:
        """Set or clear the flags of the vertices ``first .. last``."""
        last = self.graph.num_vertices if last is None else last
        self.arrays[name][first:last] = value
        if value is not False:
            self.arrays[blocks_of(name)][first // BLOCK : -(-last // BLOCK)] = True

    def any_flags_may_be_set(self, name: str) -> None:
        """Record that flags were set without their second level."""
        self.arrays[blocks_of(name)][:] = True

    def swap_flags(self, one: str, other: str) -> None:
        """Swap the names of two sets of flags."""
        for a, b in ((one, other), (blocks_of(one), blocks_of(other))):
            self.arrays[a], self.arrays[b] = self.arrays[b], self.arrays[a]

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set parameters, inputs and state. Raises InvalidInput for a missing or misshapen input."""
        values = dict(self.program.parameters) | dict(inputs.parameters)
        self.arrays["parameters"] = np.array([values[name] for name in self.program.parameters] or [0.0], np.float32)
        start = Start(self.program, self.graph, self.layout.features, inputs, state)
        for prop in self.program.properties.values():
            if prop.place == "edge":
                self._reset_edges(prop, start)
            else:
                self._set(f"{prop.place}_{prop.name}", start.of(prop), prop)

    def values(self, name: str) -> Array:
        """Return a property as ``[V, ...]``, or an edge property as ``[E, ...]`` in CSR order."""
        prop = self.program.properties[name]
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

    def _reset_edges(self, prop: Property, start: Start) -> None:
        """Set an edge property in every order that kernels read."""
        wanted = [order for order in ("csr", "csc") if f"{order}_{prop.name}" in self._needed]
        if not wanted:
            return
        values = start.of(prop)
        for order in wanted:
            ordered = values if order == "csr" else self.graph.in_csc_order(values)
            self._set(f"{order}_{prop.name}", ordered, prop)

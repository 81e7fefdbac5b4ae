"""The arrays of one run on a device, by the names that kernels use (as in ``harness.lowering.cpu.memory``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import Inputs, Program
from harness.language.program import Property
from harness.language.start import Start
from harness.lowering.cuda.layout import DeviceLayout

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
SLACK = 512  # bytes behind the last row, which a lane without a feature may read


class DeviceMemory:
    """Allocates what kernels name, and sets it to the start of a run.

    ``doubled``: arrays with a second buffer, ``next_<name>``.
    """

    def __init__(self, program: Program, graph: Graph, layout: DeviceLayout, arc: type[np.generic]) -> None:
        import cupy

        self.cupy = cupy
        self.program, self.graph, self.layout, self.arc = program, graph, layout, arc
        self.arrays: dict[str, Any] = {}
        self.needed: set[str] = set()

    def need(self, names: Iterable[str]) -> None:
        """Announce arrays that kernels take, and upload those of the graph."""
        self.needed |= set(names)
        graph = self.graph
        known: dict[str, Any] = {
            "in_offsets": lambda: graph.csc.offsets.astype(self.arc),
            "in_neighbours": lambda: graph.csc.neighbours.astype(np.uint32, copy=False),
            "in_rows": lambda: graph.csc.row_of_arc.astype(np.uint32, copy=False),
            "out_offsets": lambda: graph.csr.offsets.astype(self.arc),
            "out_neighbours": lambda: graph.csr.neighbours.astype(np.uint32, copy=False),
            "out_rows": lambda: graph.csr.row_of_arc.astype(np.uint32, copy=False),
            "reverse": lambda: graph.in_edge_ids.astype(np.uint32, copy=False),
        }
        for name in sorted(self.needed & set(known)):
            self.arrays[name] = self.cupy.asarray(known[name]())

    def empty(self, name: str, values: int, dtype: type = np.float32) -> Any:
        """An array of the engine's own, poisoned with NaN."""
        array = self.cupy.full(values + SLACK // np.dtype(dtype).itemsize, np.nan if dtype is np.float32 else 0, dtype)
        self.arrays[name] = array
        return array

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set parameters, inputs and state. Raises InvalidInput for a missing or misshapen input."""
        values = dict(self.program.parameters) | dict(inputs.parameters)
        numbers = [values[name] for name in self.program.parameters] or [0.0]
        self._upload("parameters", np.array(numbers, np.float32))
        start = Start(self.program, self.graph, self.layout.features, inputs, state)
        for prop in self.program.properties.values():
            if prop.place != "edge":
                self._set(f"{prop.place}_{prop.name}", start.of(prop), prop)
                continue
            for order in ("csr", "csc"):
                if f"{order}_{prop.name}" in self.needed:
                    given = start.of(prop)
                    self._set(f"{order}_{prop.name}", given if order == "csr" else given[self.graph.csc.edge_ids], prop)

    def _set(self, name: str, values: Array, prop: Property) -> None:
        kind = np.bool_ if prop.dtype == "bool" else np.float32
        self._upload(name, self.layout.pack(values.astype(kind, copy=False), prop.shape))

    def _upload(self, name: str, values: Array) -> None:
        array = self.arrays.get(name)
        if array is None:
            array = self.empty(name, len(values), values.dtype.type)
        array[: len(values)].set(values)

    def values(self, name: str, array_of: Mapping[str, str]) -> Array:
        """A property as ``[V, ...]``, or ``[E, ...]`` in CSR order; ``array_of``: where it lies if doubled."""
        prop, graph = self.program.properties[name], self.graph
        order = "csr" if f"csr_{name}" in self.arrays else "csc"
        key = f"{order}_{name}" if prop.place == "edge" else f"{prop.place}_{name}"
        count = {"vertex": graph.num_vertices, "edge": graph.num_edges, "graph": 1}[prop.place]
        flat = self.arrays[array_of.get(key, key)][: count * self.layout.stride(prop.shape)].get()
        ordered = self.layout.unpack(flat, prop.shape)
        if prop.place != "edge" or order == "csr":
            return ordered
        result = np.empty_like(ordered)
        result[graph.csc.edge_ids] = ordered
        return result

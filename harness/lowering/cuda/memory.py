"""The arrays of one run on a device, by the names that kernels use (as in ``harness.lowering.cpu.memory``)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import Inputs, Program
from harness.language.program import Property
from harness.language.start import Start
from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.names import parameter_names, propagated_tolerance
from harness.lowering.edge_order import places

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
SLACK = 512  # bytes after the last row, which a lane without a feature may read


def arrays_of(program: Program, needed: Container[str]) -> Iterator[tuple[str, Property]]:
    """Yield the property arrays that exist, by name: those that kernels take, and all state of vertices and of the
    graph.

    A temporary that stays within kernels has none.
    """
    for prop in program.properties.values():
        orders = ("csr", "csc") if prop.place == "edge" else (prop.place,)
        for order in orders:
            name = f"{order}_{prop.name}"
            if name in needed or (prop.role == "state" and prop.place != "edge"):
                yield name, prop


def values_of(prop: Property, graph: Graph, layout: DeviceLayout) -> int:
    """Return the number of values in the array of a property, including padding."""
    counts = {"vertex": graph.num_vertices, "edge": graph.num_edges, "graph": 1}
    return counts[prop.place] * layout.stride(prop.shape)


class DeviceMemory:
    """Allocate the arrays that kernels name, and set them to the start of a run.

    ``doubled``: arrays with a second buffer, ``next_<name>``. ``propagated_share``: of the tolerance; a larger change
    is propagated.
    """

    def __init__(
        self, program: Program, graph: Graph, layout: DeviceLayout, arc: type[np.generic], propagated_share: float
    ) -> None:
        import cupy

        self.cupy = cupy
        self.program, self.graph, self.layout, self.arc = program, graph, layout, arc
        self.propagated_share = propagated_share
        self.arrays: dict[str, Any] = {}
        self.needed: set[str] = set()
        self._inputs: Inputs | None = None  # the inputs that are on the device

    def need(self, names: Iterable[str]) -> None:
        """Declare arrays that kernels take, and upload those of the graph."""
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
            "places": lambda: places(graph).astype(np.uint32, copy=False),
        }
        for name in sorted(self.needed & set(known)):
            self.arrays[name] = self.cupy.asarray(known[name]())

    def empty(self, name: str, values: int, dtype: type[np.generic] = np.float32) -> Any:
        """Return an array that belongs to the engine, filled with NaN."""
        array = self.cupy.full(values + SLACK // np.dtype(dtype).itemsize, np.nan if dtype is np.float32 else 0, dtype)
        self.arrays[name] = array
        return array

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set parameters, inputs and state. Raises InvalidInput for a missing or misshapen input.

        No kernel writes an input, so the inputs of the previous reset stay on the device.
        """
        values = dict(self.program.parameters) | dict(inputs.parameters)
        if self.program.control.tolerance is not None:
            tolerance = values[self.program.control.tolerance]
            values[propagated_tolerance(self.program)] = self.propagated_share * tolerance
        numbers = [values[name] for name in parameter_names(self.program)] or [0.0]
        self._upload("parameters", np.array(numbers, np.float32))
        start = Start(self.program, self.graph, self.layout.features, inputs, state)
        kept, self._inputs = self._inputs is inputs, None
        changing = []
        for name, prop in arrays_of(self.program, self.needed):
            if prop.role in ("state", "temporary"):
                changing.append((name, prop))
            elif not kept:
                self._give(name, prop, start)
        for name, prop in changing:
            if prop.name in state:
                self._give(name, prop, start)
            elif not isinstance(prop.start, str):
                self._fill(name, prop)
            elif not self._copy(name, prop):
                self._give(name, prop, start)
        self._inputs = inputs

    def _give(self, name: str, prop: Property, start: Start) -> None:
        """Set a property to its value on the host."""
        given = start.of(prop)
        self._set(name, self.graph.in_csc_order(given) if name.startswith("csc_") else given, prop)

    def _copy(self, name: str, prop: Property) -> bool:
        """Set a property to the input from which it starts, if that is on the device."""
        given = self.program.properties[str(prop.start)]
        source = self.arrays.get(f"{name.partition('_')[0]}_{given.name}") if given.role == "input" else None
        if source is None:
            return False
        array = self.arrays.get(name)
        if array is None:
            array = self.empty(name, values_of(prop, self.graph, self.layout), source.dtype.type)
        size = values_of(prop, self.graph, self.layout)
        array[:size] = source[:size]
        return True

    def _fill(self, name: str, prop: Property) -> None:
        """Set all of a property to its constant, or a temporary to NaN, on the device."""
        kind = np.bool_ if prop.dtype == "bool" else np.float32
        array = self.arrays.get(name)
        if array is None:
            array = self.empty(name, values_of(prop, self.graph, self.layout), kind)
        array.fill((False if kind is np.bool_ else np.nan) if prop.start is None else prop.start)

    def _set(self, name: str, values: Array, prop: Property) -> None:
        kind = np.bool_ if prop.dtype == "bool" else np.float32
        values = values.astype(kind, copy=False)
        padded = values.size != len(values) * self.layout.stride(prop.shape)
        self._upload(name, self.layout.pack(values, prop.shape) if padded else np.ascontiguousarray(values).ravel())

    def _upload(self, name: str, values: Array) -> None:
        array = self.arrays.get(name)
        if array is None:
            array = self.empty(name, len(values), values.dtype.type)
        array[: len(values)].set(values)

    def values(self, name: str, array_of: Mapping[str, str]) -> Array:
        """Return a property as ``[V, ...]``, or ``[E, ...]`` in CSR order; ``array_of``: its array if it is doubled."""
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

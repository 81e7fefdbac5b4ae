"""The arrays of one executor on a device: the buffers of a plan, set to the start of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Unsupported
from harness.graph.file_maps import in_parts
from harness.language import Inputs
from harness.language.criterion import PROPAGATED_SHARE
from harness.language.evaluation import concrete
from harness.language.initial_state import Start, on_device
from harness.language.program import Property
from harness.lowering.buffers import ORDERS, Holds, Order
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.names import parameter_names, propagated_tolerance
from harness.lowering.edge_order import places

if TYPE_CHECKING:
    from harness.lowering.cuda.plan import CudaPlan

Array = NDArray[Any]

OF_PROPERTY = (Holds.PROPERTY, Holds.LEAST, Holds.GREATEST)
EDGES_AT_ONCE = 1 << 24  # whose values are reordered on the device at once, from temporary arrays


class DeviceMemory:
    """The arrays of a plan, by name in ``arrays``: the store's of graph and tables, and new ones for the rest."""

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        import cupy

        self.cupy, self.plan, self.store, self.graph = cupy, plan, store, store.graph
        self.program, self.layout = plan.program, plan.layout
        self.arrays: dict[str, Any] = {}
        self._inputs: Inputs | None = None  # the inputs that are on the device

    def allocate(self, buffers: Iterable[CudaBuffer]) -> None:
        """Get the arrays of ``buffers``, except for those of properties and parameters, which :meth:`reset` allocates.

        Raises MemoryError.
        """
        for buffer in buffers:
            if buffer.source is not None:
                self.arrays[buffer.name] = self.store.array(buffer)
            elif buffer.holds not in (Holds.PROPERTY, Holds.PARAMETERS):
                self.arrays[buffer.name] = self.store.empty(buffer)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set parameters, inputs and state, and the buffers that begin with a number.

        Raises InvalidInput for a missing or misshapen input. No kernel writes an input, so arrays that the previous
        reset was given, too, stay on the device.
        """
        self._set_parameters(inputs)
        start = Start(self.program, self.graph, self.layout.features, inputs, state)
        before, self._inputs = self._inputs, None
        changing = []
        for buffer in self.plan.buffers:
            if buffer.holds not in OF_PROPERTY:
                continue
            prop = self.program.properties[buffer.of]
            if prop.role in ("state", "temporary"):
                changing.append((buffer, prop))
            elif before is not None and before.properties.get(prop.name) is inputs.properties.get(prop.name):
                continue
            elif buffer.holds is Holds.PROPERTY:
                self._give(buffer, prop, start)
            else:
                self._give_extremes(buffer, prop, start)
        for buffer, prop in changing:
            if prop.name in state:
                self._give(buffer, prop, start)
            elif not isinstance(prop.start, str):
                self._fill(buffer, prop)
            elif not self._copy(buffer, prop):
                self._give(buffer, prop, start)
        self._inputs = inputs
        for buffer in self.plan.buffers:
            if buffer.start is not None:
                self.arrays[buffer.name].fill(buffer.start)

    def _set_parameters(self, inputs: Inputs) -> None:
        values = dict(self.program.parameters) | dict(inputs.parameters)
        if self.program.control.tolerance is not None:
            tolerance = values[self.program.control.tolerance]
            values[propagated_tolerance(self.program)] = PROPAGATED_SHARE * tolerance
        numbers = [values[name] for name in parameter_names(self.program)] or [0.0]
        if "parameters" in self.plan.named:
            self.array(self.plan.named["parameters"])[: len(numbers)].set(np.array(numbers, np.float32))

    def _give(self, buffer: CudaBuffer, prop: Property, start: Start) -> None:
        """Set a property to its value, which is on the host or, if it is an input, may be on this device."""
        given = start.of(prop)
        if on_device(given):
            self._give_on_device(buffer, prop, given)
            return
        known = given is self.graph.weights  # in CSC order, too
        writable = self.store.edges.writable or not buffer.of_edges
        if buffer.order is Order.CSC and self.graph.has_reverse_edges and writable and not known:
            self._give_reordered(buffer, prop, given)
            return
        values = self.graph.in_csc_order(given) if buffer.order is Order.CSC else given
        values = values.astype(buffer.kind, copy=False)
        padded = values.size != len(values) * buffer.stride
        flat = self.layout.pack(values, prop.shape) if padded else np.ascontiguousarray(values).ravel()
        self.array(buffer)[: len(flat)].set(flat)

    def _give_extremes(self, buffer: CudaBuffer, prop: Property, start: Start) -> None:
        """Set a buffer to the least or greatest values of an input, or to NaN if it has none."""
        given, least = start.of(prop), buffer.holds is Holds.LEAST
        if on_device(given):
            given = given.min(axis=0, keepdims=True).get() if least else given.max(axis=0, keepdims=True).get()
        extreme = np.minimum if least else np.maximum
        parts = [extreme.reduce(part, axis=0) for part in in_parts(given) if len(part)]
        values = extreme.reduce(parts, axis=0)[None] if parts else np.full((1, *given.shape[1:]), np.nan)
        self.arrays[buffer.name][: buffer.length].set(self.layout.pack(values.astype(np.float32), prop.shape))

    def _give_on_device(self, buffer: CudaBuffer, prop: Property, given: Any) -> None:
        """Set a property to values on this device. Raises Unsupported for an array of edges in memory of the host."""
        if buffer.of_edges and not self.store.edges.writable:
            raise Unsupported(
                f"input {prop.name!r} is on the device, and edges={self.store.place.value} keeps arrays of edges in "
                "host memory; give a NumPy array, or edges=resident"
            )
        if buffer.order is Order.CSC:
            self._give_reordered(buffer, prop, given)
        else:
            self._rows(buffer, prop)[...] = given

    def _rows(self, buffer: CudaBuffer, prop: Property) -> Any:
        """Return the values of a property on the device as ``[rows, ...]`` without padding, which is set to zero."""
        array, dims = self.array(buffer)[: buffer.length], concrete(prop.shape, self.layout.features)
        if buffer.stride != int(np.prod(dims)):
            array.fill(0)
        inner = (*dims[:-1], self.layout.row_stride(dims[-1])) if dims else ()
        return array.reshape(buffer.rows, *inner)[..., : dims[-1] if dims else None]

    def _give_reordered(self, buffer: CudaBuffer, prop: Property, given: Any) -> None:
        """Set an edge property to values in CSR order, on the host or the device; the device brings them to CSC order.

        On the host this takes longer than the upload if all edges pair.
        """
        rows, in_csc = self._rows(buffer, prop), places(self.graph)
        for first in range(0, len(given), EDGES_AT_ONCE):
            part = slice(first, first + EDGES_AT_ONCE)
            values = given[part]
            if not on_device(given):
                values = self.cupy.asarray(np.ascontiguousarray(values, buffer.kind))
            rows[self.cupy.asarray(in_csc[part]).astype(np.int64)] = values

    def _copy(self, buffer: CudaBuffer, prop: Property) -> bool:
        """Set a property to the input from which it starts, if that is on the device."""
        given = self.program.properties[str(prop.start)]
        assert buffer.order is not None
        source = self.arrays.get(buffer.order.array(given.name)) if given.role == "input" else None
        if source is None:
            return False
        array = self.array(buffer)
        array[: buffer.length] = source[: buffer.length]
        return True

    def _fill(self, buffer: CudaBuffer, prop: Property) -> None:
        """Set all of a property to its constant, or a temporary to NaN, on the device."""
        fill_value = False if buffer.dtype == "bool" else np.nan
        self.array(buffer).fill(fill_value if prop.start is None else prop.start)

    def array(self, buffer: CudaBuffer) -> Any:
        """Return the array of a property or of parameters, allocated at the first request. Raises MemoryError."""
        if buffer.name not in self.arrays:
            self.arrays[buffer.name] = self.store.empty(buffer)
        return self.arrays[buffer.name]

    def values(self, name: str, array_of: Mapping[str, str]) -> Array:
        """Return a property as ``[V, ...]``, or ``[E, ...]`` in CSR order; ``array_of``: its array if it is doubled."""
        flat, order = self._lying(name, array_of)
        ordered = self.layout.unpack(flat.get(), self.program.properties[name].shape)
        if order is not Order.CSC:
            return ordered
        result = np.empty_like(ordered)
        result[self.graph.csc.edge_ids] = ordered
        return result

    def device_values(self, name: str, array_of: Mapping[str, str]) -> Any:
        """Return :meth:`values` as a new array on the device."""
        flat, order = self._lying(name, array_of)
        ordered = self.layout.unpack(flat, self.program.properties[name].shape)
        if order is not Order.CSC:
            return ordered
        return ordered[self.cupy.asarray(places(self.graph)).astype(np.int64)]

    def rows(self, name: str, array_of: Mapping[str, str], index: Array) -> Array:
        """Return some rows of :meth:`values`, selected on the device."""
        prop = self.program.properties[name]
        flat, order = self._lying(name, array_of)
        chosen = places(self.graph)[index] if order is Order.CSC else index
        stride = self.layout.stride(prop.shape)
        found = flat.reshape(len(flat) // stride, stride)[self.cupy.asarray(chosen.astype(np.int64))]
        return self.layout.unpack(found.get().ravel(), prop.shape)

    def _lying(self, name: str, array_of: Mapping[str, str]) -> tuple[Any, Order]:
        """Return the padded array of a property on the device, flat, and its order."""
        order = next(one for one in ORDERS[self.program.properties[name].place] if one.array(name) in self.arrays)
        key = order.array(name)
        return self.arrays[array_of.get(key, key)][: self.plan.named[key].length], order

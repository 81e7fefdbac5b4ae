"""The arrays of a graph on a CUDA device."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.edge_places import Place
from harness.graph import Graph
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.edge_places import PLACES, ManagedEdges, filled
from harness.lowering.cuda.packed_windows import PackedArray, of_ids
from harness.lowering.graph_store import Array, GraphStore, Structure

if TYPE_CHECKING:
    from harness.lowering.packed_ids import PackedIds


class DeviceStore(GraphStore):
    """One graph on one CUDA device, which must be the current one whenever an array is requested.

    The store owns the arrays of the graph and of tables; kernels read them. It also makes the arrays that executors
    write, so that all arrays with a row for every edge are in one place. Its own arrays are released when the last user
    detaches.
    """

    def __init__(
        self, graph: Graph, place: Place = Place.RESIDENT, device: int = 0, advice: str = "", *, packed: bool = False
    ) -> None:
        super().__init__(graph, place, device, advice, packed=packed)
        self.edges = PLACES[place]() if place is not Place.MANAGED else ManagedEdges(advice)
        self._arrays: dict[tuple[object, str, str], Any] = {}
        self._staged: dict[tuple[object, str, str], Array | PackedIds] = {}
        self._users = 0

    @classmethod
    def places(cls) -> Collection[Place]:
        """Return the places that are built."""
        return PLACES

    def attach(self) -> None:
        """Register a user of the arrays."""
        self._users += 1

    def detach(self) -> None:
        """Remove a user; without users the arrays are released, even if references to the store remain."""
        self._users -= 1
        if not self._users:
            self._arrays.clear()

    def stage(self, buffers: Iterable[CudaBuffer]) -> None:
        """Compute on the host what :meth:`array` will upload for some buffers, without using the device."""
        for buffer in buffers:
            key = (buffer.source, buffer.name, buffer.dtype)
            if buffer.source is not None and key not in self._arrays:
                self._staged[key] = self._values(buffer).astype(buffer.kind, copy=False)

    def pack(self, buffers: Iterable[CudaBuffer]) -> None:
        """Pack the ids among what :meth:`stage` has computed for some buffers, if ids are packed."""
        from harness.lowering.packed_ids import pack  # loads the compiler

        for buffer in buffers:
            key = (buffer.source, buffer.name, buffer.dtype)
            values = self._staged.get(key)
            if self.packed and of_ids(buffer) and isinstance(values, np.ndarray):
                self._staged[key] = pack(values)

    def array(self, buffer: CudaBuffer) -> Any:
        """Return the array of the graph or of a table that a buffer describes, uploaded at the first request.

        Raises MemoryError.
        """
        key = (buffer.source, buffer.name, buffer.dtype)
        if key not in self._arrays:
            self.stage([buffer] if key not in self._staged else [])
            if self.packed:
                self.pack([buffer])
            values = self._staged.pop(key)
            if not isinstance(values, np.ndarray):
                self._arrays[key] = PackedArray(values)
            else:
                self._arrays[key] = self.edges.upload(values) if buffer.of_edges else _uploaded(values)
        return self._arrays[key]

    def empty(self, buffer: CudaBuffer) -> Any:
        """Return a new array for a buffer: NaN, or 0 if it is not of float32. Raises MemoryError."""
        make = self.edges.empty if buffer.of_edges else filled
        return make(buffer.length, buffer.kind)

    def device_bytes(self, buffers: Iterable[CudaBuffer]) -> int:
        """Return the bytes that the arrays of some buffers take in the device's memory beyond what the store has."""
        new = [one for one in buffers if (one.source, one.name, one.dtype) not in self._arrays]
        of_edges = self.edges.device_bytes(buffer for buffer in new if buffer.of_edges)
        return of_edges + sum(buffer.nbytes for buffer in new if not buffer.of_edges)

    def _values(self, buffer: CudaBuffer) -> Array:
        source = buffer.source
        assert source is not None, f"{buffer.name} holds nothing of the graph"
        if isinstance(source, Structure):
            return self.structure(source)
        # Tables that only kernels read are not kept on the host.
        made = self._tables[source] if source in self._tables else source.of(self.graph)
        return source.named(made)[buffer.name]


def _uploaded(values: Array) -> Any:
    import cupy

    return cupy.asarray(values)

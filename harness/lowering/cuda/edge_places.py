"""Places of the arrays with a row for every edge: the memory that holds them, and how calls reach it.

Kernels read these arrays and never write them: neighbours, rows, positions of other edges, given properties of edges.
All other arrays are in the memory of the device. To build another place, add a subclass of :class:`EdgePlace` to
:data:`PLACES`: executors, launcher and loops use the place that their store has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakSet

import numpy as np

from harness.device.host_memory import pinned_array, pinned_values
from harness.device.managed_memory import ManagedMemory, managed_array
from harness.edge_places import Place
from harness.language import Inputs
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.cached_edges import Prefixed
from harness.lowering.cuda.calls import Call, Replay, recorded
from harness.lowering.cuda.windows import SLACK
from harness.lowering.graph_store import Array, GraphStore

if TYPE_CHECKING:
    from harness.contract import Transfers
    from harness.lowering.cuda.plan import CudaPlan


class Replayer(Protocol):
    """What prepares calls to be queued any number of times."""

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Prepare the calls of a superstep, in order."""

    def refresh(self, inputs: Inputs) -> None:
        """Prepare for a run with these inputs, whose arrays are set."""

    def begin(self, supersteps: int, *, everything: bool) -> None:
        """Prepare for at most this many supersteps; ``everything``: a run begins, and all vertices are active."""

    def transferred(self) -> Transfers | None:
        """Return what has been moved to the device since the last call; None: it is not counted."""

    def close(self) -> None:
        """Release the memory that the calls need."""


class EdgePlace(ABC):
    """A place of arrays with a row for every edge.

    ``writable``: CuPy's own kernels can write the arrays of :meth:`empty`, to reorder given values on the device.
    Otherwise values are reordered on the host.
    """

    writable: ClassVar[bool] = True

    @abstractmethod
    def upload(self, values: Array) -> Any:
        """Return an array with these values as kernels take it. Raises MemoryError."""

    @abstractmethod
    def empty(self, length: int, dtype: type[np.generic]) -> Any:
        """Return an array for values that are set later, with :data:`SLACK` behind it. Raises MemoryError.

        The array has the slices and the ``set`` of a CuPy array.
        """

    @abstractmethod
    def device_bytes(self, buffers: Iterable[CudaBuffer]) -> int:
        """Return the bytes that new arrays of some buffers take in the memory of the device."""

    def replayer(
        self, plan: CudaPlan, store: GraphStore, functions: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> Replayer:
        """Return what prepares the calls of a plan with these loaded kernels and arrays; by default the place itself.

        Raises MemoryError.
        """
        return self

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Prepare the calls of a superstep, in order. By default they are recorded as a CUDA graph.

        A place whose arrays change between calls returns calls of parts of the work instead (:meth:`Call.between`).
        """
        return recorded(calls)

    def keep(self, share: float = 0.0) -> None:
        """Remove from the device what runs have moved there, but for a share of the edges; by default nothing."""
        return

    def fetch(self, stream: int) -> None:
        """Queue on a stream what a run moves to the device before its first superstep; by default nothing."""
        return

    def refresh(self, inputs: Inputs) -> None:
        """Prepare for a run with these inputs; by default nothing."""
        return

    def begin(self, supersteps: int, *, everything: bool) -> None:
        """Prepare for at most this many supersteps (:meth:`Replayer.begin`); by default nothing."""
        return

    def transferred(self) -> Transfers | None:
        """Return what has been moved to the device since the last call; by default None: it is not counted."""
        return None

    def close(self) -> None:
        """Release what the calls need besides the arrays of the store; by default nothing."""
        return


class ResidentEdges(EdgePlace):
    """The memory of the device."""

    def upload(self, values: Array) -> Any:
        """Return a copy in the memory of the device; values that are there already are not copied."""
        import cupy

        return cupy.asarray(values)

    def empty(self, length: int, dtype: type[np.generic]) -> Any:
        """Return an array filled with NaN, or with 0 if it is not of float32."""
        return filled(length, dtype)

    def device_bytes(self, buffers: Iterable[CudaBuffer]) -> int:
        """Return the bytes of the buffers."""
        return sum(buffer.nbytes for buffer in buffers)


class MappedEdges(EdgePlace):
    """Page-locked memory of the host, which kernels read in place over the host link (Min et al. 2020, sec. 4).

    The pointers of an array never change, so supersteps are recorded as usual.
    """

    writable = False

    def upload(self, values: Array) -> Any:
        """Return the values page-locked, in place if they have pages of their own, else a copy.

        Raises MemoryError, EngineFailure.
        """
        return pinned_values(values)

    def empty(self, length: int, dtype: type[np.generic]) -> Any:
        """Return a page-locked array of zeros. Raises MemoryError, EngineFailure."""
        return pinned_array(length + SLACK // np.dtype(dtype).itemsize, dtype)

    def device_bytes(self, buffers: Iterable[CudaBuffer]) -> int:
        """Return 0."""
        return 0

    def replayer(
        self, plan: CudaPlan, store: GraphStore, functions: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> Replayer:
        """Return the place, or what keeps the first edges on the device if the plan says so. Raises MemoryError."""
        return Prefixed(plan, store, arrays) if plan.prefix.edges else self


def filled(length: int, dtype: type[np.generic]) -> Any:
    """Return an array in the memory of the device with :data:`SLACK`, filled with NaN, or with 0 if not of float32."""
    import cupy

    return cupy.full(length + SLACK // np.dtype(dtype).itemsize, np.nan if dtype is np.float32 else 0, dtype)


class ManagedEdges(EdgePlace):
    """Managed memory, no more than the device has free: the comparison of Min et al. 2020, sec. 5.1.

    All pages are on the host when a run begins, as at the beginning of a run of the published code, which allocates the
    memory again. With the advice *prefetch*, moving them to the device is a part of the run.
    """

    writable = False

    def __init__(self, advice: str = "none") -> None:
        self.advice = advice
        self._memory: WeakSet[ManagedMemory] = WeakSet()

    def upload(self, values: Array) -> Any:
        """Return a managed copy. Raises MemoryError."""
        array = self._array(values.size, values.dtype.type)
        array.set(values)
        return array

    def empty(self, length: int, dtype: type[np.generic]) -> Any:
        """Return a managed array with undetermined values. Raises MemoryError."""
        return self._array(length + SLACK // np.dtype(dtype).itemsize, dtype)

    def _array(self, length: int, dtype: type[np.generic]) -> Any:
        memory = ManagedMemory(length * np.dtype(dtype).itemsize, self.advice)
        self._memory.add(memory)
        return managed_array(memory, length, dtype)

    def keep(self, share: float = 0.0) -> None:
        """Move the pages of all edges but a first share to the host. Raises DriverError."""
        for memory in self._memory:
            memory.keep(share)

    def fetch(self, stream: int) -> None:
        """Queue the move of all pages to the device, if that is the advice."""
        for memory in self._memory:
            memory.fetch(stream)

    def device_bytes(self, buffers: Iterable[CudaBuffer]) -> int:
        """Return the bytes of the buffers, since all pages may move to the device."""
        return sum(buffer.nbytes for buffer in buffers)


class StreamedEdges(MappedEdges):
    """Page-locked memory of the host, from which windows are copied (:mod:`harness.lowering.cuda.streamed`)."""

    def replayer(
        self, plan: CudaPlan, store: GraphStore, functions: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> Replayer:
        """Return what copies windows while the calls of a plan run. Raises MemoryError."""
        from harness.lowering.cuda.streamed import Streamer

        return Streamer(plan, store, functions, arrays)


PLACES: Mapping[Place, type[EdgePlace]] = {
    Place.RESIDENT: ResidentEdges, Place.MAPPED: MappedEdges, Place.STREAMED: StreamedEdges,
    Place.MANAGED: ManagedEdges,
}  # fmt: skip

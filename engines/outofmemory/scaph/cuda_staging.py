"""Rows that the host packs, in buffers of page-locked memory and of the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engines.outofmemory.scaph.cuda_packed_rows import PLACED
from engines.outofmemory.scaph.cuda_windows import windows_of
from engines.outofmemory.scaph.extraction import TABLE_BYTES, groups_of
from harness.api.cuda import SLACK, PinnedMemory, aligned, on_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engines.outofmemory.scaph.packing import Packer
    from engines.outofmemory.scaph.reading import Readings
    from harness.api.cuda import Bounds, CudaPlan

Array = NDArray[Any]

MOST_BLOCKS = 2048  # of kernels over packed rows


class Staging:
    """A buffer of packed rows in page-locked memory (``host``), and its copy on the device (``device``).

    ``copied``: the event after which ``host`` may be overwritten. ``used``: the same for ``device``.
    """

    def __init__(self, nbytes: int) -> None:
        import cupy

        self.host = PinnedMemory(nbytes)
        self.device = cupy.full(nbytes, 0xA5, np.uint8)
        self.copied, self.used = (cupy.cuda.Event(disable_timing=True) for _ in range(2))


@dataclass(frozen=True)
class Packed:
    """Packed rows in a buffer.

    ``places``: by the name of an array, its offset in the buffer in bytes. ``vertices``: the bounds of the vertices.
    """

    staging: Staging
    places: Mapping[str, int]
    vertices: Bounds


class PackedRows:
    """Pack rows of active vertices into buffers in turn, and copy them to the device.

    :meth:`pack`, :meth:`place`, the kernels that read the rows, and :meth:`release` follow each other. The next rows
    may be packed meanwhile, but not placed: all buffers share the ``offsets`` of packed rows.

    ``arrays``: of the graph, by name. ``stream``: of copies. Raises MemoryError if there is no memory for the buffers.
    """

    def __init__(
        self, plan: CudaPlan, functions: Mapping[str, Any], arrays: Mapping[str, Any], packer: Packer,
        readings: Readings, stream: Any,
    ) -> None:  # fmt: skip
        import cupy

        self.functions, self.arrays, self.packer, self.readings = functions, arrays, packer, readings
        self.stream, sizes = stream, windows_of(plan)
        self.rows, self.threads = dict(sizes.row_bytes), plan.threads
        self.stagings = [Staging(sizes.staging_bytes) for _ in range(sizes.stagings)]
        self.offsets = cupy.zeros(len(arrays["out_offsets"]), arrays["out_offsets"].dtype)
        self._turn = 0

    def pack(self, names: Sequence[str], vertices: Bounds, offsets: Array, flags: Array) -> Packed:
        """Pack rows of consecutive vertices, and queue their copy. The host waits until a buffer is free.

        ``names``: of the edge arrays. ``vertices``: the bounds of the vertices. ``offsets``: of all rows, int64[V + 1].
        ``flags``: which rows are packed, bool[V].
        """
        import cupy

        staging = self.stagings[self._turn % len(self.stagings)]
        self._turn += 1
        staging.copied.synchronize()
        with self.readings.times.part("packing"):
            packed, end = self._pack(staging, names, vertices, offsets, flags)
        self.stream.wait_event(staging.used)
        cupy.cuda.runtime.memcpyAsync(
            int(staging.device.data.ptr), staging.host.pointer, end, cupy.cuda.runtime.memcpyHostToDevice,
            self.stream.ptr,
        )  # fmt: skip
        staging.copied.record(self.stream)
        return packed

    def _pack(
        self, staging: Staging, names: Sequence[str], vertices: Bounds, offsets: Array, flags: Array
    ) -> tuple[Packed, int]:
        """Pack rows into a buffer of the host; return them and the offset of their end in bytes."""
        first, last = vertices
        groups, room = groups_of(last - first), staging.host.host
        table = room[: TABLE_BYTES * groups].view(np.uint32).reshape(groups, 2)
        edges = self.packer.mark(flags[first:last], offsets, first, table)
        at, places = aligned(table.nbytes), {}
        for name in names:
            unit = np.uint8 if self.rows[name] % 4 else np.uint32
            width, size = self.rows[name] // np.dtype(unit).itemsize, edges * self.rows[name]
            source, packed = on_host(self.arrays[name]).view(unit), room[at : at + size].view(unit)
            self.packer.copy(table, offsets, first, edges, width, source, packed)
            places[name] = at
            at += aligned(size + SLACK)
        self.readings.traffic.moved["extracted"] += table.nbytes + edges * sum(self.rows[name] for name in names)
        return Packed(staging, places, vertices), at

    def place(self, packed: Packed) -> None:
        """Queue the kernel that finds the offsets of packed rows, after the copy of the rows."""
        import cupy

        cupy.cuda.get_current_stream().wait_event(packed.staging.copied)
        self.over(PLACED, packed, self.arrays["out_offsets"], self.offsets)

    def arguments(self, packed: Packed) -> dict[str, Any]:
        """Return the arrays of packed rows that a kernel takes instead of those of all rows, by name."""
        device = int(packed.staging.device.data.ptr)
        places = {name: np.uint64(device + at) for name, at in packed.places.items()}
        return {**places, "out_offsets": self.offsets}

    def over(self, function: str, packed: Packed, *arguments: Any) -> None:
        """Queue a kernel over the vertices of packed rows; it takes their table, their bounds and ``arguments``."""
        first, last = packed.vertices
        blocks = max(1, min(-(-(last - first) // self.threads), MOST_BLOCKS))
        given = (packed.staging.device, np.uint32(first), np.uint32(last), *arguments)
        self.functions[function]((blocks,), (self.threads,), given)

    def release(self, packed: Packed) -> None:
        """Allow the buffer on the device to be overwritten after the work that is queued now."""
        import cupy

        packed.staging.used.record(cupy.cuda.get_current_stream())

    def close(self) -> None:
        """Release the buffers and the offsets."""
        self.stagings.clear()
        self.offsets = None

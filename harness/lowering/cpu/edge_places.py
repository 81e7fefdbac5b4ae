"""Places of the arrays with a row for every edge on the CPU: memory of the process, mapped files, or windows of files.

Kernels read these arrays and never write them: neighbours, positions of other edges, given properties of edges. Arrays
that are memory maps of files already, such as those of a cached graph, are used as they are. Others are written to an
unnamed file in the cache folder first.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import cache
from harness.contract import EngineFailure
from harness.edge_places import Place
from harness.graph.file_maps import file_map, release_pages
from harness.lowering.buffers import Order
from harness.lowering.packed_sizes import BLOCK, HEAD_BYTES, blocks_of

Array = NDArray[Any]


@dataclass(frozen=True)
class EdgeFile:
    """The values of an array in a file: ``nbytes`` bytes from byte ``offset`` of ``descriptor`` on, called ``name``."""

    descriptor: int
    name: str
    offset: int
    nbytes: int

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)

    @classmethod
    def behind(cls, array: Array) -> EdgeFile | None:
        """Return the file that an array maps, opened; None if it is in memory of the process. Raises EngineFailure."""
        found = file_map(array)
        if found is None:
            return None
        try:
            return cls(os.open(found.path, os.O_RDONLY | os.O_CLOEXEC), str(found.path), found.offset, found.nbytes)
        except OSError as error:
            raise EngineFailure(f"{found.path}: the file of edges cannot be opened ({error})") from error

    @classmethod
    def written(cls, parts: Iterable[Array], nbytes: int) -> EdgeFile:
        """Write the parts of an array to an unnamed file in the cache folder.

        Raises CacheError if the disk has no room for ``nbytes`` bytes; nothing is written then.
        """
        with cache.filling_cache():
            folder = cache.cache_folder() / "edges"
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, max(1, nbytes))
                for part in parts:
                    file.write(np.ascontiguousarray(part).view(np.uint8).data)
                    release_pages(part)
                file.flush()
                return cls(os.dup(file.fileno()), f"an edge file in {folder}", 0, nbytes)

    def read(self, into: memoryview, first: int) -> None:
        """Read bytes from ``first`` on. Raises EngineFailure if the file ends before, or cannot be read."""
        done = 0
        while done < len(into):
            at = self.offset + first + done
            try:
                count = os.preadv(self.descriptor, [into[done : done + (1 << 30)]], at)
            except OSError as error:
                raise EngineFailure(f"{self.name}: edges cannot be read from byte {at:,} on ({error})") from error
            if not count:
                raise EngineFailure(f"{self.name}: the file ends at byte {at:,}, before the last edge")
            done += count


class EdgePlace(ABC):
    """A place of arrays with a row for every edge."""

    @abstractmethod
    def placed(self, values: Array, order: Order) -> Array:
        """Return values [E * stride] in the order of CSR or CSC as kernels take them, without a copy if possible.

        Raises CacheError, EngineFailure.
        """

    def placed_ids(self, values: Array, order: Order) -> Array:
        """Return ids of vertices [E] as kernels take them; by default like other values."""
        return self.placed(values, order)

    @abstractmethod
    def written(self, parts: Iterable[Array], length: int, dtype: type[np.generic], order: Order) -> Array:
        """Return ``length`` values, given in parts, as kernels take them. Raises CacheError."""


class ResidentEdges(EdgePlace):
    """Memory of the process. Arrays of a cached graph are maps of its files, but given edge properties are copies."""

    def placed(self, values: Array, order: Order) -> Array:
        """Return the values."""
        return values

    def written(self, parts: Iterable[Array], length: int, dtype: type[np.generic], order: Order) -> Array:
        """Return the joined parts."""
        return np.concatenate([np.zeros(0, dtype), *parts])


class MappedEdges(EdgePlace):
    """Memory maps of files: the operating system reads pages when kernels access them, and may drop them again."""

    def placed(self, values: Array, order: Order) -> Array:
        """Return the values, mapped."""
        file = EdgeFile.behind(values) or EdgeFile.written([values], values.nbytes)
        return self._map(file, values.size, values.dtype)

    def written(self, parts: Iterable[Array], length: int, dtype: type[np.generic], order: Order) -> Array:
        """Write the parts to a file, and map it."""
        return self._map(EdgeFile.written(parts, length * np.dtype(dtype).itemsize), length, np.dtype(dtype))

    @staticmethod
    def _map(file: EdgeFile, length: int, dtype: np.dtype[Any]) -> Array:
        """Return a read-only map of a file. NumPy takes it for writable, since compiled kernels accept no other one."""
        if not length:
            return np.empty(0, dtype)
        behind = file.offset % mmap.ALLOCATIONGRANULARITY
        pages = mmap.mmap(
            file.descriptor, behind + file.nbytes, mmap.MAP_SHARED, mmap.PROT_READ,
            offset=file.offset - behind,
        )  # fmt: skip
        return array_at(np.frombuffer(pages, np.uint8).ctypes.data + behind, length, dtype, pages)


@dataclass(frozen=True)
class _Address:
    """An array at an address; ``owner`` has the memory and lives as long as the array."""

    address: int
    length: int
    dtype: np.dtype[Any]
    owner: object

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "data": (self.address, False), "shape": (self.length,), "typestr": self.dtype.str}


def array_at(address: int, length: int, dtype: np.dtype[Any], owner: object) -> Array:
    """Return an array at an address in memory that ``owner`` has; it is writable for NumPy, and keeps the owner."""
    return np.asarray(_Address(address, length, dtype, owner))


@dataclass(frozen=True)
class StreamedArray:
    """An array that is read from a file window by window: its rows are those of ``order``.

    ``words_at``: of packed ids, the byte of the file where their words begin, behind the heads; None: plain values.
    """

    file: EdgeFile
    dtype: np.dtype[Any]
    order: Order
    words_at: int | None = None

    def row(self, num_edges: int) -> int:
        """Return the bytes of an edge, unpacked."""
        return self.file.nbytes // num_edges if self.words_at is None else self.dtype.itemsize

    def stored(self, first: int, last: int, num_edges: int) -> int:
        """Return the bytes of the file with the edges ``first..last``: of packed ids, those of their blocks."""
        if self.words_at is None:
            return (last - first) * self.row(num_edges)
        begin, end = first // BLOCK, blocks_of(last)
        positions = np.zeros((2, 2), np.uint32)
        for head, block in zip(positions, (begin, end), strict=True):
            self.file.read(head.view(np.uint8).data, HEAD_BYTES * block)
        return HEAD_BYTES * (end - begin + 1) + 4 * (int(positions[1, 1]) - int(positions[0, 1]))

    def read_ids(self, first: int, last: int, ids: Array, room: Array) -> int:
        """Set ``ids``, uint32[last - first], to packed ones; return the bytes that are read.

        ``room``: memory for their blocks, uint8[...]. Raises EngineFailure.
        """
        from harness.lowering.packed_ids import unpack  # loads the compiler

        assert self.words_at is not None
        begin, end = first // BLOCK, blocks_of(last)
        size = HEAD_BYTES * (end - begin + 1)
        self.file.read(room[:size].data, HEAD_BYTES * begin)
        heads = room[:size].view(np.uint32).reshape(-1, 2)
        words = 4 * (int(heads[-1, 1]) - int(heads[0, 1]))
        self.file.read(room[size : size + words].data, self.words_at + 4 * int(heads[0, 1]))
        unpack(heads, room[size : size + words].view(np.uint32), begin, first, last, ids)
        return size + words


class StreamedEdges(EdgePlace):
    """Files of which calls read windows (:mod:`harness.lowering.cpu.windowed_calls`).

    What kernels would take is an empty array; :meth:`streamed` returns what it stands for.
    """

    def __init__(self) -> None:
        self._streamed: dict[int, StreamedArray] = {}
        self._empty: list[Array] = []  # so that no other array has the id of one

    def placed(self, values: Array, order: Order) -> Array:
        """Return an empty array that stands for the values."""
        file = EdgeFile.behind(values) or EdgeFile.written([values], values.nbytes)
        return self._stand_in(StreamedArray(file, values.dtype, order))

    def written(self, parts: Iterable[Array], length: int, dtype: type[np.generic], order: Order) -> Array:
        """Write the parts to a file; return an empty array that stands for the values."""
        kind = np.dtype(dtype)
        return self._stand_in(StreamedArray(EdgeFile.written(parts, length * kind.itemsize), kind, order))

    def streamed(self, array: Array) -> StreamedArray | None:
        """Return what an array stands for; None if it is an ordinary one."""
        return self._streamed.get(id(array))

    def _stand_in(self, streamed: StreamedArray) -> Array:
        array = np.empty(0, streamed.dtype)
        self._empty.append(array)
        self._streamed[id(array)] = streamed
        return array


class PackedEdges(StreamedEdges):
    """Files of packed ids, of which calls read and unpack windows. Other values are as they are."""

    def placed_ids(self, values: Array, order: Order) -> Array:
        """Pack ids and write them to a file; return an empty array that stands for them."""
        from harness.lowering.packed_ids import pack  # loads the compiler

        packed = pack(values)
        file = EdgeFile.written([packed.heads.reshape(-1), packed.words], packed.nbytes)
        return self._stand_in(StreamedArray(file, np.dtype(np.uint32), order, packed.heads.nbytes))


PLACES: Mapping[Place, type[EdgePlace]] = {
    Place.RESIDENT: ResidentEdges, Place.MAPPED: MappedEdges, Place.STREAMED: StreamedEdges,
}  # fmt: skip

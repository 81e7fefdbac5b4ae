"""Packed ids on a CUDA device: the blocks of a window are copied to a buffer, and unpacked into the window's slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.device.host_memory import on_host, pinned_values
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.edge_tables import Rows
from harness.lowering.graph_store import Structure
from harness.lowering.packed_sizes import BLOCK, HEAD_BYTES, blocks_of

if TYPE_CHECKING:
    from harness.lowering.packed_ids import PackedIds

ALIGNED = 256  # bytes between the blocks of arrays in a buffer
MOST_BLOCKS = 4096  # of the kernel that unpacks
UNPACK_IDS = "UnpackIds"  # no program has such a name
# A warp unpacks a block, a lane one id: fields of `width` bits follow each other without gaps.
SOURCE = """
extern "C" __global__ void UnpackIds(const Id* heads, const Id* words, Id blocks, Id count, Id* ids)
{
    const Id lane = lane_id();
    for (Id block = Id(thread_of_grid() / 32); block < blocks; block += Id(threads_of_grid() / 32)) {
        const Id head = heads[2 * block], from = heads[2 * block + 1] - heads[1];
        const Id width = heads[2 * block + 3] - heads[2 * block + 1];
        const Id bit = lane * width, shift = bit % 32;
        Id field = 0;
        if (width) {
            unsigned long long found = words[from + bit / 32];
            if (shift + width > 32) found |= (unsigned long long)words[from + bit / 32 + 1] << 32;
            field = Id(found >> shift) & (width < 32 ? (1u << width) - 1u : ~0u);
        }
        Id id = (head & 0x7FFFFFFFu) + field;
        if (head >> 31) {
            Id sum = (field >> 1) ^ (0u - (field & 1u));
            _Pragma("unroll") for (int offset = 1; offset < 32; offset *= 2) {
                const Id before = __shfl_up_sync(WARP, sum, offset);
                if (int(lane) >= offset) sum += before;
            }
            id = (head & 0x7FFFFFFFu) + sum;
        }
        const size_t at = size_t(block) * 32 + lane;
        if (at < count) ids[at] = id;
    }
}
"""


def of_ids(buffer: CudaBuffer) -> bool:
    """Return whether a buffer has the id of a vertex for every edge, so that it can be packed."""
    return buffer.of_edges and isinstance(buffer.source, (Structure, Rows)) and buffer.dtype == "uint32"


class PackedArray:
    """Packed ids in page-locked memory of the host. Kernels cannot read them. Raises MemoryError."""

    def __init__(self, packed: PackedIds) -> None:
        self.heads, self.words = pinned_values(packed.heads.reshape(-1)), pinned_values(packed.words)
        self.nbytes = packed.nbytes
        self._positions = on_host(self.heads).reshape(-1, 2)[:, 1]

    def parts(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the address and the bytes of the heads of the ids ``first..last``, and of their words.

        ``first`` is that of a block.
        """
        begin, end = first // BLOCK, blocks_of(last)
        begin_word, end_word = int(self._positions[begin]), int(self._positions[end])
        return [
            (int(self.heads.data.ptr) + HEAD_BYTES * begin, HEAD_BYTES * (end - begin + 1)),
            (int(self.words.data.ptr) + 4 * begin_word, 4 * (end_word - begin_word)),
        ]


@dataclass(frozen=True)
class Unpacking:
    """The kernel call that unpacks ``count`` ids from addresses of ``heads`` and ``words`` to ``ids``."""

    heads: int
    words: int
    count: int
    ids: int

    def start(self, function: Any, threads: int) -> None:
        """Queue it on the current stream."""
        blocks = blocks_of(self.count)
        grid = max(1, min(-(-blocks * BLOCK // threads), MOST_BLOCKS))
        pointers = np.uint64(self.heads), np.uint64(self.words)
        function((grid,), (threads,), (*pointers, np.uint32(blocks), np.uint32(self.count), np.uint64(self.ids)))


class PackedSlots:
    """A buffer for the packed ids of each slot. ``functions``: the loaded kernels. Raises MemoryError."""

    def __init__(self, slots: int, nbytes: int, functions: Mapping[str, Any], threads: int) -> None:
        import cupy

        self.rooms = [cupy.full(nbytes, 0xA5, np.uint8) for _ in range(slots)]
        self.functions, self.threads = functions, threads
        self.unpacked = [cupy.cuda.Event(disable_timing=True) for _ in range(slots)]
        self._coming: list[list[Unpacking]] = [[] for _ in range(slots)]

    def fill(self, slot: int, arrays: Sequence[tuple[PackedArray, int, int, int]], stream: Any) -> int:
        """Queue copies of packed ids to the buffer of a slot on a stream; return their bytes.

        ``arrays``: each with its first and last id, and the address in the slot where its first id belongs.
        """
        import cupy

        runtime, at, copied = cupy.cuda.runtime, int(self.rooms[slot].data.ptr), 0
        self._coming[slot] = []
        for array, first, last, ids in arrays:
            places = []
            for source, size in array.parts(first, last):
                if size:
                    runtime.memcpyAsync(at, source, size, runtime.memcpyHostToDevice, stream.ptr)
                places.append(at)
                at += -(-size // ALIGNED) * ALIGNED
                copied += size
            heads, words = places
            self._coming[slot].append(Unpacking(heads, words, last - first, ids))
        return copied

    def unpack(self, slot: int) -> None:
        """Queue on the current stream the kernels that unpack what :meth:`fill` copied, if that is not done yet.

        The stream must wait for the copies. ``unpacked[slot]`` occurs after both.
        """
        import cupy

        coming, self._coming[slot] = self._coming[slot], []
        for one in coming:
            one.start(self.functions[UNPACK_IDS], self.threads)
        self.unpacked[slot].record(cupy.cuda.get_current_stream())

    def close(self) -> None:
        """Release the buffers."""
        self.rooms.clear()

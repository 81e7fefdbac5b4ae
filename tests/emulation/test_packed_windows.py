"""The kernel that unpacks ids, and the buffers of packed windows: ids of all widths, and the bytes that are copied."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from harness.emulation.arrays import allocated
from harness.lowering.cuda.packed_windows import ALIGNED, SOURCE, UNPACK_IDS, PackedArray, PackedSlots
from harness.lowering.packed_ids import pack
from harness.lowering.packed_sizes import BLOCK, HEAD_BYTES, most_bytes, most_window_bytes
from tests.emulation.kernels import EMULATED, Kernels, headers, heading

pytestmark = EMULATED

THREADS, LENGTH = 64, 500  # of a block; ids of an array
RNG = np.random.default_rng(6)
LARGEST = (1 << 31) - 1
IDS = {
    "equal": np.full(LENGTH, 77),
    "steps of one": np.arange(LENGTH),
    "steps backward": LARGEST - 3 * np.arange(LENGTH),
    "long steps": np.cumsum(RNG.integers(0, 1 << 21, LENGTH)),
    "a step per block": np.repeat(1000 * np.arange(LENGTH // 4), 4),
    "small ids": RNG.integers(0, 8, LENGTH),
    "ids of 17 bits": RNG.integers(0, 1 << 17, LENGTH),
    "ids of 31 bits": RNG.integers(0, 1 << 31, LENGTH),
    "both ends": np.where(np.arange(LENGTH) % 2, LARGEST, 0),
    "mixed": np.concatenate([np.arange(200), RNG.integers(0, 1 << 31, 100), np.arange(200)[::-1]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels():
    return Kernels("\n".join([heading("threads.cuh", block=THREADS), SOURCE]), headers(FOLDER), THREADS)


def words_of(ids):
    """Return the words of the fields of the blocks of some ids, by the definition of the two kinds of blocks."""
    words = 0
    for block in np.split(ids.astype(np.int64), range(BLOCK, len(ids), BLOCK)) if len(ids) else ():
        gaps = np.diff(block, prepend=block[0])
        signed = np.where(gaps < 0, -2 * gaps - 1, 2 * gaps)
        words += min(int(signed.max()).bit_length(), int((block - block.min()).max()).bit_length())
    return words


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", IDS)
def test_ids_are_unpacked_from_any_block_on(kernels, name, blocks):
    ids = IDS[name].astype(np.uint32)
    packed = pack(ids)
    for first, last in ((0, LENGTH), (0, 1), (0, 32), (32, 65), (96, 287), (448, 500), (480, 481)):
        begin, end = first // BLOCK, -(-last // BLOCK)
        low, high = packed.heads[begin, 1], packed.heads[end, 1]
        heads, words = packed.heads[begin : end + 1].reshape(-1), packed.words[low:high]
        space = np.full(last - first + 40, 0xA5A5A5A5, np.uint32)
        given = (np.uint32(end - begin), np.uint32(last - first))
        *_, found = kernels(UNPACK_IDS, blocks, heads, np.append(words, np.uint32(0)), *given, space)
        np.testing.assert_array_equal(found[: last - first], ids[first:last])
        assert (found[last - first :] == 0xA5A5A5A5).all(), "nothing is written behind the last id"


@pytest.mark.parametrize("name", IDS)
def test_the_bytes_of_a_window_are_those_of_its_blocks(name, emulated):
    ids = IDS[name].astype(np.uint32)
    array = PackedArray(pack(ids))
    assert array.nbytes == HEAD_BYTES * (-(-LENGTH // BLOCK) + 1) + 4 * max(1, words_of(ids))
    for first, last in ((0, LENGTH), (0, 1), (64, 197), (96, 128), (480, 500)):
        (heads, head_bytes), (words, word_bytes) = array.parts(first, last)
        end = -(-last // BLOCK)
        assert head_bytes == HEAD_BYTES * (end - first // BLOCK + 1), "with the head behind the last block"
        assert word_bytes == 4 * words_of(ids[first : end * BLOCK])
        assert heads == array.heads.data.ptr + HEAD_BYTES * (first // BLOCK)
        assert words == array.words.data.ptr + 4 * words_of(ids[:first])


@pytest.mark.parametrize("names", [("ids of 31 bits",), ("equal", "mixed"), ("both ends", "ids of 31 bits", "mixed")])
def test_arrays_of_a_window_are_unpacked_from_one_buffer(kernels, names, emulated):
    """The buffer of a slot has room for all arrays of a window, whose parts do not overlap; each slot has its own."""
    first, last, cuda = 64, 197, sys.modules["cupy"].cuda
    room = len(names) * (most_window_bytes(last - first, 1 << 31) + 2 * ALIGNED)
    arrays = [PackedArray(pack(IDS[name].astype(np.uint32))) for name in names]
    functions = {UNPACK_IDS: kernels._module.get_function(UNPACK_IDS)}
    slots, stream = PackedSlots(2, room, functions, THREADS), cuda.Stream()
    found = [[allocated(np.zeros(last - first, np.uint32)) for _ in names] for _ in range(2)]
    for slot, shift in ((0, 0), (1, 32)):
        places = zip(arrays, found[slot], strict=True)
        given = [(array, first + shift, last, ids.data.ptr) for array, ids in places]
        wanted = sum(size for array in arrays for _, size in array.parts(first + shift, last))
        assert slots.fill(slot, given, stream) == wanted <= len(names) * most_bytes(last - first + BLOCK, 1 << 31)
    stream.synchronize()
    for slot, shift in ((1, 32), (0, 0)):
        slots.unpack(slot)
        for name, ids in zip(names, found[slot], strict=True):
            np.testing.assert_array_equal(ids[: last - first - shift], IDS[name][first + shift : last])
            assert ids.unharmed()
    assert all(one.unharmed() for one in slots.rooms)
    for ids in found[0]:
        ids.fill(0)
    slots.unpack(0)
    assert not any(ids.any() for ids in found[0]), "what was unpacked is not unpacked again"

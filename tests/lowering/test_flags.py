"""Flags on two levels: which are found, one by one or in batches, in which order, and which remain."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from harness.lowering.buffers import Holds
from harness.lowering.cpu.batches import BATCH, SPARSE, batch_room, batched, flagged_batches, next_batch, put
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.flags import BLOCK, blocks_of, clear_flagged, flag_arrays, flagged_loop
from harness.lowering.cpu.kernels import KernelBuilder
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.module_source import compiled
from harness.lowering.layout import Layout
from tests.engines.programs import program_named

VISIT = """
{loop}
    counts[t] = place
"""
BODY = """
seen[place] = u
place += 1
if again[u]:
    {raised}
"""


@pytest.fixture(scope="module", params=["one by one", "in batches"])
def visit(request):
    """Return functions that note, part by part from ``starts[t]`` on, which flags a loop finds. A vertex with the
    flag ``again`` sets its own flag once more. In batches every vertex that prefetches has 10 in ``prefetched`` after
    both rounds."""
    functions = {}
    for name, take in (("take", True), ("look", False)):
        body = BODY.format(raised="raise_flag(flags, flags_blocks, u)")
        if request.param == "in batches":
            found = flagged_batches("u", "flags", body, ["prefetched[u] += 1", "prefetched[u] *= 10"], take=take)
        else:
            found = flagged_loop("u", "flags", body, take=take)
        loop = f"    @part\n    place = starts[t]\n    {found}"
        signature = [("bounds", "i64"), ("starts", "i64"), ("counts", "i64"), ("seen", "i64"), ("again", "flag")]
        signature.append(("prefetched", "i64"))
        builder = KernelBuilder(name, program_named("shortest_paths"), Layout(1), VISIT.format(loop=loop), signature)
        builder.flags("flags")
        kernel = builder.finish()
        functions[name] = compiled(kernel), kernel.arguments
    return functions


def visited(function, flags, blocks, cuts, again=None, prefetched=None):
    """Return the vertices that the parts between cuts find."""
    run, names = function
    count, parts = len(flags), len(cuts) - 1
    arrays = {
        "bounds": np.array(cuts, np.int64), "starts": np.array(cuts[:-1], np.int64), "flags": flags,
        "counts": np.zeros(parts, np.int64), "seen": np.full(count + 1, -1), "flags_blocks": blocks,
        "again": np.zeros(count, np.bool_) if again is None else again,
        "prefetched": np.zeros(count, np.int64) if prefetched is None else prefetched,
    }  # fmt: skip
    assert run(parts, 1, *(arrays[name] for name in names)) == 0
    found = [arrays["seen"][start:end] for start, end in zip(cuts[:-1], arrays["counts"], strict=True)]
    return np.concatenate(found) if found else np.array([], np.int64)


def raised_at(count, vertices):
    flags, blocks = flag_arrays(count, False)
    flags[vertices] = True
    blocks[np.asarray(vertices, int) // BLOCK] = True
    return flags, blocks


@settings(max_examples=200)
@given(st.data())
def test_every_flag_is_found_once_in_order_and_cleared(visit, data):
    """For any division of the vertices into parts; parts need not start with blocks."""
    count = data.draw(st.integers(1, 700))
    vertices = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=5)) if count > 1 else ()), count]
    flags, blocks = raised_at(count, vertices)
    blocks[list(data.draw(st.sets(st.integers(0, len(blocks) - 1))))] = True  # if no flag must be set
    assert visited(visit["look"], flags, blocks, cuts).tolist() == vertices
    assert np.flatnonzero(flags).tolist() == vertices
    assert visited(visit["take"], flags, blocks, cuts).tolist() == vertices
    assert not flags.any()
    assert visited(visit["take"], flags, blocks, cuts).tolist() == []


@settings(max_examples=100)
@given(st.data())
def test_parts_of_the_vertices_leave_the_others_their_flags(visit, data):
    count = data.draw(st.integers(2, 400))
    vertices = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))), int)
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    inside = (vertices >= first) & (vertices < last)
    flags, blocks = raised_at(count, vertices)
    assert visited(visit["take"], flags, blocks, [first, last]).tolist() == vertices[inside].tolist()
    assert visited(visit["take"], flags, blocks, [0, count]).tolist() == vertices[~inside].tolist()


@pytest.mark.parametrize("first", [0, 1, 62, 63, 64, 65, 127, 128])
def test_bounds_are_kept_at_the_ends_of_blocks(visit, first):
    for last in (end for end in (1, 2, 62, 63, 64, 65, 66, 126, 127, 128, 129, 191, 192, 193) if end > first):
        flags, blocks = flag_arrays(200, True)
        assert visited(visit["look"], flags, blocks, [first, last]).tolist() == list(range(first, last))
        assert visited(visit["take"], flags, blocks, [first, last]).tolist() == list(range(first, last))
        assert np.flatnonzero(~flags).tolist() == list(range(first, last))
        assert visited(visit["take"], flags, blocks, [0, 200]).tolist() == [*range(first), *range(last, 200)]


@pytest.mark.parametrize("first", [0, 1, 63, 64, 65, 128])
def test_clearing_a_part_leaves_the_others_their_flags(first):
    """The second level of a block is cleared with the last of its flags only."""
    for last in (end for end in (0, 1, 63, 64, 65, 127, 128, 129, 192, 200) if end >= first):
        flags, blocks = flag_arrays(200, True)
        clear_flagged(flags.ctypes.data, blocks.ctypes.data, first, last)
        assert np.flatnonzero(~flags).tolist() == list(range(first, last))
        whole = [block for block in range(len(blocks)) if first <= block * BLOCK and (block + 1) * BLOCK <= last]
        assert np.flatnonzero(~blocks).tolist() == whole


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1000])
def test_a_vertex_may_raise_its_own_flag_again_for_the_next_time(visit, count):
    flags, blocks = flag_arrays(count, True)
    again = np.arange(count) % 3 == 0
    cuts = sorted({0, count // 2, count})
    assert len(visited(visit["take"], flags, blocks, cuts, again)) == count
    assert visited(visit["take"], flags, blocks, cuts).tolist() == np.flatnonzero(again).tolist()
    assert not flags.any()


def test_blocks_without_flags_are_forgotten(visit):
    """A scan clears the flags of blocks that it has searched."""
    flags, blocks = flag_arrays(10 * BLOCK, False)
    blocks[:] = True
    assert visited(visit["take"], flags, blocks, [0, 10 * BLOCK]).tolist() == []
    assert not blocks.any()


@pytest.mark.parametrize("visit", ["in batches"], indirect=True)
@pytest.mark.parametrize("step", [1, 2, SPARSE, SPARSE + 1, 3 * BLOCK])
def test_few_flagged_vertices_ask_ahead(visit, step):
    """Each prefetches once per round, all of a batch before the first is processed; with many flags, none does."""
    count = 3 * BATCH * max(step, 2)
    vertices = np.arange(0, count, step)
    flags, blocks = raised_at(count, vertices)
    prefetched = np.zeros(count, np.int64)
    assert visited(visit["take"], flags, blocks, [0, count], prefetched=prefetched).tolist() == vertices.tolist()
    assert np.unique(prefetched[vertices]).tolist() == ([10] if step > SPARSE else [0])
    assert prefetched.sum() == prefetched[vertices].sum()


MOST = BATCH - 1 + BLOCK  # whole blocks are taken until there are BATCH vertices


@njit(error_model="numpy")
def two_batches(flags, blocks, stop):
    """Fill one batch from flags, if it ends before one beside it; return its vertices, and the bytes between both."""
    one, other = batch_room(), batch_room()
    found, room = 0, abs(other - one)
    if room >= 8 * MOST:
        put(other, MOST - 1, -1)
        found, _, _ = next_batch(flags, blocks, one, 0, stop, True)
    return [batched(one, i) for i in range(found)], room


@pytest.mark.parametrize("first", [0, 1, BLOCK - 1, BLOCK])
def test_a_batch_has_room_for_all_vertices_of_the_block_that_fills_it(first):
    """The vertices from ``first`` on are flagged; a whole first block fills the batch."""
    flags, blocks = raised_at(4 * BLOCK, range(first, 2 * BLOCK))
    found, room = two_batches(flags.ctypes.data, blocks.ctypes.data, 4 * BLOCK)
    assert room >= 8 * MOST
    assert found == list(range(first, BLOCK if first == 0 else 2 * BLOCK))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, 200])
def test_flags_that_are_set_together_are_on_the_second_level_as_well(count):
    """Those of all vertices, given as a value or one by one, and of a range that need not start with a block."""
    graph = SimpleNamespace(num_vertices=count)
    flags = CpuBuffer("flags", Holds.DIRTY, "", "bool", count, start=False, two_levels=True)

    def after(*given):
        memory = Memory(None, graph, Layout(1), [flags], {}, None)
        memory.set_flags("flags", *given)
        found, blocks = memory.arrays["flags"], memory.arrays[blocks_of("flags")]
        marked = {int(vertex) // BLOCK for vertex in np.flatnonzero(found)}
        assert marked <= set(np.flatnonzero(blocks).tolist())
        return np.flatnonzero(found).tolist()

    assert after(True) == list(range(count))
    assert after(False) == []
    assert after(np.arange(count) % 3 == 0) == list(range(0, count, 3))
    for first, last in ((0, count), (count // 2, count), (0, count // 2), (count - 1, count)):
        assert after(True, first, last) == list(range(first, last))

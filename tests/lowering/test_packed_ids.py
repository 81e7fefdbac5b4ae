"""Packed ids: round trips of all parts, widths by hand, and the most bytes that they may take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts import Degrees, GraphFacts
from harness.lowering import packed_ids
from harness.lowering.packed_ids import pack, unpack
from harness.lowering.packed_sizes import BLOCK, blocks_of, most_bytes, most_window_bytes, refusal

MOST = (1 << 31) - 1


def widths(packed):
    """Return the bits of a field of each block."""
    return np.diff(packed.heads[:, 1].astype(np.int64)).tolist()


def forms(packed):
    """Return whether each block has gaps."""
    return (packed.heads[:-1, 0] >= packed_ids.GAPS).tolist()


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_part_of_any_ids_is_unpacked(data):
    limit = data.draw(st.sampled_from([1, 2, 1000, 1 << 20, MOST]))
    values = np.array(data.draw(st.lists(st.integers(0, limit - 1), max_size=150)), np.uint32)
    if data.draw(st.booleans()):
        values.sort()
    packed = pack(values)
    np.testing.assert_array_equal(packed.unpacked(), values)
    assert packed.heads.nbytes + 4 * int(packed.heads[-1, 1]) <= most_bytes(len(values), limit)
    first = data.draw(st.integers(0, len(values)))
    last = data.draw(st.integers(first, len(values)))
    begin, end = first // BLOCK, blocks_of(last)
    heads = packed.heads[begin : end + 1]
    words = packed.words[int(heads[0, 1]) : int(heads[-1, 1])]
    assert heads.nbytes + words.nbytes <= most_window_bytes(last - first, limit)
    found = np.empty(last - first, np.uint32)
    unpack(heads, words, begin, first, last, found)
    np.testing.assert_array_equal(found, values[first:last])


@pytest.mark.parametrize(
    ("values", "width", "gaps"),
    [
        (np.full(32, 5), 0, False),
        (np.arange(32) * 4, 4, True),  # gaps of 4 with a sign: 4 bits; up to 124 from the least: 7 bits
        (np.arange(32)[::-1] * 4, 3, True),  # gaps of -4 with a sign: 3 bits
        ([1000, 998, 1003, 999, 1001, 1000, 997, 1002] * 4, 3, False),
        (np.cumsum([500, -7, 7, -6, 5, 7, 7, 7] + [7, 7, -1, 7] * 6), 4, True),  # gaps from -7 to 7 but for the first
        ([100, 0] * 16, 7, False),  # gaps of 100 and a sign: 8 bits
        ([0, MOST] * 16, 31, False),
    ],
)
def test_a_block_has_the_narrower_fields(values, width, gaps):
    packed = pack(np.array(values, np.uint32))
    assert (widths(packed), forms(packed)) == ([width], [gaps])
    np.testing.assert_array_equal(packed.unpacked(), values)


def test_every_block_has_a_width_of_its_own():
    values = np.concatenate([np.full(32, 9), np.arange(32), [1 << 20], [0]]).astype(np.uint32)
    packed = pack(values)
    assert widths(packed) == [0, 2, 21]
    assert len(packed.words) == 23


def test_parts_on_several_threads_give_the_same_ids(monkeypatch):
    values = np.sort(np.random.default_rng(0).integers(0, 1 << 20, (50, 40)), axis=1).ravel().astype(np.uint32)
    one = pack(values)
    monkeypatch.setattr(packed_ids, "FEW", 0)
    several = pack(values)
    np.testing.assert_array_equal(one.heads, several.heads)
    np.testing.assert_array_equal(one.words, several.words)
    assert several.nbytes < 0.85 * values.nbytes


def facts(vertices, edges):
    return GraphFacts(vertices, edges, Degrees(1), Degrees(1))


def test_graphs_beyond_the_positions_are_refused():
    assert refusal(facts(1 << 20, 1 << 26)) == ""
    assert "packs ids below 2^31" in refusal(facts(1 << 31, 1 << 20))
    assert "positions of 32 bits" in refusal(facts(1 << 30, 1 << 33))


def test_limits_of_packed_ids_are_sharp():
    """Ids below 2 have one bit, so that a block of 32 has one word."""
    assert refusal(facts((1 << 31) - 1, 1 << 20)) == ""
    assert refusal(facts(2, 32 * ((1 << 32) - 1))) == ""
    assert "positions of 32 bits" in refusal(facts(2, 32 * ((1 << 32) - 1) + 1))
    assert refusal(facts(1, 1 << 40)) == ""

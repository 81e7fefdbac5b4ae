"""Renumbering of vertex ids that have gaps."""

import numpy as np
import pytest

from harness.graph.formats import compaction
from harness.graph.formats.compaction import compact

FIRST, SECOND = np.array([7, 3, 7, 100, 3]), np.array([5, 7, 0])
ORIGINAL = [0, 3, 5, 7, 100]
NUMBERS = [[3, 1, 3, 4, 1], [2, 3, 0]]


@pytest.mark.parametrize("chunk", [1, 2, 4, 5, 1 << 20])
@pytest.mark.parametrize("table", [True, False], ids=["table", "search"])
def test_ids_become_their_rank_among_the_distinct_ids(monkeypatch, chunk, table):
    monkeypatch.setattr(compaction, "CHUNK", chunk)
    monkeypatch.setattr(compaction, "LARGEST", 2**22 if table else 0)
    first, second = (FIRST, SECOND) if table else (FIRST.astype(np.uint8), SECOND.astype(np.uint8))
    original, numbers = compact(first, second)
    assert original.tolist() == ORIGINAL
    assert original.dtype == np.int64
    assert [one.tolist() for one in numbers] == NUMBERS
    assert {one.dtype for one in numbers} == {np.dtype(np.uint32)}


def test_large_ids_need_no_table():
    original, (numbers,) = compact(np.array([2**60, 5, 2**60 - 1]))
    assert original.tolist() == [5, 2**60 - 1, 2**60]
    assert numbers.tolist() == [2, 0, 1]


@pytest.mark.parametrize("lists", [([0, 1, 2], [2, 0]), ([2, 0, 1],), ([0], []), ([], []), ([],)])
def test_ids_without_gaps_stay(lists):
    ids = [np.array(one, np.int64) for one in lists]
    original, numbers = compact(*ids)
    assert original is None
    assert all(one is other for one, other in zip(ids, numbers, strict=True))


def test_an_empty_list_beside_another_is_renumbered():
    original, (numbers, none) = compact(np.array([4]), np.array([], np.int64))
    assert (original.tolist(), numbers.tolist(), none.tolist()) == ([4], [0], [])

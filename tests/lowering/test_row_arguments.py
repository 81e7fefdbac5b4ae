"""What functions of compiled code take: other arrays, indices and rows are errors when a kernel is compiled."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from harness.lowering.cpu.flags import raise_flag
from harness.lowering.cpu.locks import exchange_if, publish, published, try_lock, unlock
from harness.lowering.cpu.row_types import MAX_LANES, chunks_of
from harness.lowering.cpu.rows import (
    absolute,
    at,
    atomic_add,
    atomic_max,
    atomic_min,
    count,
    dot,
    extract,
    fma,
    insert,
    prefetch,
    prefetch_row,
    reduce_all,
    row_ops,
    store,
    to64,
    where,
)

load, zero = row_ops(3).load, row_ops(3).zero
FLOATS, NUMBERS, FLAGS = np.zeros(8, np.float32), np.zeros(8, np.int32), np.zeros(8, np.bool_)
# Functions of an array x and an index i, with an array that they take.
OF_ARRAYS = {
    "load": (lambda x, i: dot(load(x, i), load(x, i)), FLOATS),
    "at": (lambda x, i: at(x, i), FLOATS),
    "store": (lambda x, i: store(x, i, zero()), FLOATS),
    "prefetch": (lambda x, i: prefetch(x, i), FLOATS),
    "prefetch_row": (lambda x, i: prefetch_row(x, i, 3), FLOATS),
    "atomic_add": (lambda x, i: atomic_add(x, i, 1), NUMBERS),
    "atomic_min": (lambda x, i: atomic_min(x, i, 1), NUMBERS),
    "atomic_max": (lambda x, i: atomic_max(x, i, 1), NUMBERS),
    "raise_flag": (lambda x, i: raise_flag(x, x, i), FLAGS),
    "try_lock": (lambda x, i: try_lock(x, i), NUMBERS),
    "unlock": (lambda x, i: unlock(x, i), NUMBERS),
    "published": (lambda x, i: published(x, i), NUMBERS),
    "publish": (lambda x, i: publish(x, i, 1), NUMBERS),
    "exchange_if": (lambda x, i: exchange_if(x, i, 0, 1), NUMBERS),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_arrays_are_contiguous_and_indices_are_integers(name):
    function, array = OF_ARRAYS[name]
    for wrong, index in ((array[::2], 0), (array.reshape(2, 4), 0), (array, 0.5), (tuple(array.tolist()), 0)):
        with pytest.raises(TypingError, match=r"one-dimensional C-contiguous array|integer index"):
            njit(function)(wrong, index)


@pytest.mark.parametrize("name", ["try_lock", "unlock", "published", "publish", "exchange_if"])
def test_locks_and_published_numbers_are_int32(name):
    with pytest.raises(TypingError, match="takes an int32 array"):
        njit(OF_ARRAYS[name][0])(np.zeros(8, np.int64), 0)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, i: extract(x, i), "extract"), (lambda x, i: extract(zero(), 0.5), "extract"),
        (lambda x, i: extract(0.5, i), "extract"), (lambda x, i: insert(0.5, i, 1.0), "insert"),
        (lambda x, i: insert(zero(), 0.5, 1.0), "insert"), (lambda x, i: absolute(0.5), "absolute"),
        (lambda x, i: absolute(zero() > 0), "a row of numbers"), (lambda x, i: fma(1.0, 2.0, 3.0), "fma"),
        (lambda x, i: count(zero()), "count"), (lambda x, i: reduce_all(zero()), "a mask"),
        (lambda x, i: where(zero(), zero(), zero()), "a mask or a truth value"),
        (lambda x, i: where(1, zero(), zero()), "a mask or a truth value"),
        (lambda x, i: where(True, 1.0, 2.0), "where"), (lambda x, i: to64(0.5), "make a row of a scalar with splat"),
    ],
)  # fmt: skip
def test_functions_of_rows_take_rows(function, reason):
    with pytest.raises(TypingError, match=reason):
        njit(function)(FLOATS, 0)


@pytest.mark.parametrize("lanes", [64, 128, 200, 256])
def test_set_lanes_of_long_masks_are_counted(lanes):
    counted, of = row_ops(lanes).load, np.random.default_rng(lanes)
    number = njit(lambda flags: count(counted(flags, 0)))
    for flags in (np.zeros(lanes, np.bool_), np.ones(lanes, np.bool_), of.random(lanes) < 0.5):
        assert number(flags) == np.count_nonzero(flags)


@pytest.mark.parametrize("lanes", range(1, MAX_LANES + 1, 5))
def test_chunks_have_every_lane_once_and_little_more(lanes):
    """Their widths are powers of two, and only the last chunk, of fewer than 16 lanes, has lanes of no feature."""
    chunks = chunks_of(lanes)
    assert [chunk.start for chunk in chunks] == [sum(one.lanes for one in chunks[:i]) for i in range(len(chunks))]
    assert sum(chunk.lanes for chunk in chunks) == lanes
    assert all(chunk.width.bit_count() == 1 for chunk in chunks)
    assert all(chunk.width == chunk.lanes >= 16 for chunk in chunks[:-1])
    assert chunks[-1].lanes <= chunks[-1].width < 2 * chunks[-1].lanes

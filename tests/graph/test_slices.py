"""Work on long arrays by slices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from harness.graph import slices
from harness.graph.slices import equal_in_slices, in_slices, taken


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 65])
def test_every_element_is_in_one_slice(count, monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 8)
    found = np.zeros(count, np.int64)
    lock = threading.Lock()

    def add(part):
        assert 0 < part.stop - part.start <= 8
        with lock:
            found[part] += 1

    in_slices(add, count)
    assert (found == 1).all()


def test_errors_of_a_slice_are_raised(monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 8)

    def fail(part):
        if part.start == 16:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        in_slices(fail, 100)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
def test_taken_equals_indexing(shape, dtype, monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 8)
    random = np.random.default_rng(1)
    values = random.random((50, *shape)).astype(np.float32) > 0.5
    values = values if dtype is np.bool_ else random.random((50, *shape)).astype(dtype)
    places = random.integers(0, 50, 70).astype(np.uint32)
    found = taken(values, places)
    assert found.dtype == values.dtype
    assert (found == values[places]).all()


def test_a_thread_without_memory_is_a_memory_error(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(slices, "SLICE", 8)
    monkeypatch.setattr("threading.Thread.start", refuse)
    with pytest.raises(MemoryError, match="can't start new thread"):
        in_slices(lambda part: None, 100)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 20])
def test_arrays_are_equal_if_every_slice_is(count, monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 8)
    values = np.arange(count)
    assert equal_in_slices(values, values.copy())
    assert not equal_in_slices(values, np.arange(count + 1))
    for place in range(count):
        changed = values.copy()
        changed[place] += 1
        assert not equal_in_slices(values, changed)

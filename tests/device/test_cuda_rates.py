"""The rates of a CUDA device, from calls on a device that takes two milliseconds for each."""

from __future__ import annotations

import itertools
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from harness.device import cuda_rates

MS = 2.0
CACHE, MEMORY = 48 << 20, 80 << 30
ATTRIBUTES = {
    "MultiProcessorCount": 100, "L2CacheSize": CACHE, "MaxSharedMemoryPerMultiprocessor": 200 << 10,
    "MaxRegistersPerMultiprocessor": 65536,
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """Return the calls of kernels: name, grid and block, and their arguments."""
    made = []

    arrays = []

    def zeros(count, kind):
        arrays.append(SimpleNamespace(nbytes=count * np.dtype(kind).itemsize))
        return arrays[-1]

    def function(name):
        def call(grid, block, arguments):
            given = [one for one in arguments if one in arrays]
            assert all(one is not other for one, other in itertools.combinations(given, 2))
            made.append((name, *grid, *block, *map(int, arguments[len(given) :])))
            if name in ("read", "copy"):
                assert len(given) == 2
                assert 16 * made[-1][-2] <= min(one.nbytes for one in given), "within the arrays"
                assert max(one.nbytes for one in given) == min(MEMORY // 8, cuda_rates.MEMORY) // 2

        return call

    stream = SimpleNamespace(
        begin_capture=lambda: None, end_capture=lambda: SimpleNamespace(launch=lambda: made.append(("graph",)))
    )
    module = SimpleNamespace(load=lambda code: None, get_function=function)
    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    cuda = SimpleNamespace(
        function=SimpleNamespace(Module=lambda: module), Stream=lambda non_blocking: nullcontext(stream),
        using_allocator=lambda allocator: nullcontext(), Event=lambda: event, get_elapsed_time=lambda *_: MS,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, zeros=zeros))
    monkeypatch.setattr(cuda_rates, "compiled", lambda *_: SimpleNamespace(code=b""))
    monkeypatch.setattr(cuda_rates, "architecture", lambda index: "sm_90")
    opened = SimpleNamespace(attributes=ATTRIBUTES, mem_info=(MEMORY, MEMORY))
    monkeypatch.setattr(cuda_rates, "open_device", lambda index: opened)
    return made


def test_rates_are_the_work_of_the_calls_over_their_time(calls):
    found = cuda_rates.cuda_rates(0)
    seconds, names = MS / 1000, [call[0] for call in calls]
    moved = {}
    for name, *_, count, repeats in (call for call in calls if call[0] in ("read", "copy")):
        moved[count] = max(moved.get(count, 0), 16 * count * repeats * (2 if name == "copy" else 1))
    assert {call[1:3] for call in calls if call[0] not in ("nothing", "graph")} == {(800, 256)}
    assert max(moved) == min(MEMORY // 8, cuda_rates.MEMORY) // 2 // 16, "memory: the whole arrays"
    remote, near = (moved[count] / seconds for count in sorted(moved, reverse=True))
    assert found["levels"] == [(0, pytest.approx(max(near, remote))), (CACHE, pytest.approx(remote))]
    (adds,) = {count * repeats for name, *_, count, repeats in (c for c in calls if c[0] == "add")}
    (wide,) = {4 * count * repeats for name, *_, count, repeats in (c for c in calls if c[0] == "add4")}
    assert (found["adds"], found["wide_adds"]) == (pytest.approx(adds / seconds), pytest.approx(wide / seconds))
    assert found["launch"] == pytest.approx(seconds / names.count("nothing"))
    assert found["on_chip"] == 100 * ((200 << 10) + (64 << 10) + 4 * 65536)


def test_the_arrays_of_the_cache_fit_it_and_those_of_memory_do_not(calls):
    cuda_rates.cuda_rates(0)
    counts = {16 * count for name, *_, count, _ in (call for call in calls if call[0] == "copy")}
    assert 2 * min(counts) <= CACHE / 2
    assert max(counts) > 4 * CACHE
    (added,) = {4 * count for name, *_, count, _ in (call for call in calls if call[0] == "add")}
    assert added <= CACHE / 2

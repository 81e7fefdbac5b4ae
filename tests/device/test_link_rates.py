"""The rates of a host link, from calls on a device that takes two milliseconds for each, and on a real one."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from harness.device import link_rates

MS = 2.0


@pytest.fixture
def calls(monkeypatch):
    """Return the calls: kernels with their lanes of a request, copies with their bytes."""
    made = []

    def read(grid, block, arguments):
        made.append(("read", int(arguments[1]), int(arguments[2]), grid, block, int(arguments[0]), int(arguments[3])))

    module = SimpleNamespace(load=lambda code: None, get_function=lambda name: read)
    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    stream = SimpleNamespace(ptr=0)
    runtime = SimpleNamespace(
        memcpyHostToDevice=1, memcpyAsync=lambda *given: made.append(("copy", *given[1:3], given[0], *given[3:]))
    )
    cuda = SimpleNamespace(
        function=SimpleNamespace(Module=lambda: module), Stream=lambda non_blocking: nullcontext(stream),
        using_allocator=lambda allocator: nullcontext(), Event=lambda: event, get_elapsed_time=lambda *_: MS,
        runtime=runtime,
    )  # fmt: skip
    array = SimpleNamespace(data=SimpleNamespace(ptr=1 << 40))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, zeros=lambda size, dtype: array))
    monkeypatch.setattr(link_rates, "compiled", lambda *_: SimpleNamespace(code=b""))
    monkeypatch.setattr(link_rates, "architecture", lambda index: "sm_90")
    monkeypatch.setattr(link_rates, "PinnedMemory", lambda nbytes: SimpleNamespace(pointer=1 << 30))
    opened = SimpleNamespace(attributes={"MultiProcessorCount": 100})
    monkeypatch.setattr(link_rates, "open_device", lambda index: opened)
    return made


def test_rates_are_requested_bytes_over_time(calls):
    found = link_rates.link_rates(0)
    samples = [one for one in calls if one[0] == "copy"]
    assert sum(one[2] for one in samples) % link_rates.NBYTES == 0
    assert found["copy"] == pytest.approx(link_rates.NBYTES / (MS / 1000))
    parts = list(range(1 << 30, (1 << 30) + link_rates.NBYTES, link_rates.PART))
    assert [one[1] for one in samples] == parts * (len(samples) // len(parts)), "the whole memory, part by part"
    assert {one[2:] for one in samples} == {(link_rates.PART, 1 << 40, 1, 0)}
    launches = {(one[1], *one[3:]) for one in calls if one[0] == "read"}
    assert launches == {(link_rates.NBYTES // 128, (800,), (256,), 1 << 30, 1 << 40)}, "eight blocks a multiprocessor"
    assert {one[2] for one in calls if one[0] == "read"} == {8, 16, 24, 32}, "words of a request"
    for nbytes, rate in found["in_place"].items():
        assert rate == pytest.approx(int(nbytes) * link_rates.NBYTES / 128 / (MS / 1000))


@pytest.mark.gpu
def test_larger_requests_are_faster():
    found = link_rates.link_rates(0)
    in_place = found["in_place"]
    assert 1e9 < in_place["32"] < in_place["128"] < 1.1 * found["copy"]

"""Probes of a CUDA device give the rates of a made device, on which kernels, copies and the host take known times."""

from __future__ import annotations

import itertools
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx import cuda_probe as onyx
from engines.onyx.direction_costs import LONG, SHORT, WORKS
from engines.outofmemory.scaph import cuda_rates as scaph
from engines.outofmemory.scaph.extraction import groups_of
from engines.outofmemory.scaph.values import Rates

CACHE, MULTIPROCESSORS = 50 << 20, 3
LAUNCH, STREAM = 3e-6, 2e12  # seconds; bytes per second


class Event:
    """An event, which has the time of the made device."""

    def __init__(self, clock):
        self.clock, self.at, self.stream = clock, 0.0, None

    def record(self, stream):
        self.at, self.stream = self.clock.now, stream

    def synchronize(self):
        pass


class MadeStream(nullcontext):
    """A stream that does not wait for the default stream."""

    def __init__(self, *, non_blocking):
        assert non_blocking
        super().__init__(self)

    def synchronize(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of the device and the host; ``cupy`` is a substitute that reads it."""
    found = SimpleNamespace(now=0.0)

    def elapsed(begin, end):
        assert begin.stream is end.stream
        return 1000 * (end.at - begin.at)

    found.cuda = SimpleNamespace(
        using_allocator=lambda allocator: nullcontext(), Stream=MadeStream, Event=lambda: Event(found),
        get_elapsed_time=elapsed, get_current_stream=lambda: "current", Device=lambda: SimpleNamespace(),
        function=SimpleNamespace(), runtime=SimpleNamespace(memcpyHostToDevice=1),
    )  # fmt: skip
    made = {"cuda": found.cuda, "asarray": np.asarray, "full": np.full, "zeros": np.zeros}
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(**made))
    return found


def of_an_edge(work, features, place):
    """Return the seconds of an edge on the made device."""
    return 1e-9 * (1 + WORKS.index(work)) * (1 + features) * (10 if place == "far" else 1)


def test_figures_of_directions_are_the_rates_of_the_device(clock, monkeypatch):
    """Each kernel has rows of random ends, the values of sources, and those of owners, which every pass lowers."""
    near, far = (64, 512), (256, 2048)
    monkeypatch.setattr(onyx, "NEAR", near)
    monkeypatch.setattr(onyx, "FAR", far)
    launches, passes, sent = itertools.count(1), [], {}

    def work(name, features, arguments):
        ends, x, y, flags, edges, by = arguments
        place = "near" if len(flags) == near[0] else "far"
        assert (len(flags), edges) == (near if place == "near" else far)
        assert len(x) == len(y) == LONG * len(flags)
        assert (ends.dtype, len(ends)) == (np.int32, edges)
        assert 0 <= ends.min() < ends.max() < len(flags)
        assert x.min() < x.max()
        assert sent.setdefault(place, x.tobytes()) == x.tobytes(), "sources keep their values"
        assert not passes or by > passes[-1] + 1
        passes.append(by)
        assert by == 0 or (x.max() - by < y).all(), "each pass sends lower values"
        y[:] = x - by
        clock.now += edges * of_an_edge(name, features, place)

    def function(kernel):
        def launch(grid, block, arguments):
            if kernel == "nothing":
                assert (grid, block, arguments) == ((1,), (32,), ())
                clock.now += LAUNCH * (1 + 1 / next(launches))
                return
            assert (grid, block) == ((onyx.BLOCKS * MULTIPROCESSORS,), (onyx.THREADS,))
            if kernel == "copied":
                x, y, count = arguments
                assert len(x) == len(y) == 4 * count
                clock.now += 2 * x.nbytes / STREAM
                return
            name, _, features = kernel.rpartition("_")
            work(name, int(features), arguments)

        return launch

    clock.cuda.function.Module = lambda: SimpleNamespace(load=lambda code: None, get_function=function)
    monkeypatch.setattr(onyx, "compiled", lambda *_: SimpleNamespace(code=b""))
    monkeypatch.setattr(onyx, "architecture", lambda index: "sm_90")
    attributes = {"MultiProcessorCount": MULTIPROCESSORS, "L2CacheSize": CACHE}
    monkeypatch.setattr(onyx, "open_device", lambda _: SimpleNamespace(attributes=attributes, mem_info=(0, 80 << 30)))
    known = {
        f"{name}_{place}_{features}": of_an_edge(name, features, place)
        for name in WORKS
        for place, features in (("near", SHORT), ("near", LONG), ("far", LONG))
    }
    known |= {"cache": CACHE, "stream": STREAM, "launch": LAUNCH}
    assert onyx.cuda_figures(0) == pytest.approx(known, rel=1e-2)


COPIES, IN_PLACE, PACKING = 4e9, 1e9, 2e9  # bytes per second
QUEUED = {"fork": 1e-6, "fill": 7e-6, "wait": 2e-6, "kernel": 5e-6, "free": 3e-6}  # seconds of the host
SLOT, THREADS = 1 << 10, 64


class MadeStreamer:
    """A streamer of a graph of ``edges`` edges; its copies, kernels and packing take the times of the made device."""

    def __init__(self, clock, edges, degree, in_place):
        self.clock, self.in_place, self.joined, self.done = clock, in_place, 0, True
        neighbours = np.zeros(edges, np.uint32)
        ends = np.arange(-(-edges // degree) + 1) * degree
        self.neighbours = (neighbours.ctypes.data, neighbours.nbytes)
        self.arrays = {"out_neighbours": self.on_device(neighbours)}
        self.slots = [self.on_device(np.zeros(SLOT, np.uint8))]
        self.stream, self.streams = SimpleNamespace(ptr=77), self
        self.plan, self.multiprocessors = SimpleNamespace(threads=THREADS), MULTIPROCESSORS
        self.functions, self.packing, self.packer, self.packed = {scaph.ADJACENT: self.read}, self, self, []
        self.store = SimpleNamespace(graph=SimpleNamespace(csr=SimpleNamespace(offsets=np.minimum(ends, edges))))
        self.stagings = [SimpleNamespace(host=SimpleNamespace(host=np.zeros(SLOT, np.uint8)))]
        clock.cuda.runtime.memcpyAsync, clock.cuda.Device = self.copied, lambda: self

    @staticmethod
    def on_device(array):
        """Return an array with its address, as a device's arrays have it."""
        found = SimpleNamespace(nbytes=array.nbytes, data=SimpleNamespace(ptr=array.ctypes.data), array=array)
        found.view = lambda dtype: array.view(dtype)
        return found

    def take(self, part):
        self.clock.now += QUEUED[part]

    def copied(self, to, source, size, kind, stream):
        begin, whole = self.neighbours
        assert (to, kind, stream) == (self.slots[0].data.ptr, 1, 77)
        assert begin <= source <= source + size <= begin + whole
        assert size <= SLOT
        assert source % 4 == begin % 4
        self.clock.now += LAUNCH + size / COPIES

    def read(self, grid, block, arguments):
        source, words, result = map(int, arguments)
        begin, whole = self.neighbours
        assert block == (THREADS,)
        assert 1 <= grid[0] <= max(1, 8 * MULTIPROCESSORS)
        assert begin <= source <= source + 4 * words <= begin + whole
        assert result == self.slots[0].data.ptr
        if self.forked_now:
            self.take("kernel")
        else:
            self.clock.now += LAUNCH + 4 * words / self.in_place

    forked_now = False

    @contextmanager
    def forked(self):
        assert self.done, "what was queued before does not delay the host"
        self.take("fork")
        self.forked_now, self.done = True, False
        yield
        self.forked_now = False

    def synchronize(self):
        self.clock.now += 0.0 if self.done else 1.0
        self.done = True

    def fill(self, slot, names, first, last):
        assert (slot, names, first, last) == (0, ["out_neighbours"], 0, 1)
        self.take("fill")

    def of(self, number):
        assert number == 0
        return nullcontext()

    def wait_for(self, number):
        assert number == 0
        self.take("wait")

    def free(self, number):
        assert number == 0
        self.take("free")

    def join(self, slots):
        assert slots == [0]
        self.clock.now += 5.0
        self.joined += 1

    def mark(self, flags, offsets, first, table):
        assert flags.tolist() == [v % scaph.EVERY == 0 for v in range(len(flags))]
        assert (first, table.shape) == (0, (groups_of(len(flags)), 2))
        assert 4 * offsets[len(flags)] <= SLOT, "the rows of a subgraph"
        return int((offsets[1:] - offsets[:-1])[: len(flags)][flags].sum())

    def copy(self, table, offsets, first, edges, width, source, packed):
        assert (first, width, len(packed)) == (0, 1, edges)
        self.packed.append(edges)
        self.clock.now += LAUNCH + 4 * edges / PACKING


@pytest.mark.parametrize("edges", [5000, 256, 40, 3])
@pytest.mark.parametrize(("means", "in_place"), [("zero_copy", 1e9), ("zero_copy", 9e9), ("extracted", 1e9),
                                                 ("copied", 1e9)])  # fmt: skip
def test_rates_of_subgraphs_are_those_of_the_device(means, in_place, edges, clock, monkeypatch):
    """Neither the other means is faster than copies, nor has the time to queue what is queued or done besides."""
    streamer = MadeStreamer(clock, edges, 5, in_place)
    monkeypatch.setattr(scaph, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(scaph, "on_host", lambda array: array.array)
    found = scaph.measured_rates(streamer, means)
    whole, most = min(4 * edges, SLOT), 4 * edges
    copied = whole / (LAUNCH + whole / COPIES)
    rows = min(whole // 4 // 5, len(streamer.store.graph.csr.offsets) - 1) + (0 < edges < 5)
    packed = 4 * 5 * -(-rows // scaph.EVERY) if edges >= 5 else 4 * edges
    other = {
        "copied": copied,
        "zero_copy": most / (LAUNCH + most / in_place),
        "extracted": packed / (LAUNCH + packed / PACKING),
    }[means]
    queued = sum(QUEUED.values()) if means == "zero_copy" else 0.0
    assert found == Rates(pytest.approx(copied), pytest.approx(min(copied, other)), pytest.approx(queued))
    assert streamer.joined == (scaph.SAMPLES if means == "zero_copy" else 0)
    assert streamer.packed == ([packed // 4] * scaph.SAMPLES if means == "extracted" else [])

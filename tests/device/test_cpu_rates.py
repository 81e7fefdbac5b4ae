"""The rates of a processor's memory, with a clock that copies and reads advance; and the empty parts of a device."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from harness.contract import Device
from harness.device import compilation, cpu_rates, figures
from harness.device.cpu_cache import USUAL, own_cache_bytes
from harness.device.host_memory import on_host, pinned_type
from harness.device.managed_memory import ManagedMemory
from harness.emulation.arrays import DeviceArray, allocated


class Memory:
    """NumPy's arrays, copies and reads, which take a time for every byte; ``touched``: the bytes, by array and use."""

    float32 = np.float32

    def __init__(self, copies, reads):
        self.copies, self.reads, self.clock, self.touched, self.lock = copies, reads, 0.0, {}, threading.Lock()

    def take(self, array, use, rate):
        with self.lock:
            self.clock += array.nbytes / rate
            self.touched[id(array), use] = self.touched.get((id(array), use), 0) + array.nbytes

    def ones(self, count, kind):
        array = SimpleNamespace(nbytes=4 * count)
        array.max = lambda: self.take(array, "read", self.reads)
        return array

    zeros = ones

    def copyto(self, to, source):
        self.take(source, "source", self.copies)
        self.take(to, "target", self.copies)


@pytest.mark.parametrize(("copies", "reads"), [(1e9, 4e9), (4e9, 1e9)])
@pytest.mark.parametrize(
    ("size", "threads"), [(1 << 16, 1), (1 << 22, 1), (1 << 22, 3), (1 << 25, 1), (1 << 27, 2), (3, 1), (0, 4)]
)
def test_a_rate_is_that_of_every_byte_read_and_written_by_the_faster_of_copies_and_reads(
    monkeypatch, size, threads, copies, reads
):
    memory = Memory(copies, reads)
    monkeypatch.setattr(cpu_rates, "np", memory)
    monkeypatch.setattr(cpu_rates, "_PASS", 1 << 13)
    monkeypatch.setattr(cpu_rates, "time", SimpleNamespace(perf_counter=lambda: memory.clock))
    assert cpu_rates._rate(size, threads) == pytest.approx(max(copies, reads))
    by_use = {use: [n for (_, one), n in memory.touched.items() if one == use] for use in ("source", "target", "read")}
    assert len(by_use["source"]) == len(by_use["target"]) == threads
    assert len(by_use["read"]) == 2 * threads, "both arrays are read"
    assert len(set(by_use["source"] + by_use["target"])) == len(set(by_use["read"])) == 1
    assert by_use["source"][0] > 0


@pytest.mark.parametrize(
    ("caches", "memory", "cached", "remote"),
    [
        ([(1 << 15, 1 << 16), (1 << 20, 1 << 21)], 1 << 34, 1 << 19, 2 * ((1 << 16) + (1 << 21))),
        ([(1 << 25, 1 << 26)], 1 << 34, 1 << 23, 1 << 27),
        ([(1 << 15, 1 << 22), (1 << 30, 1 << 30)], 1 << 40, 1 << 24, 1 << 30),
        ([(1 << 15, 1 << 16), (1 << 20, 1 << 21)], 1 << 20, 1 << 19, 1 << 17),
    ],
)
def test_levels_are_measured_in_arrays_of_half_the_cache_and_twice_all_caches(
    monkeypatch, caches, memory, cached, remote
):
    rates, asked = {1: 30.0, 4: 90.0}, []
    monkeypatch.setattr(cpu_rates, "cache_sizes", lambda: caches)
    monkeypatch.setattr(cpu_rates, "_rate", lambda size, threads: asked.append((size, threads)) or rates[threads])
    found = cpu_rates.cpu_rates(4, memory)
    assert asked == [(cached, 1), (remote, 4)]
    nearer, every = sum(total for _, total in caches[:-1]), sum(total for _, total in caches)
    assert found["levels"] == [(nearer, 120.0), (every, 90.0)]
    rates[1] = 10.0
    assert cpu_rates.cpu_rates(4, memory)["levels"][0] == (nearer, 90.0), "no slower than memory"
    assert {name: found[name] for name in ("on_chip", "adds", "wide_adds", "launch")} == {
        "on_chip": 0, "adds": None, "wide_adds": None, "launch": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2048K\n", 2 << 20), ("1M", 1 << 20), ("3M\n", 3 << 20), ("512", USUAL), ("", USUAL), ("K", USUAL),
        ("abK", USUAL), ("-4K", USUAL), ("1.5M", USUAL), ("2G", USUAL), (None, USUAL),
    ],
)  # fmt: skip
def test_the_size_of_a_cores_cache_is_that_of_the_system_or_the_usual_one(tmp_path, text, size):
    if text is not None:
        (tmp_path / "size").write_text(text)
    assert own_cache_bytes(tmp_path / "size") == size


def test_figures_are_kept_in_a_folder_that_is_made_for_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "not" / "there"))
    device = Device(threads=2)
    assert figures.known_figures("speed_1", device) is None
    assert figures.figures_of("speed_1", device, lambda: {"a": 1, "b": np.float32(0.5)}) == (("a", 1.0), ("b", 0.5))
    assert figures.figures_of("speed_1", device, lambda: pytest.fail("measured again")) == (("a", 1.0), ("b", 0.5))
    assert figures.known_figures("speed_2", device) is None
    (kept,) = tmp_path.rglob("*.json")
    assert json.loads(kept.read_text())["figures"] == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_empty_array_of_pinned_memory_has_no_address(shape):
    found = on_host(np.empty(shape, np.int16))
    assert (found.shape, found.dtype) == (shape, np.int16)


def test_pinned_memory_is_read_and_written_by_copies():
    pinned = allocated(np.arange(5, dtype=np.float32)).view(pinned_type(DeviceArray))
    found = pinned.get()
    found[:] = -1.0
    assert pinned.tolist() == [0, 1, 2, 3, 4]
    given = np.array([7.0, 8.0], np.float32)
    pinned[1:3].set(given)
    given[:] = 0.0
    assert pinned.get().tolist() == [0, 7, 8, 3, 4]
    assert pinned[3:].get().tolist() == [3, 4]
    assert not np.shares_memory(pinned.get(), np.asarray(pinned))


@pytest.mark.parametrize(("nbytes", "allocated"), [(0, 1), (1, 1), (100, 100), (101, None)])
def test_managed_memory_has_at_least_a_byte_and_at_most_the_free_ones(monkeypatch, nbytes, allocated):
    calls = []
    runtime = SimpleNamespace(
        memGetInfo=lambda: (100, 1000), getDevice=lambda: 3, free=lambda at: calls.append(("free", at)),
        mallocManaged=lambda size: calls.append(("malloc", size)) or 5,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    if allocated is None:
        with pytest.raises(MemoryError, match="101 bytes of managed memory for edge arrays, and the device has 100"):
            ManagedMemory(nbytes, "none")
        assert not calls
        return
    made = ManagedMemory(nbytes, "none")
    assert (made.nbytes, made.pointer, made.device) == (nbytes, 5, 3)
    del made
    assert calls == [("malloc", allocated), ("free", 5)]


# errors of the compiler -----------------------------------------------------------------------------------------------
LINES = [
    'extern "C" __global__ void first()', "{", "    // spread: one", "    wrong = 1;", "    // other: two", "    more;",
    "}", 'extern "C" __global__ void second()', "    alone;",
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (4, ["    wrong = 1;", "    made of spread: one"]), (6, ["    more;", "    made of other: two"]),
        (3, ["    // spread: one", "    made of spread: one"]), (9, ["    alone;"]), (10, []),
        (1, ['    extern "C" __global__ void first()']),
    ],
)  # fmt: skip
def test_an_error_is_followed_by_its_line_and_the_nearest_origin_above_it(number, shown):
    log = f"generated.cu({number}): error: no\ngenerated.cu(4): warning: odd\nother.cuh(2): error: elsewhere"
    found = compilation.explained(log, "\n".join(LINES)).splitlines()
    first, *rest = log.splitlines()
    assert [one.replace("     ", "    ") for one in found] == [first, *shown, *rest]


def test_a_compilation_is_kept_with_its_log_under_the_content_of_all_headers(tmp_path, monkeypatch):
    nvrtc = SimpleNamespace(getVersion=lambda: (13, 0))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(nvrtc=nvrtc)))
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nvrtc=nvrtc))
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    made = []

    def compile_one(source, headers, architecture):
        made.append((source, dict(headers), architecture))
        return compilation.Compiled(b"code %d" % len(made), f"log {len(made)}")

    monkeypatch.setattr(compilation, "_compile", compile_one)
    one = ("x", {"a": "1", "b": "2"}, "sm_90")
    first = compilation.compiled(*one)
    assert compilation.compiled("x", {"b": "2", "a": "1"}, "sm_90") == first
    others = [("y", *one[1:]), ("x", {"a": "1", "b": "3"}, "sm_90"), ("x", {"a": "1"}, "sm_90"), (*one[:2], "sm_80")]
    assert len({compilation.compiled(*other).code for other in (one, *others)}) == 5
    assert made == [one, *others]
    for path in (tmp_path / "cuda").iterdir():
        path.unlink()
    for _ in range(2):
        assert compilation.compiled(*one) == compilation.Compiled(b"code 6", "log 6")

"""The link to edges outside of the device's memory: when it is measured, and what its counters mean."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import link
from harness.contract import Device, Transfers
from harness.graph import Graph

RATES = {"copy": 5e10, "in_place": {"32": 1e10}, "pinning": 0.1}
ROOM = 1 << 32


@pytest.fixture
def counters(monkeypatch):
    """Return a function that sets what a GPU counts before and after some work."""

    def made(before, after, *, between=(), narrow=False, refused=0):
        kind = 1 if narrow else 2

        def value(count):
            return SimpleNamespace(
                nvmlReturn=refused, valueType=kind, value=SimpleNamespace(uiVal=count % ROOM, ullVal=count)
            )

        looks = iter(between)
        counts = itertools.chain([before], (next(looks, after) for _ in itertools.count()))
        nvml = SimpleNamespace(
            NVML_VALUE_TYPE_UNSIGNED_INT=1,
            nvmlDeviceGetFieldValues=lambda *_: [value(one) for one in next(counts)],
        )

        @contextmanager
        def opened(index):
            yield nvml, "gpu"

        monkeypatch.setattr(link, "opened_gpu", opened)

    return made


def test_bytes_are_those_of_the_direction_with_more_of_them(counters):
    counters((100, 1000), (150, 5000))
    assert link.bytes_over_link(0, lambda: None) == 4000


def test_the_counters_are_those_of_bytes_sent_and_received(monkeypatch):
    """Fields 197 and 198 of NVML; 200 and 900 bytes are gained."""
    asked = []
    counts = {197: iter([0, 200]), 198: iter([100, 1000])}

    def values(gpu, fields):
        asked.append((gpu, list(fields)))
        wide = [SimpleNamespace(ullVal=next(counts[one])) for one in fields]
        return [SimpleNamespace(nvmlReturn=0, valueType=2, value=value) for value in wide]

    @contextmanager
    def opened(index):
        yield SimpleNamespace(NVML_VALUE_TYPE_UNSIGNED_INT=1, nvmlDeviceGetFieldValues=values), f"gpu {index}"

    monkeypatch.setattr(link, "opened_gpu", opened)
    monkeypatch.setattr(link, "_PERIOD_S", 60.0)
    monkeypatch.setattr(link, "_MOST_GAP_S", 60.0)
    assert link.bytes_over_link(3, lambda: None) == 900
    assert asked == [("gpu 3", [197, 198])] * 2


def test_counters_of_32_bits_wrap(counters):
    counters((0, ROOM - 10), (0, ROOM + 90), narrow=True)
    assert link.bytes_over_link(0, lambda: None) == 100


def test_counters_of_32_bits_may_wrap_several_times_in_a_run(counters, monkeypatch):
    monkeypatch.setattr(link, "_PERIOD_S", 0.001)
    monkeypatch.setattr(link, "_MOST_GAP_S", 10.0)
    counts = [(0, round(share * ROOM)) for share in (0.6, 1.2, 1.8, 2.4)]
    counters((0, 0), (0, 3 * ROOM), between=counts, narrow=True)
    assert link.bytes_over_link(0, lambda: time.sleep(0.1)) == 3 * ROOM


@pytest.mark.parametrize("narrow", [True, False])
def test_counters_that_may_have_wrapped_unseen_are_unknown(counters, monkeypatch, narrow):
    monkeypatch.setattr(link, "_PERIOD_S", 10.0)
    monkeypatch.setattr(link, "_MOST_GAP_S", 0.01)
    counters((0, 0), (0, 70), narrow=narrow)
    assert link.bytes_over_link(0, lambda: time.sleep(0.02)) is None


@pytest.mark.parametrize("missing", [True, False])
def test_a_gpu_without_counters_still_runs_the_work(missing, counters, monkeypatch):
    counters((0, 0), (0, 0), refused=3)
    if missing:

        @contextmanager
        def none(index):
            yield None

        monkeypatch.setattr(link, "opened_gpu", none)
    ran = []
    assert link.bytes_over_link(0, lambda: ran.append(1)) is None
    assert ran == [1]


def test_only_the_run_counts_and_not_its_reset(counters, monkeypatch):
    monkeypatch.setattr(link, "link_rates", lambda index: RATES)
    counters((0, 0), (0, 70))
    order = []
    found = link.link_of(Device("cuda", 0), None, lambda: order.append("reset"), lambda: order.append("run"))
    assert order == ["reset", "run"]
    assert found == {"copy": 5e10, "in_place": {"32": 1e10}, "read": None, "run_bytes": 70}


def test_a_link_that_cannot_be_measured_is_null(monkeypatch, caplog):
    def failing(index):
        raise MemoryError("no page")

    monkeypatch.setattr(link, "link_rates", failing)
    assert link.link_of(Device("cuda", 0), None, lambda: 1 / 0, lambda: 1 / 0) is None
    assert "no page" in caplog.text


@pytest.mark.parametrize(("edges", "crossed"), [("mapped", True), ("streamed", True), ("managed", True),
                                                ("resident", False), (None, False)])  # fmt: skip
def test_edges_of_other_places_cross_no_link(edges, crossed):
    assert link.is_crossed({} if edges is None else {"edges": edges}) is crossed


def test_pages_of_managed_memory_are_the_bytes_moved():
    counted = {**RATES, "read": None, "run_bytes": 300}
    visited = Transfers(100, {})
    found = link.with_pages(visited, {"edges": "managed"}, counted)
    assert (found.moved, found.amplification) == ({"pages": 300}, 3.0)
    assert link.with_pages(visited, {"edges": "mapped"}, counted) is visited
    assert link.with_pages(visited, {"edges": "managed"}, {**counted, "run_bytes": None}) is visited


def test_the_rate_of_a_file_is_measured_and_that_of_memory_is_not(tmp_path):
    sources = np.repeat(np.arange(50), 20)
    graph = Graph.from_edges(sources, np.tile(np.arange(20), 50), num_vertices=50, name="rows")
    assert link.file_rate(graph) is None
    assert link.link_of(Device("cpu", 0), graph, lambda: 1 / 0, lambda: 1 / 0) is None
    file = tmp_path / "neighbours"
    graph.csr.neighbours.tofile(file)
    mapped = np.memmap(file, graph.csr.neighbours.dtype, "r")
    in_file = SimpleNamespace(csr=SimpleNamespace(neighbours=mapped))
    found = link.link_of(Device("cpu", 0), in_file, lambda: 1 / 0, lambda: 1 / 0)
    assert found["read"] > 0
    assert found | {"read": 0} == {"copy": None, "in_place": {}, "read": 0, "run_bytes": None}
    with file.open("r+b") as opened:
        opened.truncate(100)
    assert link.file_rate(in_file) is None


def test_the_rate_of_a_file_is_that_of_the_fastest_sample_of_its_part(tmp_path, monkeypatch):
    """Only the mapped part is read, in order, in blocks; a sample of 100 bytes takes 5, 1 and 2 s."""
    file = tmp_path / "neighbours"
    file.write_bytes(bytes(range(150)))
    mapped = np.memmap(file, np.uint8, "r", offset=20, shape=130)
    graph = SimpleNamespace(csr=SimpleNamespace(neighbours=mapped))
    monkeypatch.setattr(link, "_MOST_READ", 100)
    monkeypatch.setattr(link, "_BLOCK", 48)
    read, times = [], iter([0.0, 5.0, 10.0, 11.0, 20.0, 22.0])
    preadv = link.os.preadv

    def reading(descriptor, rooms, offset):
        count = preadv(descriptor, rooms, offset)
        read.append((offset, bytes(rooms[0][:count])))
        return count

    monkeypatch.setattr(link.os, "preadv", reading)
    monkeypatch.setattr(link.time, "perf_counter", lambda: next(times))
    assert link.file_rate(graph) == 100 / 1.0
    content = bytes(range(150))
    assert read == [(20, content[20:68]), (68, content[68:116]), (116, content[116:120])] * 3

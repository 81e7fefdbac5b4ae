"""What engines of the Scaph style count, time and launch: by hand, at both sides of every limit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engines.outofmemory.scaph import part_times
from engines.outofmemory.scaph.cpu_calls import GAP_BYTES
from engines.outofmemory.scaph.cuda_queue import CudaSuperstep
from engines.outofmemory.scaph.cuda_staging import MOST_BLOCKS, PackedRows
from engines.outofmemory.scaph.cuda_subgraphs import BLOCKS, MOST_AT_ONCE, SubgraphCall
from engines.outofmemory.scaph.queued import QueuedSuperstep
from engines.outofmemory.scaph.reading import Readings
from engines.outofmemory.schedules import ScaphSchedule
from harness.graph import Graph
from harness.language import Inputs
from tests.engines.problems import prepared, program


class Waiting(QueuedSuperstep):
    """A superstep whose queue costs nothing, while reads and kernels take seconds of a clock.

    Subgraphs are active for as many rounds as ``active_for`` says.
    """

    def __init__(self, active_for, clock):
        schedule = ScaphSchedule(rounds=3, slots=3, values="high")
        super().__init__(schedule, Readings(schedule))
        self.active_for, self.clock, self.pushed = dict(active_for), clock, []

    def pending(self):
        self.clock[0] += 1.0
        return {number: 1 for number, rounds in self.active_for.items() if rounds}

    def key(self, number):
        return number

    def active(self, number):
        self.clock[0] += 20.0
        return self.active_for[number] > 0

    def still(self, number):
        raise AssertionError("all subgraphs are of high value")

    def fetch(self, number, slot):
        self.clock[0] += 300.0
        return True

    def push(self, number, slot, *, again):
        self.clock[0] += 4000.0
        self.active_for[number] -= 1
        self.pushed.append((number, again))


def test_the_time_of_the_queue_is_that_of_neither_reads_nor_kernels(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(part_times, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    step = Waiting({0: 1, 1: 3, 2: 2, 3: 0, 4: 9}, clock)
    step.process()
    assert step.times.seconds.keys() <= {"", "queue"}
    assert step.times.seconds["queue"] == 0.0
    assert [number for number, again in step.pushed if not again] == [0, 1, 2, 4]
    assert step.traffic.subgraphs["again"] == sum(again for _, again in step.pushed)
    assert max(sum(one == number for one, _ in step.pushed) for number in (0, 1, 2, 4)) == 3


@pytest.mark.parametrize("edge_bytes", [4, 12])
def test_the_useful_bytes_of_a_subgraph_on_a_device_are_those_of_the_edges_of_its_active_vertices(edge_bytes):
    counts = [(3, 40, 1), (0, 0, 2), (1, 900, 3), (7, 0, 4)]
    push = SimpleNamespace(
        edge_bytes=edge_bytes, parts=[(0, 9)] * len(counts), counts=lambda: counts, value=lambda *_: True,
        fetch_flags=lambda *_: None,
    )  # fmt: skip
    schedule = ScaphSchedule(rounds=2, slots=3)
    step = CudaSuperstep(SimpleNamespace(push=push), SimpleNamespace(readings=Readings(schedule)), schedule)
    assert step.pending() == {0: 40 * edge_bytes, 2: 900 * edge_bytes, 3: 0}
    assert step.launches == 1


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("between", [40, GAP_BYTES // 4, GAP_BYTES // 4 + 1])
def test_rows_are_read_together_up_to_a_gap_of_4096_bytes(between):
    """Vertices 0 and 2 are active, with 2 and 3 edges; vertex 1, between them, has 4 bytes for each edge."""
    sources = np.repeat([0, 1, 2], [2, between, 3])
    graph = Graph.from_edges(sources, 3 + np.arange(len(sources)), num_vertices=2000, name="gap")
    engine = prepared("scaph", {"values": "low", "window_mb": 1.0}, program("bfs"), graph, 7)
    start = next(one.name for one in program("bfs").properties.values() if one.role == "input")
    first = np.full((graph.num_vertices, 7), np.inf, np.float32)
    first[[0, 2], [0, 1]] = 0.0
    engine.reset(Inputs({start: first}, {}))
    taken = engine.run(1).transfers
    assert taken.visited == 4 * (2 + 3)
    assert taken.moved["extracted"] == 4 * (2 + 3 + (between if 4 * between <= GAP_BYTES else 0))
    assert np.isfinite(engine.values("level")).sum() == 2 + 2 + 3
    engine.close()


@pytest.mark.parametrize(
    ("vertices", "blocks"),
    [
        ((5, 5), 1), ((70, 71), 1), ((70, 166), 1), ((70, 167), 2), ((900, 900 + 96 * MOST_BLOCKS), MOST_BLOCKS),
        ((900, 901 + 96 * MOST_BLOCKS), MOST_BLOCKS),
    ],
)  # fmt: skip
def test_a_thread_takes_a_vertex_until_there_are_enough_blocks(vertices, blocks):
    launched = []
    rows = SimpleNamespace(threads=96, functions={"place": lambda *launch: launched.append(launch)})
    packed = SimpleNamespace(vertices=vertices, staging=SimpleNamespace(device="table"))
    PackedRows.over(rows, "place", packed, "more")
    assert launched == [((blocks,), (96,), ("table", *vertices, "more"))]


@pytest.mark.parametrize(
    ("parts", "multiprocessors", "blocks"),
    [
        ([], 4, 1),
        ([(0, 1)], 4, 1),
        ([(0, 64)], 4, 1),
        ([(0, 65)], 4, 2),
        ([(7, 8), (8, 8 + 3 * 64), (200, 202)], 4, 3 * 3),  # as many as the longest part needs, for each
        ([(0, 64 * 999)], 4, 4 * BLOCKS),
        ([(0, 64 * 999)] * 3, 4, 4 * BLOCKS // 3 * 3),
        ([(0, 64 * 999)] * 65, 4, 65),
        ([(0, 1)] * (MOST_AT_ONCE + 2), 4, MOST_AT_ONCE),
    ],
)
def test_kernels_that_count_have_blocks_for_each_subgraph(parts, multiprocessors, blocks):
    call = SimpleNamespace(threads=64, multiprocessors=multiprocessors, arguments={"run": "run", "active": "flags"})
    streamer = SimpleNamespace(arrays={"out_offsets": "offsets"})
    kernel = SimpleNamespace(visits=SimpleNamespace(flags="active"))
    counting = SimpleNamespace(parts=parts, call=call, kernel=kernel, streamer=streamer, ends="ends", found="found")
    grid, arguments = SubgraphCall._counting(counting)
    at_once = max(1, min(len(parts), MOST_AT_ONCE))
    assert grid == (blocks,)
    assert arguments == ("run", "flags", "offsets", "ends", len(parts), blocks // at_once, "found")

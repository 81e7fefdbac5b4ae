"""The order of copies and kernels on the streams of windows: any two that use one buffer are ordered by events.

A model of CUDA's streams notes what happens before what: work of one stream in its order, work behind a wait after
everything that the event was recorded behind, and work queued by the host after everything that the host waited for.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace

import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.contract import Phases
from harness.emulation.arrays import Event, Order, Stream
from harness.lowering.cuda.calls import Call
from harness.lowering.cuda.packed_windows import Unpacking
from harness.lowering.cuda.streamed import Streamer, WindowedCall
from tests.emulation.test_packed_edges import engine_for
from tests.emulation.test_streamed_edges import hubs_and_middle
from tests.engines.problems import ALGORITHMS, program

SUPERSTEPS, WINDOW_MB = 4, 4 * 2500e-6


class Model:
    """Note the work of streams, and what is not ordered.

    ``uses``: of a buffer or of the vertices, all work so far: its group, whether it writes, its stream and number.
    Work of one group may overlap: kernels of windows, which write different vertices or use atomic operations.
    """

    def __init__(self):
        self.clocks, self.events, self.host = defaultdict(dict), {}, {}
        self.uses, self.unordered, self.alive = defaultdict(list), [], []
        self.default, self.group, self.groups = Stream(), None, 0

    @property
    def current(self):
        return Order.streams[-1] if Order.streams else self.default

    def work(self, stream, **uses):
        """Note work that uses some buffers: ``name=(group, writes)``."""
        self.alive.append(stream)
        clock = self.clocks[stream.ptr]
        joined(clock, self.host)
        clock[stream.ptr] = number = clock.get(stream.ptr, 0) + 1
        for name, (group, writes) in uses.items():
            for other, also_writes, place, at in self.uses[name]:
                if (writes or also_writes) and group != other and clock.get(place, 0) < at:
                    self.unordered.append(f"{name}: {group} does not wait for {other}")
            self.uses[name].append((group, writes, stream.ptr, number))

    def another(self, what):
        """Return the name of a new group."""
        self.groups += 1
        return f"{what} {self.groups}"


def joined(clock, other):
    for place, number in other.items():
        clock[place] = max(number, clock.get(place, 0))


@pytest.fixture
def model(emulated, monkeypatch):
    """Return the model, which follows all streams of the emulated device."""
    made, cuda = Model(), sys.modules["cupy"].cuda
    wait, record, synchronize, event_waited = (
        Stream.wait_event, Event.record, Stream.synchronize, Event.synchronize,
    )  # fmt: skip

    def waits(stream, event):
        host = dict(made.host)
        joined(made.clocks[stream.ptr], made.events.get(id(event), {}))
        wait(stream, event)
        made.host = host  # the stream waits, not the host

    def records(event, stream=None):
        stream = stream or made.current
        made.alive += [event, stream]
        made.events[id(event)] = {**made.host}
        joined(made.events[id(event)], made.clocks[stream.ptr])
        record(event, stream)

    def host_waits(stream):
        joined(made.host, made.clocks[stream.ptr])
        synchronize(stream)

    def host_waits_for(event):
        joined(made.host, made.events.get(id(event), {}))
        event_waited(event)

    monkeypatch.setattr(Stream, "wait_event", waits)
    monkeypatch.setattr(Stream, "synchronize", host_waits)
    monkeypatch.setattr(Event, "record", records)
    monkeypatch.setattr(Event, "synchronize", host_waits_for)
    monkeypatch.setattr(cuda, "get_current_stream", lambda: made.current)
    return made


def follow(model, streamer, monkeypatch):
    """Note the copies and kernels of a streamer's windows, and all other kernels of a run."""
    runtime, kernels = sys.modules["cupy"].cuda.runtime, Call.start
    slots = {}  # by the identity of a pointer: pointers to two slots may be equal, because they begin before the slot
    copy, pointers, unpacked, windowed = (
        runtime.memcpyAsync, Streamer.pointers, Unpacking.start, WindowedCall.start,
    )  # fmt: skip
    rooms = streamer.packed.rooms if streamer.packed else []
    buffers = {f"slot {at}": one for at, one in enumerate(streamer.slots)}
    buffers |= {f"room {at}": one for at, one in enumerate(rooms)}

    def buffer_at(address):
        (name,) = (name for name, one in buffers.items() if 0 <= address - one.data.ptr < one.nbytes)
        return name

    def copied(to, source, size, kind, stream):
        model.work(Stream.known[stream], **{buffer_at(to): (model.another("copy"), True)})
        copy(to, source, size, kind, stream)

    def pointed(one, number, *window):
        found = pointers(one, number, *window)
        slots.update(dict.fromkeys(map(id, found.values()), f"slot {number}"))
        model.alive += found.values()
        return found

    def unpacks(one, *given):
        group = model.another("unpacking")
        model.work(model.current, **{buffer_at(one.heads): (group, False), buffer_at(one.ids): (group, True)})
        unpacked(one, *given)

    def started(call):
        group = model.group or model.another("kernel")
        found = {slots.get(id(value)) for name, value in call.arguments.items() if name in streamer.rows}
        model.work(model.current, vertices=(group, True), **dict.fromkeys(found - {None}, (group, False)))
        kernels(call)

    def of_windows(call):
        model.group = model.another("kernels of windows")
        windowed(call)
        model.group = None

    monkeypatch.setattr(runtime, "memcpyAsync", copied)
    monkeypatch.setattr(Streamer, "pointers", pointed)
    monkeypatch.setattr(Unpacking, "start", unpacks)
    monkeypatch.setattr(Call, "start", started)
    monkeypatch.setattr(WindowedCall, "start", of_windows)


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("codes", ["plain", "packed"])
@pytest.mark.parametrize(("way", "name"), [("pull", "pagerank"), ("changes", "sssp"), ("push", "pagerank")])
def test_work_on_one_buffer_is_ordered(way, name, codes, model, emulated, monkeypatch):
    """A kernel waits for the copy to its slot, a copy for the kernels that read the slot before, and kernels of other
    steps for all windows."""
    lists = replace(OnyxCudaEngine.policy, middle_edges=8, middle_share=0)
    monkeypatch.setattr(OnyxCudaEngine, "policy", lists)
    graph = hubs_and_middle()
    engine = engine_for(monkeypatch, way, WINDOW_MB, codes)
    engine.prepare(program(name), graph, 3, emulated, Phases())
    engine.reset(ALGORITHMS[name].inputs(graph, 3))
    follow(model, engine.executor.run_in_progress.launcher.place, monkeypatch)
    engine.run(SUPERSTEPS)
    copies = {name: sum(writes for _, writes, *_ in uses) for name, uses in model.uses.items() if name != "vertices"}
    assert len(copies) >= 6
    assert max(copies.values()) > 1, "slots are used again"
    for name, uses in model.uses.items():
        assert {writes for _, writes, *_ in uses} == ({True} if name == "vertices" else {False, True}), name
    assert len({place for *_, place, _ in model.uses["vertices"]}) > 4, "kernels of windows have streams of their own"
    assert model.unordered == []
    engine.close()

"""Calls of kernels whose first edges are cached on the device (:mod:`harness.lowering.cuda.prefix`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.language import Inputs
from harness.lowering.buffers import Holds
from harness.lowering.cuda.calls import Call, Replay, recorded
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.windows import OFFSETS

if TYPE_CHECKING:
    from harness.lowering.cuda.plan import CudaPlan
    from harness.lowering.graph_store import GraphStore


# Of a multiprocessor, for calls that read the link: half of the blocks of 256 threads that it runs at once. Their reads
# use the whole rate of the link (H100), and blocks of calls for cached edges have room beside them.
LINK_BLOCKS = 4


class Together:
    """Calls for vertices whose edges are cached and for the others, the latter on a stream ``beside`` the current one.

    Both write the results of other vertices, or by atomic operations, as the blocks of one call do. They take the least
    time together if the link is busy from the beginning to the end, so its reads begin first.
    """

    def __init__(self, cached: Call, others: Call, beside: Any) -> None:
        import cupy

        self.cached, self.others, self.beside = cached, with_room(others), beside
        self.begun, self.ended = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def start(self) -> None:
        """Queue both after the work queued so far; the current stream waits for both."""
        import cupy

        current = cupy.cuda.get_current_stream()
        self.begun.record(current)
        self.beside.wait_event(self.begun)
        with self.beside:
            self.others.start()
            self.ended.record(self.beside)
        self.cached.start()
        current.wait_event(self.ended)


def with_room(call: Call) -> Call:
    """Return a call with LINK_BLOCKS blocks for each multiprocessor at most; each then processes more of the work."""
    assert call.launch is not None
    most, grid = LINK_BLOCKS * call.multiprocessors, call.grid
    panels = grid[1] if len(grid) > 1 else 1
    if call.launch.most == "all" or grid[0] * panels <= most:  # a thread processes one item of work, or blocks are few
        return call
    return replace(call, launch=replace(call.launch, blocks=max(1, most // panels)))


class Prefixed:
    """Prepare the calls of a plan with cached edges; it owns the arrays on the device.

    ``counts``: arguments of kernels that count requests, and the array that takes their place for cached edges. Raises
    MemoryError if there is no memory for the arrays.
    """

    def __init__(self, plan: CudaPlan, store: GraphStore, arrays: Mapping[str, Any]) -> None:
        import cupy

        self.prefix, self.store, self.arrays = plan.prefix, store, arrays
        self.rows = dict(plan.prefix.row_bytes)
        self.buffers = {name: plan.named[name] for name in self.rows}
        self.near = {name: cupy.full(plan.prefix.bytes_of(row), 0xA5, np.uint8) for name, row in self.rows.items()}
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.beside = cupy.cuda.Stream(non_blocking=True, priority=-1)  # blocks that read the link begin first
        self.counts: Mapping[str, str] = {}
        self._copied: dict[str, object] = {}

    def refresh(self, inputs: Inputs) -> None:
        """Copy the first edges of arrays that are new or have other inputs than before, and wait for the copies."""
        import cupy

        runtime = cupy.cuda.runtime
        given: dict[str, object] = {}
        for name, buffer in self.buffers.items():
            if name in self.arrays:
                given[name] = inputs.properties.get(buffer.of) if buffer.holds is Holds.PROPERTY else None
        changed = [name for name, one in given.items() if name not in self._copied or self._copied[name] is not one]
        if changed:
            cupy.cuda.Device().synchronize()  # with work that fills or reads the arrays
        for name in changed:
            source, target = int(self.arrays[name].data.ptr), int(self.near[name].data.ptr)
            size = self.prefix.edges * self.rows[name]
            runtime.memcpyAsync(target, source, size, runtime.memcpyHostToDevice, self.stream.ptr)
        self._copied = given
        self.stream.synchronize()

    def begin(self, supersteps: int, *, everything: bool) -> None:
        """Do nothing: edges are not copied during a run."""
        return

    def transferred(self) -> None:
        """Return None: reads in place are not counted."""
        return

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Record the calls, those that read edges as two that run at the same time."""
        found: list[Call | Together] = []
        for call in calls:
            first, *rest = self.parts(call)
            found.append(Together(first, rest[0], self.beside) if rest else first)
        return recorded(found)

    def parts(self, call: Call) -> Iterator[Call]:
        """Yield the calls for vertices with cached edges and for the others."""
        if call.launch is None or (self.near.keys() | self.counts.keys()).isdisjoint(call.arguments):
            yield call
            return
        over, graph = call.launch.over, self.store.graph
        assert isinstance(over, Over)
        offsets = (graph.csc if OFFSETS[over] == "in" else graph.csr).offsets
        first, last = call.bounds
        middle = int(np.searchsorted(offsets, self.prefix.edges, side="right")) - 1  # its edges begin after the cached
        if over.of_edges:
            middle = int(offsets[middle])
        middle = min(max(first, middle), last)
        if first < middle:
            counts = {name: self.arrays[other] for name, other in self.counts.items()}
            yield call.between(first, middle, **self.near, **counts)
        if middle < last or first == last:
            yield call.between(middle, last)

    def close(self) -> None:
        """Release the arrays."""
        self.near.clear()
        self._copied.clear()

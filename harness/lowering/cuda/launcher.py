"""Queue the launches of supersteps on a device, recorded as CUDA graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.device.cuda import blocks_of_multiprocessor
from harness.language.criterion import TEST_EVERY
from harness.lowering.cuda.buffers import exchanged
from harness.lowering.cuda.launches import Launch, turned
from harness.lowering.cuda.ranges import Over

if TYPE_CHECKING:
    from harness.lowering.cuda.plan import CudaPlan
    from harness.lowering.cuda.ranges import WorkRanges


@dataclass(frozen=True)
class Started:
    """A launch with all its arguments."""

    function: Any
    grid: tuple[int, ...]
    threads: int
    arguments: tuple[Any, ...]
    shared: int

    def start(self) -> None:
        """Queue it on the current stream."""
        self.function(self.grid, (self.threads,), self.arguments, shared_mem=self.shared)


class Launcher:
    """Queue the supersteps of a plan whose kernels are loaded.

    The launches of a superstep depend only on its number: on the buffers that have swapped and the side that it
    updates. For each such combination they are recorded once as a CUDA graph, which costs one launch instead of many: a
    superstep with few active vertices takes little longer than its launches.

    ``ranges``: the bounds of the launches' work. ``functions``: the loaded kernels by name. ``arrays``: those on the
    device. ``run``: the state of the run there.
    """

    def __init__(
        self, plan: CudaPlan, ranges: WorkRanges, functions: Mapping[str, Any], arrays: Mapping[str, Any], run: Any,
        multiprocessors: int,
    ) -> None:  # fmt: skip
        self.plan, self.ranges, self.functions, self.arrays = plan, ranges, functions, arrays
        self.run, self.multiprocessors = run, multiprocessors
        self.made: dict[tuple[int, bool], Any] = {}
        self.past: Any = None

    def superstep(self, number: int, past: Any, *, tracked: bool = False) -> None:
        """Queue superstep ``number``, which is recorded in ``past``, on the current stream, not the default one.

        ``tracked``: changes are certain to be tracked.
        """
        if past is not self.past:
            self.forget()
            self.past = past
        period = TEST_EVERY if self.plan.measuring.launches else 2  # a multiple of the sides
        key = (number % period, tracked)
        if key not in self.made:
            self.made[key] = _recorded(self.launches(number, past, tracked=tracked))
        self.made[key].launch()

    def forget(self) -> None:
        """Release what is recorded, and its arrays."""
        self.made.clear()
        self.past = None

    def launches(self, number: int, past: Any, *, tracked: bool = False) -> list[Started]:
        """Return the launches of superstep ``number``, in order."""
        launches, side = self._launches(number), number % len(self.plan.sides)
        swapped = turned(self.plan.launches) if number % 2 else set()
        found = []
        for launch in launches:
            if self.ranges.has_work(launch.over, side) and not (tracked and launch.untracked):
                found.append(self._started(launch, swapped, side))
            swapped = swapped ^ set(launch.swaps)
        end = self.functions["end_of_superstep"]
        return [*found, Started(end, (1,), 1, (self.run, past), 0)]

    def _launches(self, number: int) -> Sequence[Launch]:
        """Return the launches of superstep ``number``, including those that measure movement."""
        criterion, measuring = self.plan.criterion, self.plan.measuring
        ahead = measuring.ahead if criterion and criterion.begins(number) else ()
        behind = measuring.behind if criterion and criterion.ends(number) else ()
        return (*ahead, *self.plan.launches, *behind)

    def _started(self, launch: Launch, swapped: Collection[str], side: int) -> Started:
        plan = self.plan
        first, last = self.ranges.bounds(launch.over, side)
        of_edges = isinstance(launch.over, Over) and launch.over.of_edges
        kind = plan.edge_position if of_edges else np.uint32
        bounds = {"first": kind(first), "last": kind(last), "run": self.run}
        arguments = tuple(
            bounds[name] if name in bounds else self._array(name, swapped) for name in launch.kernel.arguments
        )
        function, shared = self.functions[launch.kernel.name], plan.shared_of(launch.kernel)
        at_once = blocks_of_multiprocessor(function, plan.threads, shared) if launch.most == "resident" else 0
        blocks = launch.blocks_over(last - first, plan.threads, self.multiprocessors, at_once)
        grid = (blocks, launch.kernel.panels) if launch.kernel.panels > 1 else (blocks,)
        return Started(function, grid, plan.threads, arguments, shared)

    def _array(self, name: str, swapped: Collection[str]) -> Any:
        return self.arrays[exchanged(self.plan.parities.get(name, name), swapped, self.plan.twins)]


def _recorded(launches: Sequence[Started]) -> Any:
    """Return a CUDA graph of some launches."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    stream.begin_capture()
    try:
        for launch in launches:
            launch.start()
    except BaseException:
        with contextlib.suppress(Exception):  # the error that ended the recording is reported
            stream.end_capture()
        raise
    return stream.end_capture()

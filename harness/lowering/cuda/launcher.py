"""Queue the launches of supersteps on a device; each combination of launches is prepared once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.device.cuda import blocks_of_multiprocessor
from harness.language.criterion import TEST_EVERY
from harness.lowering.cuda.buffers import exchanged
from harness.lowering.cuda.calls import Call, Replay
from harness.lowering.cuda.launches import Launch, turned
from harness.lowering.cuda.ranges import Over

if TYPE_CHECKING:
    from harness.lowering.cuda.edge_places import Replayer
    from harness.lowering.cuda.plan import CudaPlan
    from harness.lowering.cuda.ranges import WorkRanges


class Launcher:
    """Queue the supersteps of a plan whose kernels are loaded.

    The launches of a superstep depend only on its number: on the buffers that have swapped and the side that it
    updates. For each such combination the place of the graph's edges prepares them once, usually as a CUDA graph, which
    costs one launch instead of many: a superstep with few active vertices takes little longer than its launches.

    ``ranges``: the bounds of the launches' work. ``functions``: the loaded kernels by name. ``arrays``: those on the
    device. ``run``: the state of the run there. ``place``: prepares the calls of a superstep.
    """

    def __init__(
        self, plan: CudaPlan, ranges: WorkRanges, functions: Mapping[str, Any], arrays: Mapping[str, Any], run: Any,
        multiprocessors: int, place: Replayer,
    ) -> None:  # fmt: skip
        self.plan, self.ranges, self.functions, self.arrays = plan, ranges, functions, arrays
        self.run, self.multiprocessors, self.place = run, multiprocessors, place
        self.made: dict[tuple[int, bool], tuple[Replay, int]] = {}
        self.past: Any = None

    def superstep(self, number: int, past: Any, *, omits: bool = False) -> int:
        """Queue superstep ``number``, which is recorded in ``past``, on the current stream, not the default one.

        ``omits``: without the optional launches. Return the number of kernels.
        """
        if past is not self.past:
            self.forget()
            self.past = past
        period = TEST_EVERY if self.plan.measuring.launches else 2  # a multiple of the sides
        key = (number % period, omits)
        if key not in self.made:
            calls = self.calls(number, past, omits=omits)
            self.made[key] = self.place.replay(calls), len(calls)
        replay, kernels = self.made[key]
        replay.launch()
        return kernels

    def forget(self) -> None:
        """Release what is prepared, and its arrays."""
        self.made.clear()
        self.past = None

    def close(self) -> None:
        """Release all memory, that of the place too."""
        self.forget()
        self.place.close()

    def calls(self, number: int, past: Any, *, omits: bool = False) -> list[Call]:
        """Return the calls of superstep ``number``, in order; ``omits``: without the optional launches."""
        launches, side = self._launches(number), number % len(self.plan.sides)
        swapped = turned(self.plan.launches) if number % 2 else set()
        found = []
        for launch in launches:
            if self.ranges.has_work(launch.over, side) and not (omits and launch.optional):
                found.append(self._call(launch, swapped, side))
            swapped = swapped ^ set(launch.swaps)
        end = self.functions["end_of_superstep"]
        return [*found, Call(end, {"run": self.run, "past": past}, threads=1)]

    def _launches(self, number: int) -> Sequence[Launch]:
        """Return the launches of superstep ``number``, including those that measure movement."""
        criterion, measuring = self.plan.criterion, self.plan.measuring
        ahead = measuring.ahead if criterion and criterion.begins(number) else ()
        behind = measuring.behind if criterion and criterion.ends(number) else ()
        return (*ahead, *self.plan.launches, *behind)

    def _call(self, launch: Launch, swapped: Collection[str], side: int) -> Call:
        plan = self.plan
        first, last = self.ranges.bounds(launch.over, side)
        of_edges = isinstance(launch.over, Over) and launch.over.of_edges
        kind = plan.edge_position if of_edges else np.uint32
        bounds = {"first": kind(first), "last": kind(last), "run": self.run}
        arguments = {
            name: bounds[name] if name in bounds else self._array(name, swapped) for name in launch.kernel.arguments
        }
        function, shared = self.functions[launch.kernel.name], plan.shared_of(launch.kernel)
        at_once = blocks_of_multiprocessor(function, plan.threads, shared) if launch.most == "resident" else 0
        return Call(
            function, arguments, plan.threads, shared, launch, (first, last), self.multiprocessors, at_once
        )  # fmt: skip

    def _array(self, name: str, swapped: Collection[str]) -> Any:
        return self.arrays[exchanged(self.plan.parities.get(name, name), swapped, self.plan.ping_pong)]

"""The launches of a superstep: over what, with which arguments."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from harness.device.cuda import blocks_of_multiprocessor
from harness.language.criterion import TEST_EVERY
from harness.lowering.cuda.kernels import CudaKernel

if TYPE_CHECKING:
    from harness.lowering.cuda.engine import CudaEngine

MOST_BLOCKS = 64  # for each multiprocessor; beyond, blocks take several pieces of work
FEW_THREADS = 4096  # for each multiprocessor, of kernels that often have nothing to do, or little
Most: TypeAlias = Literal["few", "some", "resident", "all"]


@dataclass(frozen=True)
class Launch:
    """A kernel of a superstep: what it goes over, the threads that each takes, and the arrays that swap with their
    second buffer after it.

    ``over``: the *vertices* that a superstep updates or the *in arcs* of these, the *sources* that those hear or the
    *arcs* that leave these, *all* vertices, *all arcs*, the *teams* of ``blocks`` blocks of a launch before, or
    pieces of work of the engine's own (:meth:`CudaEngine.transform`).
    ``lanes``: of each. ``blocks``: so many, whatever the work; 0: as the work asks for. ``most``: these are *some* for
    each multiprocessor, MOST_BLOCKS at most, or a *few*, of FEW_THREADS; the *resident* ones that the device runs
    at once, which go over the work side by side, so that what neighbours read is still cached for each other; or *all*
    that the work asks for. ``untracked``: it does nothing where changes are tracked.
    """

    kernel: CudaKernel
    over: str
    lanes: float
    swaps: tuple[str, ...] = ()
    blocks: int = 0
    most: Most = "some"
    untracked: bool = False

    def blocks_over(self, count: int, threads: int, multiprocessors: int, at_once: int) -> int:
        """How many blocks of ``threads`` there are for ``count`` pieces of work, on so many multiprocessors, each of
        which runs ``at_once`` of them at once."""
        wanted = self.blocks or max(1, math.ceil(count * self.lanes / threads))
        if self.blocks or self.most == "all":
            return wanted
        of_each = {"few": FEW_THREADS // threads, "some": MOST_BLOCKS, "resident": at_once}[self.most]
        return min(wanted, multiprocessors * max(1, of_each))


@dataclass(frozen=True)
class Started:
    """A launch with all that it takes."""

    function: Any
    grid: tuple[int, ...]
    threads: int
    arguments: tuple[Any, ...]
    shared: int

    def start(self) -> None:
        """Queue it on the present stream."""
        self.function(self.grid, (self.threads,), self.arguments, shared_mem=self.shared)


def turned(launches: Sequence[Launch]) -> set[str]:
    """The arrays whose buffers have changed places at the end of a superstep: what swaps an odd number of times."""
    found: set[str] = set()
    for launch in launches:
        found ^= set(launch.swaps)
    return found


class Launcher:
    """Queues supersteps of an engine that has its kernels and arrays.

    What a superstep launches depends on its number alone, by the buffers that have changed places and the side that it
    updates. For each of these it is recorded once as a CUDA graph, which costs one launch in the place of many: a
    superstep of few active vertices takes little longer than its launches.
    """

    def __init__(self, engine: CudaEngine) -> None:
        self.engine = engine
        self.twins = engine.twins
        self.made: dict[tuple[int, bool], Any] = {}
        self.past: Any = None

    def superstep(self, number: int, past: Any, *, tracked: bool = False) -> None:
        """Queue superstep ``number``, which is recorded in ``past``, on the present stream, which is not the default
        one; ``tracked``: changes are tracked for sure."""
        if past is not self.past:
            self.forget()
            self.past = past
        period = TEST_EVERY if self.engine.measuring.launches else 2  # a multiple of the sides
        key = (number % period, tracked)
        if key not in self.made:
            self.made[key] = _recorded(self.launches(number, past, tracked=tracked))
        self.made[key].launch()

    def forget(self) -> None:
        """Let go of what is recorded, and of the arrays in it."""
        self.made.clear()
        self.past = None

    def launches(self, number: int, past: Any, *, tracked: bool = False) -> list[Started]:
        """The launches of superstep ``number``, one after another."""
        launches, side = self._launches(number), number % len(self.engine.sides)
        swapped = turned(self.engine.launches) if number % 2 else set()
        found = []
        for launch in launches:
            if self.engine.is_launched(launch, side) and not (tracked and launch.untracked):
                found.append(self._started(launch, swapped, side))
            swapped = swapped ^ set(launch.swaps)
        end = self.engine.functions["end_of_superstep"]
        return [*found, Started(end, (1,), 1, (self.engine.state.array, past), 0)]

    def _launches(self, number: int) -> Sequence[Launch]:
        """Those of superstep ``number``, with what measures movement."""
        criterion, measuring = self.engine.criterion, self.engine.measuring
        ahead = measuring.ahead if criterion and criterion.begins(number) else ()
        behind = measuring.behind if criterion and criterion.ends(number) else ()
        return (*ahead, *self.engine.launches, *behind)

    def _started(self, launch: Launch, swapped: Collection[str], side: int) -> Started:
        engine = self.engine
        first, last = engine.range_of(launch.over, side)
        kind = np.int64 if engine.many_arcs and launch.over.endswith("arcs") else np.uint32
        bounds = {"first": kind(first), "last": kind(last), "run": engine.state.array}
        arguments = tuple(
            bounds[name] if name in bounds else self._array(name, swapped) for name in launch.kernel.arguments
        )
        function, shared = engine.functions[launch.kernel.name], engine.shared_of(launch.kernel)
        at_once = blocks_of_multiprocessor(function, engine.threads, shared) if launch.most == "resident" else 0
        blocks = launch.blocks_over(last - first, engine.threads, engine.multiprocessors, at_once)
        grid = (blocks, launch.kernel.panels) if launch.kernel.panels > 1 else (blocks,)
        return Started(function, grid, engine.threads, arguments, shared)

    def _array(self, name: str, swapped: Collection[str]) -> Any:
        name = self.twins.get(name, name)
        plain = name.removeprefix("next_")
        if plain in swapped:
            name = plain if name.startswith("next_") else f"next_{name}"
        return self.engine.memory.arrays[name]


def _recorded(launches: Sequence[Started]) -> Any:
    """A CUDA graph of some launches."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    stream.begin_capture()
    try:
        for launch in launches:
            launch.start()
    except BaseException:
        with contextlib.suppress(Exception):  # what ended the recording is told
            stream.end_capture()
        raise
    return stream.end_capture()

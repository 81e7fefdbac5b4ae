"""Calls of kernels with all their arguments, and CUDA graphs recorded from them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.ranges import Bounds


@dataclass(frozen=True)
class Call:
    """A call of a kernel.

    ``function``: the loaded kernel. ``arguments``: in the kernel's order, by name. ``shared``: bytes of shared memory
    that the call requests. ``launch``: of the plan; None: the kernel runs in one block. ``bounds``: of the work.
    ``at_once``: blocks that a multiprocessor runs concurrently, if the launch depends on it.
    """

    function: Any
    arguments: Mapping[str, Any]
    threads: int
    shared: int = 0
    launch: Launch | None = None
    bounds: Bounds = (0, 1)
    multiprocessors: int = 1
    at_once: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of blocks, and of panels if there are several."""
        if self.launch is None:
            return (1,)
        first, last = self.bounds
        blocks = self.launch.blocks_over(last - first, self.threads, self.multiprocessors, self.at_once)
        panels = self.launch.kernel.panels
        return (blocks, panels) if panels > 1 else (blocks,)

    def between(self, first: int, last: int, **arrays: Any) -> Self:
        """Return the call for a part of the work, with other ``arrays``; the kernel takes ``first`` and ``last``."""
        position = type(self.arguments["first"])
        changed = {**arrays, "first": position(first), "last": position(last)}
        arguments = {name: changed.get(name, value) for name, value in self.arguments.items()}
        return replace(self, arguments=arguments, bounds=(first, last))

    def start(self) -> None:
        """Queue the call on the current stream."""
        self.function(self.grid, (self.threads,), tuple(self.arguments.values()), shared_mem=self.shared)


class Starts(Protocol):
    """What can be queued on the current stream."""

    def start(self) -> None:
        """Queue it."""


class Replay(Protocol):
    """The calls of a superstep, prepared to be queued any number of times."""

    def launch(self) -> None:
        """Queue all calls in order on the current stream."""


def recorded(calls: Sequence[Starts]) -> Replay:
    """Return a CUDA graph of some calls: one launch instead of many. The current stream must not be the default one."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    stream.begin_capture()
    try:
        for call in calls:
            call.start()
    except BaseException:
        with contextlib.suppress(Exception):  # the error that ended the recording is reported
            stream.end_capture()
        raise
    graph: Replay = stream.end_capture()
    return graph

"""The loop of supersteps on a CUDA device: the order in which they are queued. It can be replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.run_extension import Observer
from harness.lowering.cuda.run_state import Look, RunState

# Supersteps queued between two tests of whether the run has settled, after the first ones, each of which is tested:
# supersteps queued behind the end of a short run would take as long as the run.
LOOK_EVERY = 8


@dataclass
class CudaRun:
    """A run in progress on a device.

    ``stream``: on which a loop queues. ``past``: int64, which the device writes: a row for each superstep, with the
    fields of ``struct Past``. ``observer``: of the plan's extension. ``done``: supersteps. ``launches``: kernels queued
    by the latest call that runs supersteps.
    """

    launcher: Launcher
    state: RunState
    stream: Any
    past: Any
    observer: Observer | None = None
    done: int = 0
    settled: bool = False
    launches: int = 0

    def superstep(self, number: int) -> None:
        """Queue superstep ``number``."""
        omits = self.observer is not None and self.observer.omits
        self.launches += self.launcher.superstep(number, self.past, omits=omits)


class Loop(Protocol):
    """The order in which the supersteps of a run are queued."""

    def __call__(self, run: CudaRun, first: int, wanted: int) -> None:
        """Queue supersteps ``first`` to ``wanted - 1`` on the current stream, which is that of the run.

        Once the run has settled, the remaining ones may be omitted.
        """


def queue_ahead(run: CudaRun, first: int, wanted: int) -> None:
    """Queue supersteps ahead of the device; read whether the run has settled without waiting for the latest ones."""
    looks: list[Look] = []
    for superstep in range(first, wanted):
        run.superstep(superstep)
        queued = superstep - first + 1
        if superstep + 1 < wanted and (queued < LOOK_EVERY or queued % LOOK_EVERY == 0):
            looks.append(run.state.look())
            if len(looks) > 1:
                news = looks.pop(0).fields()
                if news["settled"]:
                    return
                if run.observer:
                    run.observer.update(news, superstep + 1)

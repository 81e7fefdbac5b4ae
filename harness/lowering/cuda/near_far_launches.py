"""How the steps of near-far are launched on a CUDA device: all of them at once, or one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.lowering.cuda.calls import Call, recorded
from harness.lowering.cuda.run_state import pinned

if TYPE_CHECKING:
    from numpy.typing import NDArray

KERNEL = "near_far"  # of a whole run
SPLIT = ("find_best", "split_pile", "end_split")
SINGLE = {"end_split": 2, "end_superstep": 1}  # steps of one thread, and how many of state and parameters they take
FILES = ("barrier.cuh", "near_far.cu")  # of every source, in this order
STEPS = ("begin_pile", "find_best", "split_pile", "end_split", "send_list", "send_parts", "end_superstep")
AHEAD = 8  # supersteps that are launched before the host reads whether the near list is empty; not measured
WORDS = 18  # of the state
BEST, SUPERSTEPS, THRESHOLDS, EDGES, SUPERSTEP = 6, 7, 8, 10, 12  # words of the state


@dataclass(frozen=True)
class Work:
    """What launches of a run need: the kernels, their common arguments, the blocks of a launch and their threads, the
    state of the run and its parameters on the device, and whether some items have so many edges that they are cut into
    pieces."""

    functions: Mapping[str, Any]
    arguments: tuple[Any, ...]
    blocks: int
    threads: int
    state: Any
    parameters: Any
    hubs: bool


@dataclass(frozen=True)
class StepCall(Call):
    """A call with a number of blocks; ``resident``: all of them must be resident, or the driver refuses it."""

    blocks: int = 1
    resident: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of blocks."""
        return (self.blocks,)

    def start(self) -> None:
        """Queue the call on the current stream."""
        arguments = tuple(self.arguments.values())
        self.function(self.grid, (self.threads,), arguments, enable_cooperative_groups=self.resident)


class OneLaunch:
    """A run in one launch of resident blocks, with global barriers between steps.

    ``short_lists``: whether one block sends short lists, without global barriers.
    """

    kernels: ClassVar[tuple[str, ...]] = (KERNEL,)
    files: ClassVar[tuple[str, ...]] = (*FILES, "near_far_run.cu")
    short_lists: ClassVar[bool] = False

    def __init__(self, work: Work) -> None:
        import cupy

        self.work, self.stream = work, cupy.cuda.Stream(non_blocking=True)
        self.words = pinned(WORDS // 2).view(np.uint32)
        arguments = {str(at): one for at, one in enumerate(work.arguments)}
        with self.stream:
            call = StepCall(work.functions[KERNEL], arguments, work.threads, blocks=work.blocks, resident=True)
            self.launch = recorded([call])

    def run(self) -> int:
        """Run until no value waits; return the number of launches."""
        with self.stream:
            self.launch.launch()
            self.work.state.get(out=self.words, blocking=False)
            self.stream.synchronize()
        return 1

    def state(self) -> NDArray[np.uint32]:
        """Return the words of the state after a run, uint32."""
        return self.words


class OneLaunchWithShortLists(OneLaunch):
    """A run in one launch, in which one block sends short lists."""

    short_lists: ClassVar[bool] = True


class LaunchOfEachStep:
    """A run in a launch for each step: the near list sends, the far pile is split. Launches are recorded once."""

    kernels: ClassVar[tuple[str, ...]] = STEPS
    files: ClassVar[tuple[str, ...]] = (*FILES, "near_far_steps.cu")
    short_lists: ClassVar[bool] = False

    def __init__(self, work: Work) -> None:
        import cupy

        self.work, self.stream = work, cupy.cuda.Stream(non_blocking=True)
        superstep = ["send_list", *(["send_parts"] if work.hubs else []), "end_superstep"]
        with self.stream:
            self.begin = recorded([self.call("begin_pile")])
            self.split = recorded([self.call(name) for name in SPLIT])
            self.send = recorded([self.call(name) for name in superstep * AHEAD])
        self.lengths = len(SPLIT), len(superstep) * AHEAD

    def run(self) -> int:
        """Run until no value waits; return the number of launches.

        The host reads after some supersteps whether the near list is empty. More supersteps then do nothing.
        """
        launches, thresholds = 1, 0
        with self.stream:
            self.begin.launch()
            while True:
                self.split.launch()
                launches += self.lengths[0]
                before, (thresholds, listed) = thresholds, self.seen()
                if thresholds == before:
                    return launches
                while listed:
                    self.send.launch()
                    launches += self.lengths[1]
                    _, listed = self.seen()

    def state(self) -> NDArray[np.uint32]:
        """Return the words of the state after a run, uint32."""
        return np.asarray(self.work.state.get())

    def seen(self) -> tuple[int, int]:
        """Return the number of thresholds, and the length of the near list of the next superstep."""
        state = self.work.state.get()
        return int(state[THRESHOLDS]), int(state[state[SUPERSTEP] % 2])

    def call(self, name: str) -> Call:
        """Return the launch of a step; those that end others have one thread."""
        work = self.work
        if name in SINGLE:
            given = (work.state, work.parameters)[: SINGLE[name]]
            return Call(work.functions[name], {str(at): one for at, one in enumerate(given)}, 1)
        arguments = {str(at): one for at, one in enumerate(work.arguments)}
        return StepCall(work.functions[name], arguments, work.threads, blocks=work.blocks)

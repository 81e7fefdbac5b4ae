"""The loops of fused kernels on CUDA devices: one launch runs many supersteps (sec. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api import EngineFailure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.api.cuda import CudaRun

TURNS = 2  # times that the fused kernels are queued before the host tests whether the run has ended


@dataclass(frozen=True)
class FusedLoop:
    """The loop of a bulk-synchronous program: one launch runs all supersteps.

    ``blocks``: the number of blocks of every fused kernel, known once it is loaded.
    """

    blocks: Mapping[str, int]

    def __call__(self, run: CudaRun, first: int, wanted: int) -> None:
        """Queue the supersteps."""
        self.launch(run, self.blocks)

    def launch(self, run: CudaRun, names: Iterable[str]) -> None:
        """Queue fused kernels in order. The driver refuses a kernel whose blocks are not all resident at once."""
        launcher = run.launcher
        arrays = {**launcher.arrays, "run": run.state.array, "past": run.past}
        kernels = {kernel.name: kernel for kernel in launcher.plan.kernels}
        for name in names:
            arguments = tuple(arrays[argument] for argument in kernels[name].arguments)
            grid, block = (self.blocks[name],), (launcher.plan.threads,)
            launcher.functions[name](grid, block, arguments, enable_cooperative_groups=True)
            run.launches += 1


@dataclass(frozen=True)
class AlternatingLoop(FusedLoop):
    """The loop of a program with active vertices, whose fused kernels are queued alternately.

    A kernel ends at once if the direction is not its own. Raises EngineFailure if the kernels make no progress.
    """

    def __call__(self, run: CudaRun, first: int, wanted: int) -> None:
        """Queue the supersteps, and test after every few launches whether the run has ended."""
        done = -1
        while True:
            self.launch(run, TURNS * list(self.blocks))
            found = run.state.fields()
            if found["settled"] or found["superstep"] >= wanted:
                return
            if found["superstep"] == done:
                raise EngineFailure(f"the fused kernels stand still at superstep {done}; run with fusion=none")
            done = found["superstep"]

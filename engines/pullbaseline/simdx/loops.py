"""The loop of fused kernels that alternate on CUDA devices: one launch runs many supersteps (sec. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api import EngineFailure
from harness.api.cuda import PersistentLoop

if TYPE_CHECKING:
    from harness.api.cuda import CudaRun

TURNS = 2  # times that the fused kernels are queued before the host tests whether the run has ended


@dataclass(frozen=True)
class AlternatingLoop(PersistentLoop):
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

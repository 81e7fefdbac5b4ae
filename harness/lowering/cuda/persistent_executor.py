"""The execution of a plan whose kernels run many supersteps each: their blocks, their loop, their work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.language import Inputs
from harness.language.program import IDENTITY, GraphReduce
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.executor import CudaExecutor
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.loop import CudaRun, queue_ahead
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.residency import Residency, residency_of

if TYPE_CHECKING:
    from harness.lowering.cuda.run_extension import Observer


@dataclass(frozen=True)
class PersistentLoop:
    """The loop of persistent kernels, each of which runs supersteps until the run ends.

    ``blocks``: the number of blocks of every such kernel, known once it is loaded. ``calls``: the array of records,
    the arguments and the bytes of shared memory of a launch, by kernel; they are the same in every run.
    """

    blocks: Mapping[str, int]
    calls: dict[str, tuple[Any, tuple[Any, ...], int]] = field(default_factory=dict)

    def __call__(self, run: CudaRun, first: int, wanted: int) -> None:
        """Queue the supersteps."""
        self.launch(run, self.blocks)

    def launch(self, run: CudaRun, names: Iterable[str]) -> None:
        """Queue kernels in order. The driver refuses a kernel whose blocks are not all resident at once."""
        launcher = run.launcher
        threads = (launcher.plan.threads,)
        for name in names:
            if name not in self.calls or self.calls[name][0] is not run.past:
                self.calls[name] = (run.past, *self._call(run, name))
            _, arguments, shared = self.calls[name]
            launcher.functions[name](
                (self.blocks[name],), threads, arguments, shared_mem=shared, enable_cooperative_groups=True
            )
            run.launches += 1

    @staticmethod
    def _call(run: CudaRun, name: str) -> tuple[tuple[Any, ...], int]:
        """Return the arguments of a kernel, and its bytes of shared memory."""
        plan, arrays = run.launcher.plan, run.launcher.arrays
        (kernel,) = (kernel for kernel in plan.kernels if kernel.name == name)
        own = {"run": run.state.array, "past": run.past}
        names = (plan.parities.get(argument, argument) for argument in kernel.arguments)
        arguments = tuple(own[one] if one in own else arrays[one] for one in names)
        return arguments, plan.shared_of(kernel)


class PersistentExecutor(CudaExecutor):
    """Run a plan with persistent kernels; other plans as :class:`CudaExecutor` does.

    ``loop``: the class of the loop of these kernels; by default :class:`PersistentLoop` if one kernel combines the
    steps of a superstep. ``resident``: the residency of each of them, once it is loaded. ``blocks_of``: the number of
    blocks that it is launched with. ``remedy``: what to do if too few blocks are resident, for an error.
    """

    remedy: ClassVar[str] = "run with launches of single supersteps"

    def __init__(self, plan: CudaPlan, store: DeviceStore, loop: type[PersistentLoop] | None = None) -> None:
        self.resident: dict[str, Residency] = {}
        self.blocks_of: dict[str, int] = {}
        chosen = loop or (PersistentLoop if plan.combined else None)
        self.persistent = chosen is not None
        super().__init__(plan, store, chosen(self.blocks_of) if chosen else queue_ahead)

    @property
    def wanted_blocks(self) -> int | None:
        """The blocks that the schedule gives persistent kernels; None: all that are resident."""
        return self.plan.combined.blocks if self.plan.combined else None

    def load(self) -> None:
        """Load the kernels, and find the blocks of persistent ones. Raises EngineFailure if too few are resident."""
        super().load()
        for kernel in self.plan.kernels if self.persistent else ():
            self.blocks_of[kernel.name] = self._blocks(kernel)

    def _blocks(self, kernel: CudaKernel) -> int:
        plan = self.plan
        function, shared = self.functions[kernel.name], plan.shared_of(kernel)
        found = self.resident[kernel.name] = residency_of(function, self.attributes, plan.threads, shared)
        taken = found.take(kernel.name, self.wanted_blocks, self.remedy)
        return min(taken, self._most_blocks() or taken)

    def _most_blocks(self) -> int | None:
        """Return the number of blocks that have a slot for their part of a reduction over the graph; None: no limit."""
        plan = self.plan
        slots = [
            plan.named[f"partial_{stage.into}"].length // plan.layout.stride(stage.value.shape)
            for stage in plan.program.stages
            if isinstance(stage, GraphReduce)
        ]
        return min(slots, default=None)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set the whole state to the start of a run.

        Parts of reductions over the graph that no block writes are set to the identity.
        """
        super().reset(inputs, state)
        if self.plan.combined:
            self._set_bounds()
            self.wait()

    def observer(self, *, everything: bool) -> Observer | None:
        """Return the host's part of the plan's extension; None if one kernel runs whole supersteps, on the device."""
        return None if self.plan.combined else super().observer(everything=everything)

    def _set_bounds(self) -> None:
        """Set the bounds of the work of every step of the kernel that runs whole supersteps."""
        plan, combined = self.plan, self.plan.combined
        assert combined is not None
        for stage in plan.program.stages:
            if isinstance(stage, GraphReduce):
                self.arrays[f"partial_{stage.into}"].fill(IDENTITY[stage.reducer])
        steps = (*combined.steps, *combined.measuring.launches)
        bounds = [self.ranges.bounds(step.over, side) for side in range(len(plan.sides)) for step in steps]
        self.arrays["bounds"][: 2 * len(bounds)].set(np.array(bounds, np.int64).ravel())

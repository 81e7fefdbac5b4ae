"""Call the compiled kernels of a plan with the arrays of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from numpy.typing import NDArray

from harness.contract import EngineFailure, Transfers
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.memory import Memory


class Calls:
    """Compiled kernels, by name, and the arrays that they take. ``workers``: the threads of the next call, at most."""

    def __init__(self, kernels: Mapping[Kernel, Callable[..., int]], memory: Memory, workers: int) -> None:
        self._functions = {kernel.name: function for kernel, function in kernels.items()}
        self._arguments = {kernel.name: itemgetter(*kernel.arguments) for kernel in kernels}
        self._memory, self.workers = memory, workers

    def __call__(self, name: str, parts: int, **overrides: NDArray[Any]) -> None:
        """Run a kernel over ``parts`` parts; ``overrides`` replace arrays of the memory.

        Raises EngineFailure if parts fail.
        """
        arguments = self._arguments[name]({**self._memory.arrays, **overrides})
        failed = self._functions[name](parts, min(parts, self.workers), *arguments)
        if failed:
            raise EngineFailure(f"{failed} parts of kernel {name} failed")

    def transferred(self) -> Transfers | None:
        """Return what has been read of files since the last call; by default None: it is not counted."""
        return None

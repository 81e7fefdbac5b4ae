"""Modules of the emulated device whose launches fail if threads race."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from harness.emulation.arrays import DeviceArray
from harness.emulation.compiler import EmulationError, Kernel, Module


class RacingKernel(Kernel):
    """A kernel of a module compiled with ``racing``; ``library``: the loaded library."""

    def __init__(self, name: str, entry: Any, library: Any) -> None:
        super().__init__(name, entry)
        self._library = library
        library.begin_launch.restype = library.end_launch.restype = ctypes.c_char_p

    def _run(
        self, grid: tuple[int, ...], block: tuple[int], arguments: Sequence[Any], shared_mem: int,
        enable_cooperative_groups: bool,
    ) -> None:  # fmt: skip
        arrays = [argument for argument in arguments if isinstance(argument, DeviceArray)]
        starts = [array.__array_interface__["data"][0] for array in arrays]
        ends = [end for start, array in zip(starts, arrays, strict=True) for end in (start, start + array.nbytes)]
        failure = self._library.begin_launch((ctypes.c_uint64 * len(ends))(*ends), ctypes.c_uint64(len(arrays)))
        if not failure:
            super()._run(grid, block, arguments, shared_mem, enable_cooperative_groups)
            failure = self._library.end_launch()
        if failure:
            raise EmulationError(f"{self.name}: {failure.decode()}")


class RacingModule(Module):
    """The substitute for modules that :func:`harness.emulation.compiler.library` has compiled with ``racing``."""

    def get_function(self, name: str) -> Kernel:
        """Return the kernel with a name. Its launches raise EmulationError if threads race (see races.h)."""
        return RacingKernel(name, getattr(self.library, f"launch_{name}"), self.library)

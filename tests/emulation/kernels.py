"""Small kernels around the functions of a header, compiled for the emulated device; launches fail if threads race."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.emulation.arrays import DeviceArray, allocated
from harness.emulation.compiler import library, unavailable
from harness.lowering.cuda.modules import HEADER, headers
from harness.lowering.cuda.run_extension import RunExtension
from tests.emulation.racing import RacingModule
from tests.engines.device_functions import headers_of_lane_groups

__all__ = ["EMULATED", "Kernels", "headers", "headers_of_lane_groups", "heading"]

# Marks of a module: all rows of its tests run by default, because they take little once its kernels are compiled.
EMULATED = [pytest.mark.skipif(bool(unavailable()), reason=unavailable()), pytest.mark.short_run(rows=10**6)]


def heading(
    *includes: str, lanes: int = 1, width: int = 1, block: int = 64, edge_id: str = "unsigned int",
    extension: RunExtension | None = None,
) -> str:  # fmt: skip
    """Return the beginning of a generated module that includes some headers."""
    return HEADER.format(
        title="a test", lanes=lanes, width=width, block=block, coherent="", groups=2, edge_id=edge_id,
        includes="\n".join(f'#include "{name}"' for name in includes),
        extension=(extension or RunExtension()).declaration,
    )  # fmt: skip


class Kernels:
    """The kernels of a module; ``included``: the text of the headers by name, ``block``: threads of a block."""

    def __init__(self, source: str, included: Mapping[str, str], block: int = 64) -> None:
        self._module, self._block, self._functions = RacingModule(), block, {}
        # The emulator takes the parameters of a kernel on one line only.
        source = re.sub(r"__global__ void \w+\([^()\\]*\)", lambda found: " ".join(found[0].split()), source)
        self._module.load(str(library(source, included, racing=True)).encode())

    def __call__(self, name: str, blocks: int, *arguments: object, shared: int = 0) -> list[NDArray]:
        """Launch a kernel on copies of arrays, and return all arrays as it leaves them.

        An array of the device is passed itself. Numbers are passed as they are: scalars of NumPy. Raises EmulationError
        if threads race.
        """
        given = [
            allocated(one.copy()) if isinstance(one, np.ndarray) and not isinstance(one, DeviceArray) else one
            for one in arguments
        ]
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
        self._functions[name]((blocks,), (self._block,), given, shared_mem=shared)
        return [one.get() for one in given if isinstance(one, DeviceArray)]

"""The emulated device in the place of CuPy."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from harness.emulation.arrays import cupy_of
from harness.emulation.compiler import Module

# Of an H100. They limit the number of blocks. As many run at once as threads allow; registers and shared memory may
# allow fewer.
MULTIPROCESSORS, THREADS_AT_ONCE, REGISTERS = 132, 2048, 65536
ATTRIBUTES = {"MultiProcessorCount": MULTIPROCESSORS, "MaxRegistersPerMultiprocessor": REGISTERS}


@contextmanager
def emulated_cupy(module: type[Module] = Module) -> Iterator[None]:
    """Have this process import substitutes for CuPy and for its access to the driver.

    Functions that import CuPy when they are called use the emulated device while the context lasts. ``module``: loads
    compiled kernels. Nothing else in the process may use CuPy meanwhile.
    """
    driver = types.SimpleNamespace(
        occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: THREADS_AT_ONCE // threads
    )
    api = types.ModuleType("cupy_backends.cuda.api")
    vars(api)["driver"] = driver
    replaced = {"cupy": cupy_of(module), api.__name__: api}
    before = {name: sys.modules.get(name) for name in replaced}
    sys.modules.update(replaced)
    try:
        yield
    finally:
        for name, original in before.items():
            if original is None:
                del sys.modules[name]
            else:
                sys.modules[name] = original

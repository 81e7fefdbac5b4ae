"""Compile a rendered kernel, and run one superstep of the same gather by Numba's kernel or by the C++ kernel."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from engines.onyx.policy import DEFAULT
from engines.onyx.resolve import far_rows
from harness.device.cpu_cache import own_cache_bytes
from harness.facts import DeviceFacts
from harness.graph import Graph
from harness.language import Algorithm, trace
from harness.language.analysis import fold_groups
from harness.language.reference import ReferenceRun
from harness.lowering.cpu.executor import CpuExecutor
from harness.lowering.cpu.setting import CpuSetting
from tests.benchmarks.one_renderer.render import rendered
from tests.benchmarks.workloads import prepared

HERE = Path(__file__).parent
# No standard library is needed; ziglang would build it on first use, which takes a minute.
FLAGS = (
    "-x", "c++", "-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-nostdlib", "-nostdinc++",
    "-fno-exceptions", "-fno-rtti",
)  # fmt: skip
BEFORE = 2  # supersteps before the measured one, so that values are no longer those of the inputs


def wheel_compiler() -> list[str] | None:
    """Return the command of the C++ compiler in the wheel ``ziglang``; None if it is not installed."""
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def compiled(
    source: str, folder: Path, compiler: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """Return the shared library of a source, written to ``folder``. Raises CalledProcessError if the compiler fails.

    ``environment``: variables of the compiler beside those of this process.
    """
    (folder / "kernel.cpp").write_text(source)
    command = [*compiler, *FLAGS, f"-I{HERE}", "-o", "kernel.so", "kernel.cpp"]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **environment})
    return folder / "kernel.so"


class Superstep:
    """The gather of one superstep with full propagation, on one thread, from the same arrays for both kernels.

    The kernels write the property ``written``, and change nothing that they read.
    """

    def __init__(self, algorithm: Algorithm, graph: Graph, features: int) -> None:
        graph = algorithm.prepare_graph(graph)
        self.algorithm, self.graph, self.features = algorithm, graph, features
        device = DeviceFacts("cpu", 1, cache_bytes=own_cache_bytes())
        self.setting = CpuSetting.of(
            trace(algorithm), graph.facts, features, device, lambda it: fold_groups(it, "pull"),
            direction="pull",
        )  # fmt: skip
        (self.group,) = (group for group in self.setting.tracking.groups if group.edge_stages)
        (self.written,) = self.setting.program.outputs
        self.name = self.setting.tracking.name(self.group)
        far = far_rows(graph.facts, features, device, DEFAULT)
        self.rendered = rendered(self.setting, self.group, DEFAULT.prefetched_edges if far else 0)
        engine = prepared("onyx", algorithm, graph, features, 1, direction="pull", change_driven=False)
        self.executor: CpuExecutor = engine.prepared.executor  # type: ignore[attr-defined]
        self.executor.run(BEFORE)
        *before, _ = self.executor.steps  # the gather is the last step of a superstep
        for step in before:
            step()

    def load(self, library: Path) -> Callable[[], None]:
        """Return the C++ kernel in a library, bound to the engine's arrays."""
        arrays, kernel = self.executor.memory.arrays, self.rendered.kernel
        edges, vertices = self.graph.num_edges, self.graph.num_vertices
        sizes = {"first": ctypes.c_uint(0), "last": ctypes.c_uint(vertices), "edges": ctypes.c_longlong(edges)}
        kept = {**arrays, "run": np.zeros(1, np.int64)}  # each pointer keeps its array alive
        pointers = {name: array.ctypes.data_as(ctypes.c_void_p) for name, array in kept.items()}
        known = {**pointers, **sizes}
        function = getattr(ctypes.CDLL(str(library)), kernel.name)
        function.restype = None
        return partial(function, *(known[name] for name in kernel.arguments))

    def numba(self) -> None:
        """Run the kernel of the CPU engine."""
        run = self.executor.run_state
        run.call(self.name, len(run.bounds) - 1, bounds=run.bounds)

    def result(self) -> NDArray[np.generic]:
        """Return what the last kernel wrote, and overwrite it with NaN."""
        array = self.executor.memory.arrays[f"next_{self.written}"]
        shape = self.setting.program.properties[self.written].shape
        values = self.setting.layout.unpack(array, shape)
        array[:] = np.nan
        return values

    def expected(self) -> NDArray[np.float64]:
        """Return the result of the same superstep in float64, from the same inputs."""
        reference = ReferenceRun(trace(self.algorithm), self.graph, self.features)
        reference.reset(self.algorithm.inputs(self.graph, self.features))
        for _ in range(BEFORE + 1):
            reference.superstep()
        return reference.values(self.written)

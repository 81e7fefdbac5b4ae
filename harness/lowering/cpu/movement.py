"""Measuring on the CPU whether a run meets its program's criterion (:mod:`harness.language.criterion`).

The kernel knows nothing of the program, so that it is compiled once for all of them. It is called in every
``TEST_EVERY``-th superstep only; no other kernel does anything for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.criterion import Criterion
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.module_source import compiled

if TYPE_CHECKING:
    from harness.lowering.cpu.engine import CpuEngine

SOURCE = """
@njit(nogil=True, error_model="numpy")
def _movement_part(t, worker, bounds, before, now, stride, width, tolerance, relative, found):
    first, second = np.zeros(width, np.float32), np.zeros(width, np.float32)
    found[t, :] = 0.0
    for begin in range(bounds[t], bounds[t + 1], 256):  # float32 within 256 vertices, which a compiler takes in vectors
        first[:] = 0.0
        second[:] = 0.0
        for v in range(begin, min(begin + 256, bounds[t + 1])):
            old, new = before[v * stride : v * stride + width], now[v * stride : v * stride + width]
            if tolerance < 0.0:
                for f in range(width):
                    first[f] += float32(0.0) if new[f] == old[f] else abs(new[f] - old[f])
                    second[f] += abs(new[f])
            else:
                for f in range(width):
                    distance = float32(0.0) if new[f] == old[f] else abs(new[f] - old[f])
                    margin = tolerance * abs(new[f]) if relative else tolerance
                    first[f] += float32(0.0) if distance <= margin else float32(1.0)
        for f in range(width):
            found[t, f] += first[f]
            found[t, width + f] += second[f]


@njit(
    int64(int64, int64, int64[::1], float32[::1], float32[::1], int64, int64, float32, boolean, float64[:, ::1]),
    nogil=True, cache=True, no_cfunc_wrapper=True, error_model="numpy",
)
def run_movement(parts, threads, bounds, before, now, stride, width, tolerance, relative, found):
    return launch(
        _movement_part, parts, threads, (bounds, before, now, stride, width, tolerance, relative, found)
    )
"""
SUMS = -1.0  # in the place of a tolerance: distances and magnitudes are added up


class Movement:
    """The movement of an engine's run, from a superstep that begins a measurement to the one that ends it."""

    def __init__(self, engine: CpuEngine, criterion: Criterion) -> None:
        self.engine, self.criterion = engine, criterion
        self.run: Callable[..., int] = compiled(Kernel("movement", SOURCE, (), 0), 1)
        self.bounds = np.linspace(0, engine.graph.num_vertices, engine.threads + 1).astype(np.int64)
        for name in criterion.properties:
            engine.memory.like(f"before_{name}", name)

    def note(self) -> None:
        """Keep what the measured properties are, if the present superstep begins a measurement."""
        if not self.criterion.begins(self.engine.superstep_index):
            return
        arrays = self.engine.memory.arrays
        for name in self.criterion.properties:
            np.copyto(arrays[f"before_{name}"], arrays[f"vertex_{name}"])

    def within(self) -> bool:
        """Whether the present superstep ends a measurement that meets the criterion."""
        return self.criterion.ends(self.engine.superstep_index) and all(map(self._still, self.criterion.properties))

    def _still(self, name: str) -> bool:
        engine, criterion = self.engine, self.criterion
        layout, shape = engine.layout, engine.program.properties[name].shape
        width = layout.dims(shape)[0] if shape else 1
        found = np.empty((engine.threads, 2 * width))
        arrays, sums = engine.memory.arrays, criterion.norm == "sum"
        parameters = arrays["parameters"]
        tolerance = parameters[list(engine.program.parameters).index(criterion.tolerance)]
        self.run(
            engine.threads, engine.threads, self.bounds, arrays[f"before_{name}"], arrays[f"vertex_{name}"],
            layout.stride(shape), width, SUMS if sums else tolerance, criterion.relative, found,
        )  # fmt: skip
        moved: NDArray[Any] = found[:, :width].sum(axis=0)
        limit = float(tolerance) * found[:, width:].sum(axis=0) if sums else 0.0
        return bool((moved <= limit).all())

"""Measure on the CPU whether a run meets its program's criterion (:mod:`harness.language.criterion`).

The kernel does not depend on the program, so it is compiled once for all programs. It is called only in every
``TEST_EVERY``-th superstep; no other kernel does work for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.criterion import Criterion
from harness.language.program import Program
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.module_source import compiled
from harness.lowering.layout import Layout

ROUNDING = 2.0**-22  # of a value: two units in its last place, by which rounding may move it at a fixed point
SOURCE = f"""
@njit(nogil=True, error_model="numpy")
def _movement_part(t, worker, bounds, before, now, stride, width, tolerance, relative, share, found):
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
                    whole = tolerance * abs(new[f]) if relative else tolerance
                    margin = min(whole, max(share * whole, float32({ROUNDING}) * abs(new[f])))
                    first[f] += float32(0.0) if distance <= margin else float32(1.0)
        for f in range(width):
            found[t, f] += first[f]
            found[t, width + f] += second[f]


@njit(
    int64(
        int64, int64, int64[::1], float32[::1], float32[::1], int64, int64, float32, boolean, float32, float64[:, ::1]
    ),
    nogil=True, cache=True, no_cfunc_wrapper=True, error_model="numpy",
)
def run_movement(parts, threads, bounds, before, now, stride, width, tolerance, relative, share, found):
    return launch(
        _movement_part, parts, threads, (bounds, before, now, stride, width, tolerance, relative, share, found)
    )
"""
MOVEMENT = Kernel("movement", SOURCE, (), 0)
SUMS = -1.0  # replaces a tolerance: distances and magnitudes are summed


class Movement:
    """Movement of a run, from a superstep that begins a measurement to the one that ends it.

    ``share``: of the program's tolerance, that the movement must be within. In the maximum norm, a movement within the
    tolerance and within ``ROUNDING`` of the entry meets any share: rounding alone moves entries by that much.
    ``counted``: a superstep that counts the vertices that move by more than the tolerance need not be measured.
    """

    def __init__(
        self, criterion: Criterion, program: Program, layout: Layout, memory: Memory, num_vertices: int, threads: int,
        share: float = 1.0,
    ) -> None:  # fmt: skip
        self.share = share
        self.criterion, self.program, self.layout, self.memory = criterion, program, layout, memory
        self.threads = threads
        self.counted = criterion.sides == 1 and criterion.countable(program)
        self.run: Callable[..., int] = compiled(MOVEMENT)
        self.bounds = np.linspace(0, num_vertices, threads + 1).astype(np.int64)

    def note(self, superstep: int) -> None:
        """Copy the measured properties if ``superstep`` begins a measurement."""
        if not self.criterion.begins(superstep):
            return
        arrays = self.memory.arrays
        for name in self.criterion.properties:
            np.copyto(arrays[f"before_{name}"], arrays[f"vertex_{name}"])

    def within(self, superstep: int) -> bool:
        """Return whether ``superstep`` ends a measurement that meets the criterion."""
        return self.criterion.ends(superstep) and all(map(self._still, self.criterion.properties))

    def _still(self, name: str) -> bool:
        layout, criterion, shape = self.layout, self.criterion, self.program.properties[name].shape
        width = layout.dims(shape)[0] if shape else 1
        found = np.empty((self.threads, 2 * width))
        arrays, sums = self.memory.arrays, criterion.norm == "sum"
        parameters = arrays["parameters"]
        tolerance = np.float32(parameters[list(self.program.parameters).index(criterion.tolerance)])
        self.run(
            self.threads, self.threads, self.bounds, arrays[f"before_{name}"], arrays[f"vertex_{name}"],
            layout.stride(shape), width, SUMS if sums else tolerance, criterion.relative, np.float32(self.share),
            found,
        )  # fmt: skip
        moved: NDArray[Any] = found[:, :width].sum(axis=0)
        limit = self.share * float(tolerance) * found[:, width:].sum(axis=0) if sums else 0.0
        return bool((moved <= limit).all())

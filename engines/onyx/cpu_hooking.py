"""Hooking with compiled loops on threads of the CPU (:mod:`engines.onyx.hooking`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np
from numpy.typing import NDArray

from engines.onyx import hooking_kernels as kernels
from engines.onyx.hooking import FIRST_EDGES, LEAST_EDGES, SAMPLES, HookingEngine
from harness.api import Device, Graph, Inputs, Phases, Program
from harness.api.cpu import owner_bounds


class HookingCpuEngine(HookingEngine):
    """Hooking with compiled loops on threads of Numba's pool."""

    def bytes_needed(self, graph: Graph, row_bytes: int) -> int:
        """Return the bytes of the forest, and of the values."""
        return (4 + 2 * row_bytes) * graph.num_vertices

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Cut the vertices into ranges of about as many edges, and compile the loops."""
        super().prepare(program, graph, features, device, phases)
        self.close()
        parts = max(1, min(device.threads, graph.num_edges // LEAST_EDGES))
        self._threads = min(parts, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        with phases("transform"):
            self._ends = owner_bounds(graph.csr.offsets, parts)
        self._parent = np.empty(graph.num_vertices, np.int32)
        with phases("compile"):
            self._values = np.zeros((graph.num_vertices, 1), np.float32)
            self.solve()

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the values to those before a run."""
        values = self.start(inputs, state)
        self._shape = values.shape
        self._values = np.array(values.reshape(len(values), math.prod(values.shape[1:])))

    def solve(self) -> None:
        """Find the trees, and the value of each."""
        csr, parent = self.graph.csr, self._parent
        kernels.find_trees(self._threads, self._ends, csr.offsets, csr.neighbours, parent, FIRST_EDGES, SAMPLES)
        kernels.fill(self._threads, self._ends, parent, self._values, self.flood.least)

    def answer(self) -> NDArray[np.float32]:
        """Return a copy of the values."""
        return self._values.reshape(self._shape).copy()

    def close(self) -> None:
        """Release the arrays."""
        for name in ("_parent", "_values"):
            self.__dict__.pop(name, None)

"""Hooking with compiled loops on threads of the CPU (:mod:`engines.onyx.hooking`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.onyx import hooking_kernels as kernels
from engines.onyx.hooking import FIRST_EDGES, LEAST_EDGES, SAMPLES, HookingEngine
from harness.api import Device, Graph, Inputs, Phases, Program
from harness.api.cpu import owner_bounds


class HookingCpuEngine(HookingEngine):
    """Hooking with compiled loops on threads."""

    _pool: ThreadPoolExecutor | None = None

    def bytes_needed(self, graph: Graph, row_bytes: int) -> int:
        """Return the bytes of the forest, and of the values."""
        return (4 + 2 * row_bytes) * graph.num_vertices

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Cut the vertices into ranges of about as many edges, and compile the loops."""
        super().prepare(program, graph, features, device, phases)
        self.close()
        threads = max(1, min(device.threads, graph.num_edges // LEAST_EDGES))
        with phases("transform"):
            bounds = owner_bounds(graph.csr.offsets, threads).tolist()
            self._ranges = list(itertools.pairwise(bounds))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._parent = np.empty(graph.num_vertices, np.int32)
        with phases("compile"):
            self._values = np.zeros((graph.num_vertices, 1), np.float32)
            self._hook()
            self._fill()

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the values to those before a run."""
        values = self.start(inputs, state)
        self._shape = values.shape
        self._values = np.array(values.reshape(len(values), math.prod(values.shape[1:])))

    def solve(self) -> None:
        """Find the trees, and the value of each."""
        self._hook()
        self._fill()

    def _hook(self) -> None:
        csr, parent = self.graph.csr, self._parent
        edges = csr.offsets, csr.neighbours, parent, FIRST_EDGES
        self._each(kernels.begin, parent)
        self._each(kernels.hook_first, *edges)
        self._each(kernels.flatten, parent)
        self._each(kernels.hook_others, *edges, most_frequent(parent))
        self._each(kernels.flatten, parent)

    def _fill(self) -> None:
        kernels.collect(self._parent, self._values, self.flood.least)
        self._each(kernels.spread, self._parent, self._values)

    def _each(self, loop: Callable[..., None], *arguments: Any) -> None:
        """Run a loop for all ranges of vertices, each on a thread."""
        if self._pool is None:
            for part in self._ranges:
                loop(*arguments, *part)
        else:
            for done in [self._pool.submit(loop, *arguments, *part) for part in self._ranges]:
                done.result()

    def answer(self) -> NDArray[np.float32]:
        """Return a copy of the values."""
        return self._values.reshape(self._shape).copy()

    def close(self) -> None:
        """Stop the threads and release the arrays."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for name in ("_parent", "_values"):
            self.__dict__.pop(name, None)


def most_frequent(root: NDArray[np.int32]) -> int:
    """Return the root that most of a sample of the vertices have; -1 without vertices."""
    sample = root[:: max(1, len(root) // SAMPLES)]
    roots, counts = np.unique(sample, return_counts=True)
    return int(roots[counts.argmax()]) if len(roots) else -1

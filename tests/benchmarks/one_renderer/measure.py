"""The operations of a superstep, the error of its result, and times of kernels that take turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from harness.language.expressions import Expression, walk
from harness.lowering.tracking import composed_writes
from tests.benchmarks.one_renderer.superstep import Superstep

SAMPLE_SECONDS = 0.02  # shorter supersteps are repeated within a sample


def operations(superstep: Superstep) -> int:
    """Return the float32 additions, multiplications and divisions of a superstep, as the program states them.

    A normalisation of n features counts 2 n, a solution of n unknowns n^3 / 3 + 2 n^2.
    """
    setting, group = superstep.setting, superstep.group
    messages = [stage.message for stage in group.edge_stages]
    writes = [value for _, value in composed_writes(setting.program, group, setting.tracking.live(group.stages))]
    count = partial(_of_tree, lambda node: math.prod(setting.layout.dims(node.shape)))
    reductions = sum(math.prod(setting.layout.dims(message.shape)) for message in messages)
    return superstep.graph.num_edges * (count(messages) + reductions) + superstep.graph.num_vertices * count(writes)


def _of_tree(size: Callable[[Expression], int], values: Sequence[Expression]) -> int:
    found = 0
    for node in walk(*values):
        n = size(node)
        if node.dtype == "float" and node.op in ("add", "sub", "mul", "div", "outer"):
            found += n
        elif node.op == "normalize":
            found += 2 * n
        elif node.op == "solve_spd":
            found += n**3 // 3 + 2 * n * n
    return found


def rounds(works: Sequence[Callable[[], object]], count: int) -> list[list[float]]:
    """Return the processor seconds of every work in every round; every other round runs them in reverse."""
    start = time.thread_time()
    works[0]()
    repeats = max(1, int(SAMPLE_SECONDS / (time.thread_time() - start)))
    table = []
    for i in range(count):
        row = [0.0] * len(works)
        for j in range(len(works))[:: 1 if i % 2 else -1]:
            start = time.thread_time()
            for _ in range(repeats):
                works[j]()
            row[j] = (time.thread_time() - start) / repeats
        table.append(row)
    return table


def error(found: NDArray[np.generic], expected: NDArray[np.float64]) -> float:
    """Return the largest error, relative to the largest entry of the answer."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())

"""Buffers of a plan: what each array beside the graph holds, its length and the value that a run begins with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.language.program import Property
from harness.lowering.cpu.flags import BLOCK
from harness.lowering.layout import Layout, aligned_zeros

DType: TypeAlias = Literal["float32", "bool", "int64"]


class Holds(Enum):
    """What a buffer holds.

    *vertex*, *graph*, *csr*, *csc*: current values of a property, of edges in one of the two orders. *second*: the
    second buffer of a property. *sent*: values last propagated to a group. *before*: values before a measured
    superstep. *changes*: sums of changes that an accumulator has not received yet. *partial*: partial results.
    *work*: counts, scratch, parameters.

    Flags, by vertex on two levels: *stale* vertices are to be recomputed; *active* sources are to propagate; *flags*
    are others. *kept*: one byte a vertex, whose accumulators of a previous superstep are valid. *marks*: one byte an
    edge.
    """

    VERTEX = "vertex"
    GRAPH = "graph"
    CSR = "csr"
    CSC = "csc"
    SECOND = "second"
    SENT = "sent"
    BEFORE = "before"
    CHANGES = "changes"
    PARTIAL = "partial"
    WORK = "work"
    STALE = "stale"
    ACTIVE = "active"
    FLAGS = "flags"
    KEPT = "kept"
    MARKS = "marks"

    @property
    def two_levels(self) -> bool:
        """Whether the buffer holds flags on two levels (:mod:`harness.lowering.cpu.flags`)."""
        return self in (Holds.STALE, Holds.ACTIVE, Holds.FLAGS)


@dataclass(frozen=True)
class Buffer:
    """An array of a run.

    ``name``: as kernels take it. ``of``: the property or the group of stages to which it belongs. ``length``: elements.
    ``start``: the value that all elements have when a run begins; None: a reset computes the values, or no kernel reads
    them before they are written.
    """

    name: str
    holds: Holds
    of: str
    dtype: DType
    length: int
    start: bool | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the array, with the second level of flags."""
        blocks = -(-self.length // BLOCK) if self.holds.two_levels else 0
        return self.length * np.dtype(self.dtype).itemsize + blocks

    def allocated(self) -> NDArray[np.generic]:
        """Return a new array of zeros that starts on a cache line."""
        return aligned_zeros(self.length, self.dtype)


def values_of(name: str, holds: Holds, prop: Property, rows: int, layout: Layout) -> Buffer:
    """Return a buffer of ``rows`` values of a property."""
    dtype: DType = "bool" if prop.dtype == "bool" else "float32"
    return Buffer(name, holds, prop.name, dtype, rows * layout.stride(prop.shape))

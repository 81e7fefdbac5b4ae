"""Buffers of a plan on any device: what each array of a run holds, its length, its dtype and its first value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

import numpy as np

from harness.facts import GraphFacts
from harness.language.program import Property
from harness.lowering.layout import Layout


class Holds(Enum):
    """The content of a buffer; the value describes it."""

    STRUCTURE = "offsets, rows or neighbours of the graph"
    TABLE = "tables that the engine computes once from the graph"
    PARAMETERS = "run-time parameters of the program"
    PROPERTY = "values of a property"
    SECOND = "the second buffer of an array"
    SENT = "values of a property that were last propagated to a group"
    DIRTY = "flags of vertices, or rows, that a group has to recompute"
    ACTIVE = "flags of vertices whose movement a group has not received yet"
    FRESH = "flags of vertices whose new values are in the second buffer"
    ROWS = "flags of sources with edges that moved since they were propagated"
    MOVED = "flags of edges that moved since they were propagated"
    FAR = "flags of edges whose new values are in the second buffer"
    KEPT = "flags of vertices whose accumulators of the previous superstep are valid"
    CHANGED = "flag of a graph value that changed"
    LEAST = "the least of an input's values, for each feature"
    GREATEST = "the greatest of an input's values, for each feature"
    FLIPS = "number of times that two buffers have swapped"
    WORK = "intermediate values of kernels"


class Order(Enum):
    """The order in which the values of a property are stored; the value is the prefix of its arrays."""

    VERTEX = "vertex"
    CSR = "csr"
    CSC = "csc"
    GRAPH = "graph"

    def array(self, name: str) -> str:
        """Return the name of the array of a property in this order."""
        return f"{self.value}_{name}"

    def rows(self, facts: GraphFacts) -> int:
        """Return the number of values of a property: one per vertex, per edge, or one for the graph."""
        match self:
            case Order.VERTEX:
                return facts.num_vertices
            case Order.GRAPH:
                return 1
        return facts.num_edges


ORDERS = {"vertex": (Order.VERTEX,), "edge": (Order.CSR, Order.CSC), "graph": (Order.GRAPH,)}


def second(array: str) -> str:
    """Return the name of the second buffer of an array."""
    return f"next_{array}"


@dataclass(frozen=True)
class Buffer:
    """An array of a run, under the name by which kernels take it: ``rows`` rows of ``stride`` values.

    ``of``: the property, group, graph value or array that it belongs to. ``order``: of a property. ``start``: the
    number with which every run fills it; None: a run begins with the values of a property, or with undetermined values.
    """

    name: str
    holds: Holds
    of: str = ""
    dtype: str = "float32"
    rows: int = 1
    stride: int = 1
    order: Order | None = None
    start: float | None = None

    @classmethod
    def of_values(cls, name: str, holds: Holds, prop: Property, rows: int, layout: Layout, **more: Any) -> Self:
        """Return a buffer for ``rows`` values of a property; ``more``: other fields."""
        dtype = "bool" if prop.dtype == "bool" else "float32"
        return cls(name, holds, prop.name, dtype, rows, layout.stride(prop.shape), **more)

    @classmethod
    def of_property(cls, prop: Property, order: Order, facts: GraphFacts, layout: Layout, **more: Any) -> Self:
        """Return the buffer of a property's values in an order; ``more``: other fields."""
        name, rows = order.array(prop.name), order.rows(facts)
        return cls.of_values(name, Holds.PROPERTY, prop, rows, layout, order=order, **more)

    @property
    def length(self) -> int:
        """The number of values, including padding."""
        return self.rows * self.stride

    @property
    def kind(self) -> type[np.generic]:
        """The dtype of NumPy."""
        return np.dtype(self.dtype).type

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.length * np.dtype(self.dtype).itemsize

"""The arrays of a graph on the CPU, shared by all executors that run on it."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from numpy.typing import NDArray

from harness.graph import Graph
from harness.lowering.cpu.tables import Table

Made = TypeVar("Made")


class Place(Enum):
    """Where the arrays of a graph are while a program runs."""

    RESIDENT = "resident"
    MAPPED = "mapped"
    MANAGED = "managed"
    STREAMED = "streamed"
    SHARDED = "sharded"


class GraphStore:
    """One graph on one device: its structure, and the tables computed from it. Executors share a store.

    Raises NotImplementedError for a place other than *resident*.
    """

    def __init__(self, graph: Graph, place: Place = Place.RESIDENT) -> None:
        if place is not Place.RESIDENT:
            raise NotImplementedError(f"place={place.value}: graphs on the CPU are resident; other places are planned")
        self.graph, self.place = graph, place
        self._tables: dict[Table[Any], Any] = {}

    def structure(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of CSR and CSC as kernels take them."""
        graph = self.graph
        return {
            "in_offsets": graph.csc.offsets,
            "in_neighbours": graph.csc.neighbours,
            "out_offsets": graph.csr.offsets,
            "out_neighbours": graph.csr.neighbours,
        }

    def table(self, table: Table[Made]) -> Made:
        """Return a table, computed at the first request."""
        if table not in self._tables:
            self._tables[table] = table.of(self.graph)
        made: Made = self._tables[table]
        return made

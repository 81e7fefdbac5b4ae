"""The arrays of a graph on a device, shared by all executors that run on it, and the place where they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from harness.facts import GraphFacts
from harness.graph import Graph

Array = NDArray[Any]
Made = TypeVar("Made")


class Place(Enum):
    """Where the arrays of a graph are while a program runs.

    *resident*: in the memory of the device. The others are planned: *mapped* and *managed* memory of the host, arrays
    *streamed* to the device in windows, and arrays *sharded* over several devices.
    """

    RESIDENT = "resident"
    MAPPED = "mapped"
    MANAGED = "managed"
    STREAMED = "streamed"
    SHARDED = "sharded"


class Structure(Enum):
    """The arrays of CSR (*out*) and CSC (*in*); the value is the name by which kernels take the array."""

    IN_OFFSETS = "in_offsets"
    IN_NEIGHBOURS = "in_neighbours"
    OUT_OFFSETS = "out_offsets"
    OUT_NEIGHBOURS = "out_neighbours"


class Table(ABC, Generic[Made]):
    """Something computed from a graph's arrays once.

    A table is a frozen description without arrays, so that a plan can contain it. Equal tables give equal results.
    """

    @abstractmethod
    def of(self, graph: Graph) -> Made:
        """Compute the table."""

    @abstractmethod
    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the table's arrays, at most; arrays of the graph itself are not counted."""

    def named(self, made: Made) -> dict[str, Array]:
        """Return the arrays that kernels take, by name."""
        return {}


class GraphStore:
    """One graph in the memory of the host: its structure, and the tables computed from it. Executors share a store.

    Raises NotImplementedError for a place other than *resident*.
    """

    def __init__(self, graph: Graph, place: Place = Place.RESIDENT) -> None:
        if place is not Place.RESIDENT:
            raise NotImplementedError(f"place={place.value} is planned; graphs are resident: give place=resident")
        self.graph, self.place = graph, place
        self._tables: dict[Table[Any], Any] = {}

    def structure(self, part: Structure) -> Array:
        """Return an array of CSR or CSC: offsets int64[V + 1], or neighbours [E]."""
        match part:
            case Structure.IN_OFFSETS:
                return self.graph.csc.offsets
            case Structure.IN_NEIGHBOURS:
                return self.graph.csc.neighbours
            case Structure.OUT_OFFSETS:
                return self.graph.csr.offsets
            case Structure.OUT_NEIGHBOURS:
                return self.graph.csr.neighbours

    def table(self, table: Table[Made]) -> Made:
        """Return a table, computed at the first request."""
        if table not in self._tables:
            self._tables[table] = table.of(self.graph)
        made: Made = self._tables[table]
        return made

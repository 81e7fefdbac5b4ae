"""The arrays of a graph on a device, shared by all executors that run on it, and the place where they are.

This module has the store of the CPU, whose arrays are those of the graph itself;
:mod:`harness.lowering.cuda.device_store` has the one of CUDA devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from harness.edge_places import Place
from harness.facts import GraphFacts
from harness.graph import Graph

Array = NDArray[Any]
Made = TypeVar("Made")


class Structure(Enum):
    """The arrays of CSR (*out*) and CSC (*in*); the value is the name by which kernels take the array."""

    IN_OFFSETS = "in_offsets"
    IN_NEIGHBOURS = "in_neighbours"
    OUT_OFFSETS = "out_offsets"
    OUT_NEIGHBOURS = "out_neighbours"

    @property
    def of_edges(self) -> bool:
        """True if the array has an element for every edge."""
        return self in (Structure.IN_NEIGHBOURS, Structure.OUT_NEIGHBOURS)


class Table(ABC, Generic[Made]):
    """Something computed from a graph's arrays once.

    A table is a frozen description without arrays, so that a plan can contain it. Equal tables give equal results.
    ``of_edges``: its arrays have an element for every edge.
    """

    of_edges: ClassVar[bool] = False

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
    """One graph on one device: its structure, and the tables computed from it. Executors share a store.

    ``device``: the index of the device among those of its kind. ``advice``: to the driver, for managed edges.
    ``packed``: ids of streamed edges are packed (:mod:`harness.lowering.packed_ids`). Raises NotImplementedError for a
    place that is not built.
    """

    _stores: ClassVar[WeakValueDictionary[tuple[type, int, Place, int, str, bool], GraphStore]] = WeakValueDictionary()

    def __init__(
        self, graph: Graph, place: Place = Place.RESIDENT, device: int = 0, advice: str = "", *, packed: bool = False
    ) -> None:
        built = [one.value for one in Place if one in self.places()]
        if place.value not in built:
            raise NotImplementedError(f"place={place.value} is planned; give one that is built: {', '.join(built)}")
        self.graph, self.place, self.device, self.advice, self.packed = graph, place, device, advice, packed
        self._tables: dict[Table[Any], Any] = {}

    @classmethod
    def of(
        cls, graph: Graph, place: Place = Place.RESIDENT, device: int = 0, advice: str = "", *, packed: bool = False
    ) -> Self:
        """Return the store of a graph on a device: the one that some executor still uses, or a new one.

        A store and its arrays exist as long as something refers to it. Raises NotImplementedError as the class does.
        """
        key = (
            cls,
            id(graph),
            place,
            device,
            advice,
            packed,
        )  # a store refers to its graph, whose id is unique meanwhile
        found = cls._stores.get(key)
        if not isinstance(found, cls):
            found = cls._stores[key] = cls(graph, place, device, advice, packed=packed)
        return found

    @classmethod
    def places(cls) -> Collection[Place]:
        """Return the places that are built."""
        return (Place.RESIDENT,)

    def structure(self, part: Structure) -> Array:
        """Return an array of CSR or CSC: offsets int64[V + 1], or neighbours [E]."""
        match part:
            case Structure.IN_OFFSETS:
                return self.graph.in_offsets
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

"""The arrays of a graph in the memory of the host, or in files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from harness.edge_places import Place
from harness.graph import Graph
from harness.lowering.buffers import Order
from harness.lowering.cpu.edge_places import PLACES, PackedEdges
from harness.lowering.graph_store import Array, GraphStore, Structure, Table


class HostStore(GraphStore):
    """One graph on the CPU. ``edges``: the place of the arrays with a row for every edge."""

    def __init__(
        self, graph: Graph, place: Place = Place.RESIDENT, device: int = 0, advice: str = "", *, packed: bool = False
    ) -> None:
        super().__init__(graph, place, device, advice, packed=packed)
        self.edges = PackedEdges() if packed else PLACES[place]()
        self._placed: dict[object, Array] = {}

    @classmethod
    def places(cls) -> Collection[Place]:
        """Return the places that are built."""
        return PLACES

    def structure(self, part: Structure) -> Array:
        """Return an array of CSR or CSC as kernels take it. Raises CacheError, EngineFailure."""
        if not part.of_edges:
            return super().structure(part)
        if part not in self._placed:
            order = Order.CSC if part is Structure.IN_NEIGHBOURS else Order.CSR
            self._placed[part] = self.edges.placed_ids(super().structure(part), order)
        return self._placed[part]

    def named(self, table: Table[Any]) -> dict[str, Array]:
        """Return the arrays of a table as kernels take them. Raises CacheError, EngineFailure."""
        made = table.named(self.table(table))
        if not table.of_edges:
            return made
        for name, values in made.items():
            if (table, name) not in self._placed:
                self._placed[table, name] = self.edges.placed(values, Order.CSR)
        return {name: self._placed[table, name] for name in made}

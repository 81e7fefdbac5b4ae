"""The tables of the CUDA kernels. Edges are named by their positions in the CSC, in which the device stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.lonestar.cpu_locks import FirstList, HubColumns
from engines.lonestar.orders import Batches, WaveTable, batches_of
from engines.lonestar.schedule import LonestarSchedule
from harness.api import Graph, GraphFacts
from harness.api.cuda import Table, places

Array = NDArray[Any]


@dataclass(frozen=True)
class InTheCsc:
    """Edges in an order, as positions in the CSC, with their ends; ``batches``: in positions of the CSR."""

    batches: Batches
    edges: Array
    sources: Array
    destinations: Array


@dataclass(frozen=True)
class CudaBatches(Table[InTheCsc]):
    """The batches of an offline schedule that has every option filled in."""

    schedule: LonestarSchedule

    def of(self, graph: Graph) -> InTheCsc:
        """Return the batches."""
        found = batches_of(graph, self.schedule)
        return InTheCsc(
            found, places(graph)[found.edges], graph.csr.row_of_edge[found.edges], graph.csr.neighbours[found.edges]
        )

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the order, the ends, and the bounds of units and batches, at most."""
        return 20 * graph.num_edges + 16

    def named(self, made: InTheCsc) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        arrays = {
            "order_edges": made.edges, "order_sources": made.sources, "order_destinations": made.destinations,
            "batches": made.batches.batches,
        }  # fmt: skip
        return arrays if made.batches.units is None else {**arrays, "units": made.batches.units}


@dataclass(frozen=True)
class CudaFirstList(Table[Array]):
    """All edges in the order of the first pass, [E]."""

    first: FirstList

    def of(self, graph: Graph) -> Array:
        """Return a random order, or that of the CSR."""
        return places(graph)[self.first.of(graph)]

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return 8 * graph.num_edges

    def named(self, made: Array) -> dict[str, Array]:
        """Return the list as kernels take it."""
        return {"first_list": made}


@dataclass(frozen=True)
class CudaListedEnds(Table[tuple[Array, Array]]):
    """Both ends of all edges in the order of the first pass."""

    listed: CudaFirstList

    def of(self, graph: Graph) -> tuple[Array, Array]:
        """Return the sources and the destinations, [E]."""
        edges = self.listed.first.of(graph)
        return graph.csr.row_of_edge[edges], graph.csr.neighbours[edges]

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of both arrays."""
        return 8 * graph.num_edges

    def named(self, made: tuple[Array, Array]) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        return {"listed_sources": made[0], "listed_destinations": made[1]}


@dataclass(frozen=True)
class CudaHubs(Table[Array]):
    """The columns that owners take."""

    hubs: HubColumns

    def of(self, graph: Graph) -> Array:
        """Return the vertices, those of the most edges first."""
        return self.hubs.of(graph)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return self.hubs.nbytes(graph)

    def named(self, made: Array) -> dict[str, Array]:
        """Return the list as kernels take it."""
        return {"hubs": made}


@dataclass(frozen=True)
class CudaWave(Table[dict[str, Array]]):
    """The blocks of a wavefront."""

    wave: WaveTable

    def of(self, graph: Graph) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        made = self.wave.of(graph)
        return {
            "order_edges": places(graph)[made.edges], "order_sources": made.sources,
            "order_destinations": made.destinations, "wave_bounds": made.bounds, "visits": made.visits,
        }  # fmt: skip

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the order, the ends, the bounds and the visits, at most."""
        return self.wave.nbytes(graph)

    def named(self, made: dict[str, Array]) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        return made


def edges_of_degrees(counts: tuple[tuple[int, int], ...]) -> float:
    """Return the sum of squared shares of edges: the chance that two random edges have a vertex of a side in common."""
    degrees, vertices = np.array(counts, np.float64).reshape(-1, 2).T
    edges = float((degrees * vertices).sum())
    return float((degrees**2 * vertices).sum() / edges**2) if edges else 0.0

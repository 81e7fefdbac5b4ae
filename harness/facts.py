"""Facts about a graph and a device that an engine resolves its schedule from: numbers only, no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class GraphFacts:
    """The size of a graph and a summary of its degrees.

    ``num_edges`` counts stored (directed) edges. ``max_in_degree`` is 0 for a graph without edges.
    """

    num_vertices: int
    num_edges: int
    max_in_degree: int

    @property
    def average_degree(self) -> float:
        """Stored edges per vertex; 0 for a graph without vertices."""
        return self.num_edges / max(1, self.num_vertices)


@dataclass(frozen=True)
class DeviceFacts:
    """The kind of device that a schedule is resolved for."""

    kind: Literal["cpu", "cuda"]

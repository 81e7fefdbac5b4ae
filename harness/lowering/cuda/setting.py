"""The setting that all parts of planning share on a CUDA device, with the mapping to lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.ranges import Bounds
from harness.lowering.setting import Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class CudaSetting(Setting):
    """The setting that all kernels of a plan share on a CUDA device.

    ``lane_group``: the lanes that share a vertex or an edge. ``block``: threads of a block on which the mapping is
    based. ``coherent``: other multiprocessors write rows during a kernel that reads them. ``flipped``: arrays whose two
    buffers the device swaps, by the name of the count of swaps.
    """

    layout: DeviceLayout
    lane_group: LaneGroupShape
    block: int
    coherent: bool = False
    flipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[Bounds, ...]:
        """The vertices of every side that supersteps update in turn."""
        count = self.facts.num_vertices
        if not self.alternates or self.facts.bipartite is None:
            return ((0, count),)
        left = self.facts.bipartite[0]
        return (0, left), (left, count)

    @property
    def many_edges(self) -> bool:
        """Whether positions among the edges take 64 bits."""
        return self.facts.num_edges >= 1 << 31

"""The plan of a program on a CUDA device: a value that support, explanation, memory model and execution read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.contract import Direction
from harness.edge_places import Place
from harness.facts import GraphFacts
from harness.language.criterion import Criterion
from harness.language.program import EdgeReduce, EdgeUpdate, Program
from harness.lowering.buffers import Holds
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.movement import Measuring
from harness.lowering.cuda.prefix import Prefix
from harness.lowering.cuda.ranges import Bounds, WorkRanges
from harness.lowering.cuda.run_extension import RunExtension
from harness.lowering.cuda.windows import Windows
from harness.lowering.graph_store import GraphStore, Structure, Table
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.tracking import Tracking


@dataclass(frozen=True)
class Thresholds:
    """When a run changes how it works. Shares are of the edges.

    ``dense``: share from which a frontier processes everything. ``rebuild``: share from which rebuilding kept sums is
    no more work than updating them.
    """

    dense: float = 0.0
    rebuild: float = 0.0


@dataclass(frozen=True)
class Combined:
    """The launches whose work one persistent kernel does: the ``steps`` of a superstep, and those that measure.

    ``blocks``: of the kernel's grid; None: as many as are resident.
    """

    steps: tuple[Launch, ...]
    measuring: Measuring
    blocks: int | None = None


@dataclass(frozen=True)
class CudaPlan:
    """How an engine runs a program on a CUDA device, made from facts without a device and without a graph's arrays.

    ``schedule``: with every option filled in. ``fingerprint``: of the lowered program. ``groups``: the names of the
    stages of each kernel. ``launches``: of a superstep, in order. ``measuring``: launches that measure movement.
    ``combined``: the work of a kernel that runs whole supersteps. ``extension``: what the engine adds to runs.
    ``place``: of the edge arrays. ``windows``: those of streamed ones.
    ``prefix``: the cached ones of mapped ones. ``advice``: to the driver, for managed ones. ``buffers``: sorted by
    name. ``templates``: the folder of the headers that ``source`` includes. ``threads``: of a block. Plans that compare
    equal run equally; ``program`` and ``tracking``, which have no equality, are determined by the other fields.
    """

    schedule: Any
    fingerprint: str
    groups: tuple[tuple[str, ...], ...]
    facts: GraphFacts
    layout: DeviceLayout
    lane_group: LaneGroupShape
    threads: int
    direction: Direction
    change_driven: bool
    launches: tuple[Launch, ...]
    measuring: Measuring
    combined: Combined | None
    place: Place
    windows: Windows
    prefix: Prefix
    advice: str
    buffers: tuple[CudaBuffer, ...]
    sides: tuple[Bounds, ...]
    many_edges: bool
    thresholds: Thresholds
    extension: RunExtension
    accumulators: KeptAccumulators
    criterion: Criterion | None
    templates: Path
    source: str
    program: Program = field(compare=False, repr=False)
    tracking: Tracking = field(compare=False, repr=False)

    @cached_property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """The kernels, each once."""
        launches = (*self.launches, *self.measuring.launches)
        return tuple({launch.kernel.name: launch.kernel for launch in launches}.values())

    @cached_property
    def named(self) -> Mapping[str, CudaBuffer]:
        """The buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def ping_pong(self) -> Mapping[str, str]:
        """The buffers that swap, both ways."""
        return {buffer.name: buffer.partner for buffer in self.buffers if buffer.partner}

    @cached_property
    def parities(self) -> Mapping[str, str]:
        """The buffers by the arguments of kernels that take both and select one by the count of swaps."""
        pairs = [(buffer.name, buffer.partner) for buffer in self.buffers if buffer.flips]
        return {f"{parity}_{one}": name for one, other in pairs for parity, name in (("even", one), ("odd", other))}

    @property
    def bytes_needed(self) -> int:
        """The device memory of the buffers, of the windows of streamed edges and of cached edges, in bytes."""
        edges = self.windows.nbytes + self.prefix.nbytes - sum(one.nbytes for one in self._on_host)
        return sum(buffer.nbytes for buffer in self.buffers) + edges

    @property
    def host_bytes(self) -> int:
        """The page-locked host memory of the buffers and of the windows of streamed edges, in bytes.

        Of packed ids it is the most that they may take.
        """
        plain = sum(one.nbytes for one in self._on_host if one.name not in self.windows.packed)
        return plain + self.windows.packed_bytes + self.windows.host_bytes

    @property
    def _on_host(self) -> Sequence[CudaBuffer]:
        on_host = self.place in (Place.MAPPED, Place.STREAMED)
        return [buffer for buffer in self.buffers if on_host and buffer.of_edges]

    @cached_property
    def edge_bytes(self) -> int:
        """The bytes of an edge in the arrays that a kernel reads; of the kernel with most, if they differ."""
        rows = {one.name: one.stride * np.dtype(one.dtype).itemsize for one in self.buffers if one.of_edges}
        return max((sum(rows.get(name, 0) for name in kernel.arguments) for kernel in self.kernels), default=0)

    @property
    def edge_position(self) -> type[np.generic]:
        """The dtype of a position among the edges."""
        return np.int64 if self.many_edges else np.uint32

    @property
    def adds_per_visit(self) -> int:
        """The atomic additions of one float32 for every visited edge, at least.

        A push adds every message of a sum. It compares minima and maxima first, and updates edges without additions.
        """
        stages = [stage for stage in self.program.stages if isinstance(stage, (EdgeReduce, EdgeUpdate))]
        summed = [stage for stage in stages if isinstance(stage, EdgeReduce) and stage.reducer == "sum"]
        if self.direction != "push" or not stages or len(summed) < len(stages):
            return 0
        return min(int(np.prod(self.layout.dims(stage.message.shape), dtype=np.int64)) for stage in summed)

    @property
    def modelled(self) -> tuple[Launch, ...]:
        """The launches of a superstep; work that one kernel combines is listed separately."""
        return self.combined.steps if self.combined else self.launches

    def shared_of(self, kernel: CudaKernel) -> int:
        """Return the shared memory that a launch of a kernel requests, in bytes."""
        return shared_bytes(self.lane_group, kernel.tile_floats, self.threads) + 4 * kernel.thread_floats * self.threads

    @cached_property
    def tables(self) -> tuple[Table[Any], ...]:
        """The engine's tables, each once."""
        sources = [buffer.source for buffer in self.buffers if buffer.holds is Holds.TABLE]
        return tuple(dict.fromkeys(one for one in sources if one is not None and not isinstance(one, Structure)))

    def work_ranges(self, store: GraphStore) -> WorkRanges:
        """Return the bounds of the launches' work on the graph of a store."""
        return WorkRanges(store, self.sides)


def shared_bytes(lane_group: LaneGroupShape, floats: int, block: int) -> int:
    """Return the shared memory of a block of ``block`` threads whose lane groups need ``floats`` each, in bytes."""
    return 0 if lane_group.lanes == 1 else 4 * floats * (block // 32) * lane_group.per_warp

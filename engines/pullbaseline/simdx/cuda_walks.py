"""The in-edge of a listed vertex that each thread processes at each step, for the memory transaction model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import THREADS, Load, Mapped, Step, arc_range, neighbours_of, repeated

if TYPE_CHECKING:
    from harness.api.cuda import Work

WARP = 32
LANE = np.arange(WARP)


def compute(work: Work) -> Iterator[Step]:
    """Yield the steps with a thread, a warp or a block per vertex; the threads of a vertex take its in-edges in
    turn."""
    size = {"Thread": 1, "Warp": WARP, "Block": work.block}[work.captured["worker"]]
    listed = work.tables[work.captured["vertices"]].astype(np.int64)
    graph, count = work.graph, work.last - work.first
    owners = max(1, WARP // size)  # of a warp; a block's warps are steps of one unit
    ends = np.append(np.arange(work.first, work.last, owners), work.last)
    degrees = np.concatenate([[0], np.cumsum(graph.in_degrees[listed[work.first : work.last]])])
    units = work.picked(np.diff(degrees[ends - work.first]))
    units = repeated(units, "warp", np.int64(0), np.int64(max(1, size // WARP)))
    member = (WARP * units["warp"] + LANE) % size
    i = work.first + units["unit"] * owners + LANE // min(size, WARP)
    lanes = units.where(i < work.first + count).having(i=i, member=member)
    v = listed[np.where(lanes.active, i, 0)]
    lanes = lanes.having(v=v, next=v + 1)
    offsets = Load("in_offsets", "next", work.arc), Load("in_offsets", "v", work.arc)
    yield Step(lanes, (Load(work.captured["vertices"], "i"), *offsets), ("vertex",))
    begin, end = arc_range(graph.csc.offsets, lanes, "v")
    edges = repeated(lanes, "e", begin + lanes["member"], end, size)
    edges = edges.having(u=neighbours_of(graph.csc.neighbours, edges))
    yield Step(edges, (Load("in_neighbours", "e"),), ("edge",))
    yield Step(lanes.where(lanes["member"] == 0), blocks=("store",))


MAPPINGS = (
    Mapped(
        compute,
        (
            "for (Id i = first + {worker}::number(); i < last; i += {same}::all()) {",
            "const Id v = {vertices}[i];",
            "for (Arc e = in_offsets[v] + {member}::member(); e < end; e += {by}::SIZE) {",
        ),
        (
            "static __device__ Id number() { return thread_of_grid(); }",
            "static __device__ Id number() { return thread_of_grid() / 32; }",
            "static __device__ Id number() { return blockIdx.x; }",
        ),
    ),
    *THREADS,
)

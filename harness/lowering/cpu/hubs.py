"""Push into hubs: messages to a vertex with very many in-edges are summed in runs.

A push adds the messages of a vertex one by one to a float32 in memory. The sum of n equal terms has a relative error of
about n / 2^25. If accumulators are kept, a change far below the precision of a hub's sum is lost entirely. A pull sums
in runs, in registers. Here an owner of destinations does the same in memory: the accumulators of its hubs are *held*,
and their rows start at zero; after every ``RUN`` edges of a hub its row is *flushed* into a row of sums of runs; at the
end, the held values and the sums *join*. All other vertices are pushed into as usual, and no message is added twice.
"""

# mypy: allow-untyped-decorators
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from harness.facts import GraphFacts
from harness.graph import Graph
from harness.graph.file_maps import taken_from
from harness.language.program import EdgeReduce
from harness.lowering.buffers import Holds
from harness.lowering.cpu.batches import flagged_batches
from harness.lowering.cpu.flags import every_vertex
from harness.lowering.cpu.kernels import KernelBuilder
from harness.lowering.cpu.partition import owner_bounds
from harness.lowering.cpu.plan import PlanDraft
from harness.lowering.cpu.reduction_loops import RUN
from harness.lowering.cpu.tables import INT64
from harness.lowering.graph_store import Array, Table

HUB = 2 * RUN  # in-edges of a vertex that is summed in runs; below it, float32 is off by at most 8e-6 of the sum

PUSH = """
    @part
    for h in range(hub_bounds[t], hub_bounds[t + 1]):
        hub = hubs[h]
        @hold
    start = run_starts[t]
    for run in range(run_bounds[t], run_bounds[t + 1]):
        {loop}
        start = run_ends[run]
        h = run_hubs[run]
        if h >= 0:
            hub = hubs[h]
            @flush
    for h in range(hub_bounds[t], hub_bounds[t + 1]):
        hub = hubs[h]
        @join
"""
HUB_ARGUMENTS = tuple(
    (name, "i64") for name in ("hubs", "hub_bounds", "run_bounds", "run_starts", "run_ends", "run_hubs")
)


def push_template(item: str, body: str, *, flags: str = "", ahead: Sequence[str] = ()) -> str:
    """Return the template of a push kernel.

    ``body`` sends what the source (frontier entry, virtual node) ``item`` sends to the owner of part ``t``. It must
    contain a block ``@edge`` in which messages are accumulated. ``flags``: of the sources that send; without them all
    do. ``ahead``: rounds of prefetches before the body (:func:`flagged_batches`).
    """
    if flags:
        span = {"first": "start", "last": "run_ends[run]"}
        loop = flagged_batches(item, flags, body, ahead, **span, depth=8, take=False)
    else:
        loop = every_vertex(item, body, first="start", last="run_ends[run]", depth=8)
    return PUSH.format(loop=loop)


@dataclass(frozen=True)
class HubRuns:
    """The hubs of every owner and the ends of their runs.

    ``hubs`` int64[H]: vertices, ascending. ``hub_bounds`` int64[owners + 1]: those of each owner. An owner processes
    its runs ``run_bounds[t] .. run_bounds[t + 1]``: run r is the sources before ``ends[r]``, after which hub number
    ``run_hubs[r]`` is flushed. The last run of an owner ends at the number of vertices and flushes no hub (-1).
    """

    hubs: NDArray[np.int64]
    hub_bounds: NDArray[np.int64]
    run_bounds: NDArray[np.int64]
    ends: NDArray[np.int64]
    run_hubs: NDArray[np.int64]

    def between(self, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        """Return the arguments of a push from the sources ``first .. last``."""
        owners = len(self.hub_bounds) - 1
        return {"run_starts": np.full(owners, first, np.int64), "run_ends": np.clip(self.ends, first, last)}


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _count_runs(offsets: Array, neighbours: Array, number_of: Array, before: Array, met: Array, ends: Array) -> None:
    """Set the ends of the runs of all hubs in one pass over the edges; ``number_of``: a hub's number, int32[V], or -1.

    ``before``: the runs of the hubs before each. ``met``: zeros, for the edges into each hub so far.
    """
    for u in range(len(offsets) - 1):
        for e in range(offsets[u], offsets[u + 1]):
            hub = number_of[neighbours[e]]
            if hub >= 0:
                met[hub] += 1
                if met[hub] % RUN == 0:
                    ends[before[hub] + met[hub] // RUN - 1] = u + 1


def hub_runs(graph: Graph, owners: NDArray[np.int64]) -> HubRuns:
    """Return the hubs of a graph whose destinations are owned in ranges ``owners`` (int64[owners + 1])."""
    in_degrees = graph.in_degrees
    hubs = np.flatnonzero(in_degrees > HUB).astype(np.int64)
    full = in_degrees[hubs] // RUN  # runs of RUN edges
    number = np.repeat(np.arange(len(hubs)), full)
    before = np.cumsum(full) - full  # runs of the hubs before
    if "csc" in graph.__dict__:
        within = np.arange(len(number)) - before[number]
        places = graph.csc.offsets[hubs[number]] + (within + 1) * RUN - 1
        ends = taken_from(graph.csc.neighbours, places).astype(np.int64) + 1
    else:
        ends, number_of = np.zeros(len(number), np.int64), np.full(graph.num_vertices, -1, np.int32)
        number_of[hubs] = np.arange(len(hubs))
        if len(hubs):
            _count_runs(graph.csr.offsets, graph.csr.neighbours, number_of, before, np.zeros(len(hubs), np.int64), ends)
    owner = np.searchsorted(owners, hubs[number], side="right") - 1
    last = np.arange(len(owners) - 1)
    ends = np.concatenate([ends, np.full(len(last), graph.num_vertices)])
    number, owner = np.concatenate([number, np.full(len(last), -1)]), np.concatenate([owner, last])
    order = np.lexsort((number < 0, ends, owner))  # an owner's last run sorts after all others
    bounds = np.searchsorted(owner[order], np.arange(len(owners)))
    return HubRuns(hubs, np.searchsorted(hubs, owners), bounds, ends[order], number[order])


@dataclass(frozen=True)
class Hubs(Table[HubRuns]):
    """The hubs and runs of a graph with this many owners of about equal in-edges."""

    owners: int

    def of(self, graph: Graph) -> HubRuns:
        """Return hubs and runs."""
        return hub_runs(graph, owner_bounds(graph.in_offsets, self.owners))

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of all arrays."""
        hubs, runs = hub_count(graph), sum(degree // RUN * count for degree, count in _hub_degrees(graph))
        return INT64 * (hubs + 2 * (self.owners + 1) + 2 * (runs + self.owners))

    def named(self, made: HubRuns) -> dict[str, Array]:
        """Return the arrays that are the same for every range of sources, as kernels take them."""
        return {name: getattr(made, name) for name in ("hubs", "hub_bounds", "run_bounds", "run_hubs")}


def _hub_degrees(graph: GraphFacts) -> list[tuple[int, int]]:
    return [(degree, count) for degree, count in graph.in_degrees.counts if degree > HUB]


def hub_count(graph: GraphFacts) -> int:
    """Return the number of hubs."""
    return graph.in_degrees.between(HUB + 1)


def sum_hubs_in_runs(
    draft: PlanDraft, builder: KernelBuilder, stages: Sequence[EdgeReduce], *, prefix: str = "vertex_"
) -> None:
    """Fill the blocks ``hold``, ``flush`` and ``join`` for the sums among ``stages``; add their arrays to the plan.

    ``prefix``: messages are pushed into the array ``prefix + property`` of each sum.
    """
    for stage in stages:
        if stage.reducer != "sum":
            continue
        into, message, array = stage.into, stage.message, f"{prefix}{stage.into}"
        floats = hub_count(draft.setting.facts) * builder.layout.stride(message.shape)
        for kind in ("held", "runs"):
            draft.array(f"{kind}_{into}", Holds.WORK, into, "float32", floats)
        zero = builder.start_accumulator(f"{into}_zero", message, "sum", "part")
        for space, block, index, kept_in in (
            ("whole", "hold", "hub", prefix), ("run", "flush", "hub", prefix),
            ("held", "join", "h", "held_"), ("runs", "join", "h", "runs_"),
        ):  # fmt: skip
            builder.bind(space, block, index, kept_in)
        whole, held, runs = (builder.accumulator(space, into, message) for space in ("whole", "held", "runs"))
        builder.store(f"held_{into}", "h", whole, builder.lower(whole), "hold")
        builder.store(f"runs_{into}", "h", message, zero, "hold")
        builder.store(array, "hub", message, zero, "hold")
        builder.accumulate_in_memory(f"runs_{into}", "h", builder.accumulator("run", into, message), "sum", "flush")
        builder.store(array, "hub", message, zero, "flush")
        for part in (held, runs):
            builder.accumulate_in_memory(array, "hub", part, "sum", "join")

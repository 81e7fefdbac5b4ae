"""The distribution of a traversal's work over warps, declared beside the traversal itself.

An engine gives a :class:`Mapping` for every traversal: the lines of CUDA C++ that it describes, and a function that
enumerates the steps of some of its warps. If a kernel, or a header, no longer has these lines, the description is
outdated and refused. What the generated statements in a step read and write is already known
(:mod:`harness.lowering.cuda.accesses`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.lowering.buffers import Holds
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.layout import TeamShape
from harness.lowering.edge_order import places
from harness.transactions import WARP, Lanes, Load, Step, repeated
from harness.transactions.lanes import drawn, warps

if TYPE_CHECKING:
    from harness.graph import Graph

LANE = np.arange(WARP)
INDEXED = re.compile(r"\b(\w+)\[\w+\]")


class MappingError(RuntimeError):
    """A declaration does not fit a kernel: it describes lines that no longer exist."""


class UndeclaredMapping(MappingError):
    """No declared mapping describes a kernel."""


@dataclass
class Work:
    """The work of a launch: vertices, edges or pieces ``first`` .. ``last`` - 1, by ``blocks`` of ``block`` threads.

    ``busy_blocks``: those with anything to do, known when the walk is done. ``captured``: the values of ``{names}`` in
    the declared lines for this kernel. ``tables``: the engine's own arrays of the graph. ``arc``: bytes of a position
    among the edges. ``most``: approximate maximum number of edges to sample.
    """

    kernel: CudaKernel
    graph: Graph
    team: TeamShape
    block: int
    blocks: int
    first: int
    last: int
    captured: Mapping[str, str]
    tables: Mapping[str, NDArray[Any]]
    arc: int
    most: int
    holds: Mapping[str, Holds]
    busy_blocks: float = field(default=float("inf"))
    looked: float = field(default=0.0)
    whole: float = field(default=0.0)

    @property
    def team_number(self) -> NDArray[np.int64]:
        """Return the number of every lane's team; ``team.teams`` or more for left-over lanes."""
        return LANE // self.team.lanes

    def number(self, name: str) -> int:
        """Return a captured number."""
        return int(self.captured[name])

    def picked(self, work: NDArray[np.int64]) -> Lanes:
        """Sample the ``len(work)`` warps (or blocks), those with much ``work`` more often.

        Samples are weighted so that sums over them estimate sums over all. All are returned if the work is little.
        """
        ends = np.cumsum(np.maximum(work, 1))
        total = int(ends[-1]) if len(ends) else 0
        most = len(work) if total <= self.most else max(1, self.most * len(work) // total)
        if most == len(work):
            units, weights = np.arange(most), np.ones(most)
        else:
            places, times = drawn(total, most)
            units, hits = np.unique(np.searchsorted(ends, places, side="right"), return_counts=True)
            weights = hits * times / np.maximum(work[units], 1)
        self.looked, self.whole = self.looked + len(units), self.whole + len(work)
        return warps(units, weights)

    def uniform(self, units: int) -> Lanes:
        """Sample ``units`` warps with a step each."""
        self.busy_blocks = -(-units // (self.block // WARP))
        return self.picked(np.full(units, WARP))

    def everyone(self) -> Lanes:
        """Return a step for each warp of the grid."""
        return warps(np.zeros(1, np.int64), np.array([self.blocks * self.block / WARP]))

    def one_of_each_block(self) -> Lanes:
        """Return a step of one thread for each block that has anything to do."""
        lanes = warps(np.zeros(1, np.int64), np.array([min(self.blocks, self.busy_blocks)]))
        return lanes.where(LANE == 0)

    def flags(self, index: str) -> tuple[Load, ...]:
        """Return the loads of the vertex flags that the kernel's test for wanted vertices reads."""
        tests = re.findall(r"\[&\]\(Id \w\) \{ return ([^;]*); \}", self.kernel.source)
        # a superstep over everything ends the test there
        names = {name for test in tests if not test.startswith("dense") for name in INDEXED.findall(test)}
        flags = sorted(name for name in names if name in self.holds and self.holds[name].flags_vertices)
        return tuple(Load(name, index, 1) for name in flags)


Walk = Callable[[Work], Iterator[Step]]


@dataclass(frozen=True)
class Mapped:
    """A declared mapping. ``kernel``: lines of the kernel that it describes, ``headers``: lines of the headers; in both
    ``{name}`` stands for any text without commas and brackets.
    """

    walk: Walk
    kernel: tuple[str, ...]
    headers: tuple[str, ...] = ()

    def describes(self, source: str) -> dict[str, str] | None:
        """Return the values of the names in ``kernel`` if a kernel's source has all those lines in this order."""
        found: dict[str, str] = {}
        at = 0
        for line in self.kernel:
            match = _pattern(line).search(source, at)
            if match is None:
                return None
            found |= match.groupdict()
            at = match.end()
        return found

    def outdated(self, headers: str) -> str:
        """Return the first described line that the headers do not have; empty if there is none."""
        return next((line for line in self.headers if _pattern(line).search(headers) is None), "")


def mapping_of(kernel: CudaKernel, declared: Sequence[Mapped], headers: str) -> tuple[Mapped, dict[str, str]]:
    """Return the mapping of a kernel, with its captured values.

    Raises UndeclaredMapping if there is none, MappingError if it is outdated.
    """
    for mapped in declared:
        captured = mapped.describes(kernel.source)
        if captured is None:
            continue
        line = mapped.outdated(headers)
        if line:
            raise MappingError(
                f"the mapping declared for kernel {kernel.name!r} describes the line {line!r}, which the engine's "
                f"headers no longer have: bring {mapped.walk.__name__}, which is declared beside them, up to date"
            )
        return mapped, captured
    raise UndeclaredMapping(f"no declared mapping describes kernel {kernel.name!r}: declare one beside its traversal")


def _pattern(line: str) -> re.Pattern[str]:
    words = re.split(r"\{(\w+)\}", line)
    text = [
        r"\s+".join(map(re.escape, part.split(" "))) if number % 2 == 0 else rf"(?P<{part}>[^,<>(){{}}\[\]]+)"
        for number, part in enumerate(words)
    ]
    return re.compile("".join(text))


def arc_range(offsets: NDArray[np.int64], lanes: Lanes, vertex: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first edge of the vertex that every lane has, and the position after its last edge."""
    at = np.where(lanes.active, lanes[vertex], 0)
    return offsets[at], offsets[at + 1]


def rows_of(offsets: NDArray[np.int64], arcs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the vertex whose row contains each edge."""
    return np.searchsorted(offsets, arcs, side="right") - 1


def neighbours_of(neighbours: NDArray[Any], lanes: Lanes, arc: str = "e") -> NDArray[np.int64]:
    """Return the neighbour along the edge that every lane has."""
    return neighbours[np.where(lanes.active, lanes[arc], 0)].astype(np.int64)


# A thread for a vertex or an edge (thread_planner.py) -----------------------------------------------------------------
def thread_per_vertex(work: Work) -> Iterator[Step]:
    """Yield the steps of ``for (v = first + thread; v < last; v += threads)``.

    Consecutive lanes have consecutive vertices, even if a thread reads several of these ahead, because these are a
    block's threads apart.
    """
    lanes = work.uniform(-(-(work.last - work.first) // WARP))
    work.busy_blocks = -(-work.busy_blocks // int(work.captured.get("ahead", 1)))
    v = work.first + WARP * lanes["unit"] + LANE
    lanes = lanes.where(v < work.last).having(v=v)
    yield Step(lanes, blocks=("vertex", "fetch", "visit"))


def thread_per_arc(work: Work) -> Iterator[Step]:
    """Yield the steps of ``for (e = first + thread; e < last; e += threads)``, with the vertices at both ends."""
    inwards = work.captured["side"] == "in"
    adjacency = work.graph.csc if inwards else work.graph.csr
    lanes = work.uniform(-(-(work.last - work.first) // WARP))
    e = work.first + WARP * lanes["unit"] + LANE
    lanes = lanes.where(e < work.last).having(e=e)
    row = rows_of(adjacency.offsets, lanes["e"])
    other = neighbours_of(adjacency.neighbours, lanes)
    lanes = lanes.having(**({"v": row, "u": other} if inwards else {"u": row, "v": other}))
    side = work.captured["side"]
    loads = (Load(f"{side}_rows", "e"), Load(f"{side}_neighbours", "e"))
    yield Step(with_looked_up(work, lanes), loads + look_ups(work), ("edge",))


def with_looked_up(work: Work, lanes: Lanes) -> Lanes:
    """Add the positions that the kernel looks up for edge ``e``, in this step or before.

    They are the positions of its reverse edge and of ``e`` among the in-edges.
    """
    at = np.where(lanes.active, lanes["e"], 0)
    if "reverse" in work.kernel.arguments:
        back = work.graph.in_edge_ids[at]
        lanes = lanes.having(**{"reverse[e]": back, "back": back})
    if "places" in work.kernel.arguments:
        lanes = lanes.having(**{"places[e]": places(work.graph)[at]})
    return lanes


def look_ups(work: Work) -> tuple[Load, ...]:
    """Return the loads of these positions, where the kernel makes them."""
    read = {access.index for access in work.kernel.accesses}
    return tuple(Load(table, "e") for table in ("reverse", "places") if f"{table}[e]" in read)


THREADS = (
    Mapped(
        thread_per_vertex,
        (
            "for (size_t at = first + thread_of_pieces({ahead}); at < last;",
            "const size_t v = at + i * BLOCK;",
            "const size_t v = at + i * BLOCK;",
        ),
        ("return size_t(blockIdx.x) * (each * BLOCK) + threadIdx.x;",),
    ),
    Mapped(thread_per_vertex, ("for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {",)),
    Mapped(
        thread_per_arc,
        (
            "for (Arc e = first + thread_of_grid(); e < last; e += threads_of_grid()) {",
            "const Id {row} = {side}_rows[e],",
        ),
    ),
    Mapped(lambda work: iter(()), ("for (Id i = threadIdx.x; i < {parts}; i += BLOCK) {",)),  # one block
)
__all__ = [
    "LANE", "THREADS", "Load", "Mapped", "MappingError", "Step", "Walk", "Work", "arc_range", "look_ups", "mapping_of",
    "neighbours_of", "repeated", "rows_of", "with_looked_up",
]  # fmt: skip

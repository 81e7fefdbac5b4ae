"""The vertex or edge of a frontier that each thread processes at each step, for the memory transaction model.

Every vertex is in the frontier. The blocks of a filter append in any order, each block its own vertices in their order.
The model assumes a frontier in the order of the vertices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import THREADS, Load, Mapped, Step, neighbours_of, repeated, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.api.cuda import Lanes, Work

WARP = 32
LANE = np.arange(WARP)
FLAGS = re.compile(r"const bool keep = v < last && \((.*)\);")


def nothing(work: Work) -> Iterator[Step]:
    """Yield no steps: one block writes a few values."""
    yield from ()


def filtered(work: Work) -> Iterator[Step]:
    """Yield the steps with a thread per vertex; a block reserves space for the kept vertices by one atomic
    operation."""
    lanes = work.uniform(-(-(work.last - work.first) // WARP))
    v = work.first + WARP * lanes["unit"] + LANE
    lanes = lanes.where(v < work.last).having(v=v, next=v + 1)
    tests = FLAGS.search(work.kernel.source)
    flags = re.findall(r"(\w+)\[v\]", tests[1]) if tests else []
    loads = [Load(flag, "v", 1) for flag in flags]
    if "out_offsets" in work.kernel.arguments:
        loads += [Load("out_offsets", "next", work.arc), Load("out_offsets", "v", work.arc)]
    yield Step(lanes, tuple(loads))
    yield Step(work.one_of_each_block(), atomics=(Load("sizes", "unit", 8),))


def advance(work: Work) -> Iterator[Step]:
    """Yield the steps with a block per piece of the frontier, whose edges its threads take in turn."""
    graph, offsets = work.graph, work.graph.csr.offsets
    yield _sizes(work)
    pieces = _block_mapped(work) if work.captured["balance"] == "BlockMapped" else _merge_path(work)
    pieces = pieces.shared(work.blocks)
    units = work.picked(pieces.last - pieces.first)
    unit = units["unit"]
    units = units.having(**{name: getattr(pieces, name)[unit] for name in ("first", "last", "base", "end", "number")})
    every = repeated(units, "warp", np.int64(0), np.int64(work.block // WARP))
    if pieces.cuts is not None and pieces.split is not None:
        for cut in (every["number"], every["number"] + 1):
            yield from _split(work, every.having(cut=pieces.cuts[cut], found=pieces.split[cut]))
    else:
        yield Step(every, (Load("starts", "base", work.arc),))
        yield Step(every.where(every["end"] < graph.num_vertices), (Load("starts", "end", work.arc),))
    thread = WARP * every["warp"] + LANE
    own = repeated(every, "i", every["base"] + thread, every["end"], work.block)
    loads = Load("frontier", "i"), Load("starts", "i", work.arc), Load("out_offsets", "i", work.arc)
    yield Step(own, loads)
    edges = repeated(every, "e", every["first"] + thread, every["last"], work.block)
    edges = edges.having(u=rows_of(offsets, edges["e"]), v=neighbours_of(graph.csr.neighbours, edges))
    yield Step(edges, (Load("out_neighbours", "e"),), ("edge",))


def computed(work: Work) -> Iterator[Step]:
    """Yield the steps with a thread per vertex of the frontier."""
    yield _sizes(work)
    lanes = work.uniform(-(-work.graph.num_vertices // WARP))
    i = WARP * lanes["unit"] + LANE
    lanes = lanes.where(i < work.graph.num_vertices).having(i=i, v=i)
    yield Step(lanes, (Load("frontier", "i"),), ("fetch", "visit"))


def _sizes(work: Work) -> Step:
    """Return the read of the frontier's size, which every thread does once."""
    return Step(work.everyone(), (Load("sizes", "unit", 8),))


@dataclass(frozen=True)
class Pieces:
    """The work of every block: the edges ``first`` .. ``last`` - 1 of the list, the vertices ``base`` .. ``end`` - 1,
    and the ``number`` of the piece.

    If a merge is cut into pieces: the ``cuts``, and the number of vertices before each (``split``).
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    base: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.int64]
    cuts: NDArray[np.int64] | None = None
    split: NDArray[np.int64] | None = None

    def shared(self, blocks: int) -> Pieces:
        """Return the pieces with their edges divided among several blocks if there are fewer pieces than ``blocks``."""
        sharers = blocks // max(1, len(self.number))
        if sharers <= 1:
            return self
        length = -(-(self.last - self.first) // sharers)
        begin = self.first[:, None] + length[:, None] * np.arange(sharers)
        first, last = (np.minimum(edge, self.last[:, None]).reshape(-1) for edge in (begin, begin + length[:, None]))
        base, end, number = (np.repeat(one, sharers) for one in (self.base, self.end, self.number))
        return Pieces(first, last, base, end, number, self.cuts, self.split)


def _block_mapped(work: Work) -> Pieces:
    offsets, count = work.graph.csr.offsets, work.graph.num_vertices
    base = np.arange(0, count, work.block)
    end = np.minimum(base + work.block, count)
    return Pieces(offsets[base], offsets[end], base, end, np.arange(len(base)))


def _merge_path(work: Work) -> Pieces:
    offsets, vertices, edges = work.graph.csr.offsets, work.graph.num_vertices, work.graph.num_edges
    cuts = np.append(np.arange(0, vertices + edges, 4 * work.block), vertices + edges)
    split = np.searchsorted(offsets[1:] + np.arange(vertices), cuts)
    base, stop = split[:-1], split[1:]
    end, number = stop + (stop < vertices), np.arange(len(base))
    return Pieces(cuts[:-1] - base, cuts[1:] - stop, base, end, number, cuts, split)


def _split(work: Work, lanes: Lanes) -> Iterator[Step]:
    """Yield the search for the vertices before a cut: the lanes of a warp test 32 positions at once."""
    vertices, edges = work.graph.num_vertices, work.graph.num_edges
    low, high = np.maximum(lanes["cut"] - edges, 0), np.minimum(lanes["cut"], vertices)
    going = low < high
    while going.any():
        step = -(-(high - low) // WARP)
        mine = low + LANE * step
        looking = lanes.where(going & (mine < high)).having(next=mine + 1)
        yield Step(looking.where(mine + 1 < vertices), (Load("starts", "next", work.arc),))
        before = (looking.active & (mine < lanes["found"])).sum(axis=1, keepdims=True)
        going = going & (before > 0)
        high = np.where(before * step < high - low, low + before * step, high)
        low = low + (before - 1) * step + 1
        going = going & (low < high)


MAPPINGS = (
    Mapped(nothing, ("if (blockIdx.x == 0 && threadIdx.x < {count}) sizes[threadIdx.x] = 0;",)),
    Mapped(
        filtered,
        (
            "for (Id base = first + blockIdx.x * BLOCK; base < last; base += threads_of_grid()) {",
            "append(keep, v,",
        ),
        ("room = atomicAdd(size, all);",),
    ),
    Mapped(
        advance,
        (
            "const Size size = sizes[{at}];",
            "const Piece piece = {balance}::piece(number, size, starts).part(blockIdx.x % sharers, sharers);",
            "for (Arc at = piece.first + threadIdx.x; at < piece.last; at += BLOCK) {",
        ),
        (
            "const Id all = vertices_of(size), base = number * BLOCK;",
            "const Arc length = (last - first + all - 1) / all, begin = first + number * length;",
            "static constexpr int LENGTH = 4 * BLOCK, VERTICES = LENGTH + 1;",
            "const Id step = (high - low + 31) / 32, mine = low + lane_id() * step;",
            "for (Id i = threadIdx.x; i < piece.count; i += BLOCK) {",
        ),
    ),
    Mapped(nothing, ("const Arc edges = edges_of(sizes[{at}]);", "const Id v = output[at];")),  # only stores
    Mapped(
        computed,
        (
            "const Id count = vertices_of(sizes[{at}]);",
            "for (Id i = thread_of_grid(); i < count; i += threads_of_grid()) {",
            "const Id v = frontier[i];",
        ),
    ),
    Mapped(
        computed,
        (
            "const Id count = vertices_of(sizes[{at}]);",
            "for (size_t base = thread_of_grid(); base < count; base += {ahead} * size_t(threads_of_grid())) {",
            "const size_t i = base + n * size_t(threads_of_grid());",
            "if (i < count) listed[n] = frontier[i];",
        ),
    ),
    *THREADS,
)

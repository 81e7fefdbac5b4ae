"""The edge of a virtual node that each thread processes at each step, for the memory transaction model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import THREADS, Load, Mapped, Step, arc_range, neighbours_of, repeated

if TYPE_CHECKING:
    from harness.api.cuda import Work

WARP = 32


def push(work: Work) -> Iterator[Step]:
    """Yield the steps with a thread per virtual node; consecutive parts of a vertex read consecutive edges."""
    bound, graph = work.number("bound"), work.graph
    lanes = work.uniform(-(-(work.last - work.first) // WARP))
    n = work.first + WARP * lanes["unit"] + np.arange(WARP)
    lanes = lanes.where(n < work.last).having(n=n)
    at = np.where(lanes.active, n, 0)
    u = work.tables["node_source"][at].astype(np.int64)
    lanes = lanes.having(u=u, next=u + 1)
    size = work.arc
    yield Step(lanes, (Load("node_source", "n"),), ("source",))
    yield Step(lanes, (Load("node_part", "n"), Load("out_offsets", "u", size), Load("out_offsets", "next", size)))
    first, last = arc_range(graph.csr.offsets, lanes, "u")
    stride = -(-(last - first) // bound)
    edges = repeated(lanes, "e", first + work.tables["node_part"][at], last, np.maximum(stride, 1))
    edges = edges.having(v=neighbours_of(graph.csr.neighbours, edges))
    yield Step(edges, (Load("out_neighbours", "e"),), ("edge",))


MAPPINGS = (
    Mapped(
        push,
        (
            "for (Id n = first + thread_of_grid(); n < last; n += threads_of_grid()) {",
            "const VirtualNode<{bound}> node(u, node_part[n], out_offsets);",
            "Arc e = node.first;",
            "} while ((e += node.stride) < node.last);",
        ),
        ("stride = (degree + BOUND - 1) / BOUND;", "first = start + part;"),
    ),
    *THREADS,
)

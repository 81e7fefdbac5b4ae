"""The kernel of an edge update: every edge gets its new value from its ends, its own and its reverse's old values."""

from __future__ import annotations

from harness.language.program import EdgeUpdate
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking

BY_DESTINATION = """
    @part
    moved = 0
    for v in range(bounds[t], bounds[t + 1]):
        @outer
        for e in range(at(in_offsets, v), at(in_offsets, v + 1)):
            u = at(in_neighbours, e)
            @edge
    counts[t] = moved
"""
BY_SOURCE = """
    @part
    moved = 0
    for u in range(bounds[t], bounds[t + 1]):
        @outer
        for e in range(at(out_offsets, u), at(out_offsets, u + 1)):
            v = at(out_neighbours, e)
            @edge
    counts[t] = moved
"""


def update_kernel(
    tracking: Tracking, stage: EdgeUpdate, layout: Layout, *, order: str, ids: str, feature_aware: bool
) -> Kernel:
    """New values into ``next_<order>_<property>``; ``order`` is csc (by destination) or csr (by source).

    Where all arcs pair, rows of CSR and CSC list the same vertices, so in either order the reverse of the edge at
    position e is at position ``reverse[e]``, the CSC's edge ids.
    """
    side = "in" if order == "csc" else "out"
    signature = [("bounds", "i64"), ("counts", "i64"), (f"{side}_offsets", "offsets"), (f"{side}_neighbours", ids)]
    template = BY_DESTINATION if order == "csc" else BY_SOURCE
    builder = KernelBuilder(
        stage.name, tracking.program, layout, template, signature, feature_aware=feature_aware, dynamic=True
    )
    builder.bind("src", "edge" if order == "csc" else "outer", "u")
    builder.bind("dst", "outer" if order == "csc" else "edge", "v")
    builder.bind("edge", "edge", "e", f"{order}_")
    builder.bind("reverse", "edge", f"at({builder.argument('reverse', ids)}, e)", f"{order}_")
    new = builder.mapping.detached(stage.value)
    if ("edge", stage.updates) in tracking.watches:
        old = builder.lower(builder.reading("edge", stage.updates))
        far = builder.differs(old, new, "edge", tolerance=builder.tolerance())
        builder.blocks["edge"].line(f"moved += 1 if {far} else 0")
    builder.store(f"next_{order}_{stage.updates}", "e", stage.value, new, "edge")
    return builder.finish()

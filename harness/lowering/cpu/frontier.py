"""Frontiers under change tracking: counting active sources and their arcs, and noting what was propagated."""

from __future__ import annotations

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking

COUNT = """
    @part
    active = 0
    arcs = 0
    for u in range(bounds[t], bounds[t + 1]):
        if {active}[u]:
            active += 1
            arcs += out_offsets[u + 1] - out_offsets[u]
    counts[2 * t] = active
    counts[2 * t + 1] = arcs
"""

PROPAGATED = """
    @part
    for u in range(bounds[t], bounds[t + 1]):
        if not {active}[u]:
            continue
        {active}[u] = False
        {mark}
        @source
"""

MARK = """for e in range(out_offsets[u], out_offsets[u + 1]):
            {flag}[out_neighbours[e]] = True"""


def count_kernel(tracking: Tracking, group: FoldGroup, layout: Layout) -> Kernel:
    """Count the active sources of a group and the arcs that leave them, part by part."""
    name = tracking.name(group)
    signature = [
        ("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets"), (f"active_{name}", "flag")
    ]  # fmt: skip
    template = COUNT.format(active=f"active_{name}")
    return KernelBuilder(f"count_{name}", tracking.program, layout, template, signature).finish()


def propagated_kernel(
    tracking: Tracking, group: FoldGroup, layout: Layout, *, ids: str, marks: str, feature_aware: bool
) -> Kernel:
    """Clear the active flags of a group and remember, as *sent*, what its sources have propagated.

    ``marks``: a flag to set at every destination of an active source; empty: none. (Threads may set one flag at once:
    they all write True.)
    """
    name = tracking.name(group)
    signature = [("bounds", "i64"), (f"active_{name}", "flag")]
    mark = ""
    if marks:
        signature += [("out_offsets", "offsets"), ("out_neighbours", ids), (marks, "flag")]
        mark = MARK.format(flag=marks)
    template = PROPAGATED.format(active=f"active_{name}", mark=mark)
    stem = "mark" if marks else "sent"
    builder = KernelBuilder(
        f"{stem}_{name}", tracking.program, layout, template, signature, feature_aware=feature_aware
    )
    builder.bind("v", "source", "u")
    for source in tracking.sources(group):
        node = builder.reading("v", source)
        builder.store(f"sent_{name}_{source}", "u", node, builder.lower(node), "source")
    return builder.finish()

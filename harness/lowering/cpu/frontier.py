"""Frontiers under change tracking: counting flagged sources and their arcs, and noting what was propagated."""

from __future__ import annotations

from collections.abc import Mapping

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking

COUNT = """
    @part
    active = 0
    arcs = 0
    for u in range(bounds[t], bounds[t + 1]):
        if {flag}[u]:
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

MARK = """for e in range({side}_offsets[u], {side}_offsets[u + 1]):
            {flag}[{side}_neighbours[e]] = True"""


def count_kernel(tracking: Tracking, group: FoldGroup, layout: Layout, *, flag: str = "active") -> Kernel:
    """Count the active (or otherwise flagged) sources of a group and the arcs that leave them, part by part."""
    name = tracking.name(group)
    signature = [
        ("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets"), (f"{flag}_{name}", "flag")
    ]  # fmt: skip
    template = COUNT.format(flag=f"{flag}_{name}")
    stem = "count" if flag == "active" else f"count_{flag}"
    return KernelBuilder(f"{stem}_{name}", tracking.program, layout, template, signature).finish()


def propagated_kernel(
    tracking: Tracking, group: FoldGroup, layout: Layout, *, ids: str, marks: Mapping[str, str], feature_aware: bool
) -> Kernel:
    """Clear the active flags of a group and remember, as *sent*, what its sources have propagated.

    ``marks``: flags to set for an active source: of its own (*own*), of all destinations of its out-edges (*out*), of
    all sources of its in-edges (*in*). (Threads may set one flag at once: they all write True.)
    """
    name = tracking.name(group)
    signature = [("bounds", "i64"), (f"active_{name}", "flag")]
    mark = []
    for side, flag in marks.items():
        signature.append((flag, "flag"))
        if side == "own":
            mark.append(f"{flag}[u] = True")
        else:
            signature += [(f"{side}_offsets", "offsets"), (f"{side}_neighbours", ids)]
            mark.append(MARK.format(side=side, flag=flag))
    template = PROPAGATED.format(active=f"active_{name}", mark="\n        ".join(mark))
    stem = "mark" if marks else "sent"
    builder = KernelBuilder(
        f"{stem}_{name}", tracking.program, layout, template, list(dict.fromkeys(signature)),
        feature_aware=feature_aware,
    )  # fmt: skip
    builder.bind("v", "source", "u")
    for source in tracking.sent(group):
        node = builder.reading("v", source)
        builder.store(f"sent_{name}_{source}", "u", node, builder.lower(node), "source")
    return builder.finish()

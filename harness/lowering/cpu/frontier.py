"""Frontiers under change tracking: count flagged sources and their edges, and record what was propagated."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.flags import blocks_of, flagged_loop, raised
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking

COUNT = """
    @part
    active = 0
    edges = 0
    {loop}
    counts[2 * t] = active
    counts[2 * t + 1] = edges
"""
COUNTED = """
active += 1
{edges}
{visit}
"""
EDGES = "edges += at(out_offsets, u + 1) - at(out_offsets, u)"

PROPAGATED = """
    @part
    {loop}
"""

MARK = """for e in range(at({side}_offsets, u), at({side}_offsets, u + 1)):
    neighbour = int64(at({side}_neighbours, e))
    {raised}"""


def count_kernel(
    tracking: Tracking, group: FoldGroup, layout: Layout, *, flag: str = "active", visits: str = "", edges: bool = True,
    stem: str = "",
) -> Kernel:  # fmt: skip
    """Count the active (or otherwise flagged) sources of a group and the edges that leave them, for each part.

    ``visits``: flags that are also set for them. ``edges``: False leaves the number of edges at zero. ``stem``: of the
    kernel's name; by default *count*, and the flag unless it is *active*.
    """
    name = tracking.name(group)
    flags = f"{flag}_{name}"
    counted = COUNTED.format(edges=EDGES if edges else "", visit=raised(visits, "u") if visits else "")
    template = COUNT.format(loop=flagged_loop("u", flags, counted, take=False))
    signature = [("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets")]
    stem = stem or ("count" if flag == "active" else f"count_{flag}")
    builder = KernelBuilder(f"{stem}_{name}", tracking.program, layout, template, signature)
    for array in filter(None, (flags, visits)):
        builder.flags(array)
    return builder.finish()


def propagated_kernel(
    tracking: Tracking,
    group: FoldGroup,
    layout: Layout,
    *,
    ids: str,
    marks: Mapping[str, Sequence[str]],
    feature_aware: bool,
) -> Kernel:
    """Clear the active flags of a group and store, as *sent*, what its sources have propagated.

    ``marks``: flags to set for an active source: its own (*own*), of all destinations of its out-edges (*out*), of all
    sources of its in-edges (*in*). Several threads may set one flag at the same time, because all write True.
    """
    name = tracking.name(group)
    signature = [("bounds", "i64")]
    body = []
    for side, flags in marks.items():
        if side == "own":
            body += [raised(flag, "u") for flag in flags]
        else:
            signature += [(f"{side}_offsets", "offsets"), (f"{side}_neighbours", ids)]
            body.append(MARK.format(side=side, raised="\n    ".join(raised(flag, "neighbour") for flag in flags)))
    active = f"active_{name}"
    loop = flagged_loop("u", active, "\n".join([*body, "@source"]))
    if not (body or tracking.sent(group)):
        loop = f"clear_flagged(place_of({active}), place_of({blocks_of(active)}), bounds[t], bounds[t + 1])"
    template = PROPAGATED.format(loop=loop)
    stem = "mark" if marks else "sent"
    builder = KernelBuilder(
        f"{stem}_{name}", tracking.program, layout, template, list(dict.fromkeys(signature)),
        feature_aware=feature_aware, selects=active,
    )  # fmt: skip
    for flag in (active, *itertools.chain(*marks.values())):
        builder.flags(flag)
    builder.bind("v", "source", "u")
    for source in tracking.sent(group):
        node = builder.reading("v", source)
        builder.store(f"sent_{name}_{source}", "u", node, builder.lower(node), "source")
    return builder.finish()

"""Record changes in a kernel, as the rules of change tracking (``harness.lowering.tracking``) require.

Flags of vertices are bytes: ``dirty_<group>`` (to be recomputed) and ``active_<group>`` (to be propagated). Many
threads may set one at the same time, because all write the same value; this needs no atomic operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.language.analysis import FoldGroup
from harness.language.expressions import Expression
from harness.lowering.cuda.code import Value
from harness.lowering.cuda.kernels import CudaKernelBuilder
from harness.lowering.cuda.last_use import overwritable
from harness.lowering.cuda.named_vertices import located
from harness.lowering.tracking import Tracking, composed_writes


def cuda_write_back(
    builder: CudaKernelBuilder,
    tracking: Tracking,
    group: FoldGroup,
    block: str,
    *,
    reduced: Sequence[tuple[str, Expression]] = (),
    prefix_of: Mapping[str, str] | None = None,
    changed: str = "",
) -> None:
    """Store what the vertex steps of ``group`` write to vertex ``v`` in ``block``, and record what that changes.

    ``reduced``: what the group has reduced, if others read it. ``prefix_of``: properties that are written to another
    array, ``prefix + name``, because others still read the old one. ``changed``: a bool variable to declare, whether
    any value changed; if none did, nothing is stored. Vertices that moved are counted in ``run->moved``.
    """
    steps = composed_writes(tracking.program, group, tracking.live(group.stages))
    writes = [*reduced, *zip((name for name, _ in steps), located(builder, [v for _, v in steps], block), strict=True)]
    builder.mapping.overwritable = overwritable([value for _, value in writes])
    builder.bind("old", builder.read_in(block), "v")
    new = {name: builder.mapping.kept(value) for name, value in writes}
    moved = []
    for name, _ in writes:
        if tracking.change_driven:
            _note_changes(builder, tracking, group, name, new[name], block)
        if ("vertex", name) in tracking.watches and not (tracking.change_driven and tracking.listening_groups(name)):
            moved.append(builder.moved("old", name, new[name], block))
    if moved:
        count = builder.counter("moved", "&run->moved")
        builder.blocks[block].line(f"if (group.leads() && ({' || '.join(moved)})) ++{count};")
    if changed:
        differ = [builder.moved("old", name, new[name], block, exact=True) for name, _ in writes]
        builder.blocks[block].line(f"const bool {changed} = {' || '.join(differ) or 'false'};")
        builder.blocks[block].line(f"if ({changed}) {{")
    for name, value in writes:
        builder.store((prefix_of or {}).get(name, "vertex_") + name, "v", value, new[name], block)
    if changed:
        builder.blocks[block].line("}")


def store_sent(builder: CudaKernelBuilder, tracking: Tracking, group: FoldGroup, block: str) -> None:
    """Store what vertex ``v``, a source of a group's edges, has sent."""
    name = tracking.name(group)
    builder.bind("src", builder.read_in(block), "v")
    for source in tracking.sources(group):
        node = builder.reading("src", source)
        builder.store(f"sent_{name}_{source}", "v", node, builder.mapping.lower(node), block)


def _note_changes(
    builder: CudaKernelBuilder, tracking: Tracking, group: FoldGroup, name: str, new: Value, block: str
) -> None:
    at = builder.blocks[block]
    stale = tracking.stale_after(name)
    if stale:
        changed = builder.moved("old", name, new, block, exact=True)
        flags = [builder.argument(f"dirty_{tracking.name(reader)}", "flag") for reader in stale]
        at.line(f"if (group.leads() && {changed}) {{ {' '.join(f'{flag}[v] = true;' for flag in flags)} }}")
    for reader in tracking.listening_groups(name):
        space, exact = f"sent_{tracking.name(reader)}", tracking.exact(reader, name)
        builder.bind(space, builder.read_in(block), "v", f"{space}_")
        share = tracking.propagated_share
        far = builder.moved("old" if exact else space, name, new, block, exact=exact, share=share)
        if exact and name not in tracking.destinations(reader):
            flag = builder.argument(f"dirty_{tracking.name(reader)}", "flag")
            at.line(f"if (group.leads() && {far}) {flag}[v] = true;")
        else:
            make_active(builder, tracking, group, reader, far, block, counts=not exact)


def make_active(
    builder: CudaKernelBuilder,
    tracking: Tracking,
    group: FoldGroup,
    reader: FoldGroup,
    far: str,
    block: str,
    *,
    counts: bool = True,
) -> None:
    """Make vertex ``v`` active for ``reader`` if ``far`` holds and, with ``counts``, count it as a source that moved.

    The work of an edge update is counted when all its dirty rows are known.
    """
    active = builder.argument(f"active_{tracking.name(reader)}", "flag")
    at = builder.blocks[block]
    at.line(f"if (group.leads() && {far}) {{")
    if counts:
        at.line(f"    ++{builder.counter('moved', '&run->moved')};")
    if reader.kind == "update":
        at.line(f"    {active}[v] = true;")
    else:
        offsets, edges = builder.argument("out_offsets", "offsets"), frontier(builder, tracking, group, reader)
        at.line(f"    if (!{active}[v]) {{ {active}[v] = true; {edges} += {offsets}[v + 1] - {offsets}[v]; }}")
    at.line("}")


def frontier(builder: CudaKernelBuilder, tracking: Tracking, group: FoldGroup, reader: FoldGroup) -> str:
    """Return a counter of the edges that ``reader`` has to follow.

    It counts for this superstep if ``reader`` runs after ``group``, else for the next one (also if sides alternate and
    the moving vertex is on the other side).
    """
    order = tracking.groups.index
    same = order(group) < order(reader) and not tracking.program.control.alternate
    number = tracking.propagating().index(reader)
    return builder.frontier_counter(f"edges_{number}_found", number, later=not same)

"""Record changes in a kernel, as the rules of change tracking (``harness.lowering.tracking``) require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.language.analysis import FoldGroup
from harness.language.expressions import Expression
from harness.lowering.cpu.code import Value
from harness.lowering.cpu.flags import raised
from harness.lowering.cpu.kernels import KernelBuilder
from harness.lowering.cpu.named_vertices import located
from harness.lowering.tracking import Tracking


def write_back(
    builder: KernelBuilder,
    tracking: Tracking,
    group: FoldGroup,
    writes: Sequence[tuple[str, Expression]],
    block: str,
    *,
    prefix_of: Mapping[str, str] | None = None,
    sent_is_current: FoldGroup | None = None,
) -> None:
    """Store the new values of vertex ``v`` that ``group`` computes in ``block``, and record what they change.

    ``prefix_of``: properties that are written to another array, ``prefix + name``, because others still read the old
    one. ``sent_is_current``: a group that has propagated all current values, so that these are its sent values; the
    template then counts its active sources in ``moved`` and their edges in ``edges``. Without change tracking ``moved``
    counts the vertices that moved.
    """
    at = builder.blocks[block]
    values = located(builder, [value for _, value in writes], block)
    writes = [(name, value) for (name, _), value in zip(writes, values, strict=True)]
    builder.bind("old", block, "v")
    new = {name: builder.mapping.detached(value) for name, value in writes}
    moved = []
    for name, _ in writes:
        if tracking.change_driven:
            moved += _note_changes(builder, tracking, group, name, new[name], block, sent_is_current)
        if ("vertex", name) in tracking.watches and not (tracking.change_driven and tracking.listening_groups(name)):
            old = builder.lower(builder.reading("old", name))
            moved.append(builder.differs(old, new[name], block, tolerance=builder.tolerance()))
    if moved and tracking.change_driven:  # watched, but no longer active when the superstep ends
        at.line(f"{builder.argument('watched', 'i64')}[t] += 1 if {' or '.join(moved)} else 0")
    elif moved:
        at.line(f"moved += 1 if {' or '.join(moved)} else 0")
    for name, value in writes:
        builder.store((prefix_of or {}).get(name, "vertex_") + name, "v", value, new[name], block)


def _note_changes(
    builder: KernelBuilder,
    tracking: Tracking,
    writer: FoldGroup,
    name: str,
    new: Value,
    block: str,
    current: FoldGroup | None,
) -> list[str]:
    """Set the flags that a new value requires.

    Return the conditions under which a source has moved that is propagated before the superstep ends, that is, before
    its active sources are counted.
    """
    at, soon = builder.blocks[block], []
    old = builder.reading("old", name)
    stale = tracking.stale_after(name)
    if stale:
        changed = builder.mapping.fresh("changed")
        at.line(f"{changed} = {builder.differs(builder.lower(old), new, block)}")
        for group in stale:
            _set_flag(builder, f"dirty_{tracking.name(group)}", changed, block, alone=group is current)
    for group in tracking.listening_groups(name):
        space = f"sent_{tracking.name(group)}"
        builder.bind(space, block, "v", f"{space}_")
        exact = name not in tracking.sent(group)
        before = builder.lower(old if exact or group is current else builder.reading(space, name))
        far = builder.mapping.fresh("far")
        margin = None if exact else builder.tolerance(tracking.propagated_share)
        at.line(f"{far} = {builder.differs(before, new, block, tolerance=margin)}")
        _set_flag(builder, f"active_{tracking.name(group)}", far, block, alone=group is current)
        if ("vertex", name) in tracking.watches and tracking.propagates_after(group, writer):
            soon.append(far)
        if group is current:
            offsets = builder.argument("out_offsets", "offsets")
            at.line(f"moved += int64({far})")
            at.line(f"edges += int64({far}) * (at({offsets}, v + 1) - at({offsets}, v))")
    return soon


def _set_flag(builder: KernelBuilder, flag: str, condition: str, block: str, *, alone: bool) -> None:
    """Set a flag of ``v`` if the condition holds.

    ``alone``: no other kernel has set the flag since it was cleared, and every vertex is visited. The flag is then
    written without a branch, and the caller maintains the second level.
    """
    at = builder.blocks[block]
    if alone:
        array = builder.argument(flag, "flag")
        written = f"{array}[v] or " if array in builder.assigned else ""
        builder.assigned.add(array)
        at.line(f"{array}[v] = {written}{condition}")
    else:
        builder.flags(flag)
        at.line(f"if {condition}:").line(f"    {raised(flag, 'v')}")

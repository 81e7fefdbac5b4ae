"""Changed edges of a pushing group, and the edge properties as last propagated to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.language.analysis import FoldGroup
from harness.lowering.buffers import Holds
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.flags import flagged_loop
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.cpu.plan import PlanDraft
from harness.lowering.cpu.run import Run

PROPAGATED = """
    @part
    moved = 0
    {loop}
    counts[t] = moved
"""
ROW = """
alone = 0 if at({active}, u) else 1
for e in range(at(out_offsets, u), at(out_offsets, u + 1)):
    if {changed}[e]:
        {changed}[e] = False
        moved += alone
        @edge
"""


@dataclass(frozen=True)
class SentEdges:
    """Edges that a group that pushes changes has to visit although their source did not move.

    ``reads``: the changing edge properties that the group reads; if there are none, no array exists. ``changed`` flags
    these edges by CSR position, ``rows`` flags their sources, and ``sent_<group>_<property>`` holds the values last
    propagated.
    """

    group: str
    reads: tuple[str, ...]

    @property
    def changed(self) -> str:
        """The flags of the edges."""
        return f"changed_{self.group}"

    @property
    def rows(self) -> str:
        """The flags of their sources."""
        return f"rows_{self.group}"

    def propagated(self, run: Run) -> int:
        """Record that moved edges were propagated; return how many do not leave a source that is still active."""
        if not self.reads:
            return 0
        bounds, pairs = run.active_sources.bounds, run.memory.arrays["pairs"]
        parts = len(bounds) - 1
        run.call(f"sent_edges_{self.group}", parts, bounds=bounds, counts=pairs)
        return int(pairs[:parts].sum())

    def all_propagated(self, run: Run) -> None:
        """Record that every edge was propagated with its current value."""
        arrays = run.memory.arrays
        if self.reads:
            arrays[self.changed][:] = False
            run.memory.set_flags(self.rows, False)
        for name in self.reads:
            arrays[f"sent_{self.group}_{name}"][:] = arrays[f"csr_{name}"]


def plan_sent_edges(draft: PlanDraft, group: FoldGroup) -> SentEdges:
    """Add the arrays and the kernel that track the edges that a group reads."""
    setting, name = draft.setting, draft.setting.tracking.name(group)
    pairs, edges = setting.tracking.edges(group), setting.facts.num_edges
    found = SentEdges(name, tuple(dict.fromkeys(prop for _, prop in pairs)))
    if not pairs:
        return found
    draft.array(found.changed, Holds.MOVED, name, "bool", edges)
    draft.flags(found.rows, Holds.ROWS, name, False)
    for prop in found.reads:
        chosen = setting.program.properties[prop]
        draft.buffer(CpuBuffer.of_values(f"sent_{name}_{prop}", Holds.SENT, chosen, edges, setting.layout))
    draft.kernels.append(_kernel(draft, group, found, pairs))
    return found


def _kernel(draft: PlanDraft, group: FoldGroup, sent: SentEdges, pairs: Sequence[tuple[str, str]]) -> Kernel:
    setting, active = draft.setting, f"active_{sent.group}"
    template = PROPAGATED.format(loop=flagged_loop("u", sent.rows, ROW.format(active=active, changed=sent.changed)))
    signature = [
        ("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets"), (active, "flag"), (sent.changed, "flag")
    ]  # fmt: skip
    builder = KernelBuilder(
        f"sent_edges_{sent.group}", setting.program, setting.layout, template, signature,
        feature_aware=setting.feature_aware,
    )  # fmt: skip
    builder.flags(sent.rows)
    draft.bind_edges(builder, group.edge_stages, "csr")
    for space, name in pairs:
        node = builder.reading(space, name)
        index = "e" if space == "edge" else f"at({builder.argument('reverse', setting.ids)}, e)"
        builder.store(f"sent_{sent.group}_{name}", index, node, builder.lower(node), "edge")
    return builder.finish()

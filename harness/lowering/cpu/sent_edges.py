"""Changed edges of a pushing group, and the edge properties as last propagated to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.flags import flagged_loop
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import aligned_zeros

if TYPE_CHECKING:
    from harness.lowering.cpu.engine import CpuEngine

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


class SentEdges:
    """Edges that one group of an engine that pushes changes has to visit although their source did not move.

    ``changed_<group>`` flags these edges by CSR position, ``rows_<group>`` flags their sources, and
    ``sent_<group>_<property>`` holds the values last propagated. If a group reads no changing edge property, none of
    these arrays exists.
    """

    def __init__(self, engine: CpuEngine, group: FoldGroup) -> None:
        self.engine, self.group = engine, group
        self.name = engine.tracking.name(group)
        self.reads = engine.tracking.edges(group)
        self.changed, self.rows = f"changed_{self.name}", f"rows_{self.name}"
        if not self.reads:
            return
        graph, memory = engine.graph, engine.memory
        memory.add(self.changed, np.zeros(graph.num_edges, np.bool_))
        memory.add_flags(self.rows, False)
        for _, name in self.reads:
            stride = engine.layout.stride(engine.program.properties[name].shape)
            memory.add(f"sent_{self.name}_{name}", aligned_zeros(graph.num_edges * stride, np.float32))
        engine.add_kernel(self._kernel())

    @property
    def sources(self) -> NDArray[np.bool_]:
        """Return the flags of the sources of edges that moved, bool[V]; only if the group reads changing edge
        properties.
        """
        return self.engine.memory.arrays[self.rows]

    def propagated(self) -> int:
        """Record that moved edges were propagated; return how many do not leave a source that is still active."""
        if not self.reads:
            return 0
        engine, bounds = self.engine, self.engine.active_sources.bounds
        parts, pairs = len(bounds) - 1, engine.memory.arrays["pairs"]
        engine.call(f"sent_edges_{self.name}", parts, bounds=bounds, counts=pairs)
        return int(pairs[:parts].sum())

    def all_propagated(self) -> None:
        """Record that every edge was propagated with its current value."""
        arrays = self.engine.memory.arrays
        if self.reads:
            arrays[self.changed][:] = False
            self.engine.memory.set_flags(self.rows, False)
        for _, name in self.reads:
            arrays[f"sent_{self.name}_{name}"][:] = arrays[f"csr_{name}"]

    def _kernel(self) -> Kernel:
        engine = self.engine
        active = f"active_{self.name}"
        template = PROPAGATED.format(loop=flagged_loop("u", self.rows, ROW.format(active=active, changed=self.changed)))
        signature = [
            ("bounds", "i64"), ("counts", "i64"), ("out_offsets", "offsets"), (active, "flag"), (self.changed, "flag")
        ]  # fmt: skip
        builder = KernelBuilder(
            f"sent_edges_{self.name}", engine.program, engine.layout, template, signature,
            feature_aware=engine.feature_aware,
        )  # fmt: skip
        builder.flags(self.rows)
        engine.bind_edges(builder, self.group.edge_stages, "csr")
        for space, name in self.reads:
            node = builder.reading(space, name)
            index = "e" if space == "edge" else f"at({builder.argument('reverse', engine.ids)}, e)"
            builder.store(f"sent_{self.name}_{name}", index, node, builder.lower(node), "edge")
        return builder.finish()

"""What a pushing group of reductions was last told of the edge properties that it reads, and which edges have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.layout import aligned_zeros

if TYPE_CHECKING:
    from harness.lowering.cpu.engine import CpuEngine

PROPAGATED = """
    @part
    for u in range(bounds[t], bounds[t + 1]):
        if not {rows}[u]:
            continue
        {rows}[u] = False
        for e in range(at(out_offsets, u), at(out_offsets, u + 1)):
            if {changed}[e]:
                {changed}[e] = False
                @edge
"""


class SentEdges:
    """For one group of an engine that pushes changes: the edges that it has to visit though their source did not move,
    ``changed_<group>`` by CSR position, the sources of such edges, ``rows_<group>``, and the values last propagated,
    ``sent_<group>_<property>``. Where a group reads no changing edge property there is nothing of this."""

    def __init__(self, engine: CpuEngine, group: FoldGroup) -> None:
        self.engine, self.group = engine, group
        self.name = engine.tracking.name(group)
        self.reads = engine.tracking.edges(group)
        self.changed, self.rows = f"changed_{self.name}", f"rows_{self.name}"
        if not self.reads:
            return
        graph, memory = engine.graph, engine.memory
        memory.add(self.changed, np.zeros(graph.num_edges, np.bool_))
        memory.add(self.rows, np.zeros(graph.num_vertices, np.bool_))
        for _, name in self.reads:
            stride = engine.layout.stride(engine.program.properties[name].shape)
            memory.add(f"sent_{self.name}_{name}", aligned_zeros(graph.num_edges * stride, np.float32))
        engine.add_kernel(self._kernel())

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """What a kernel that visits such edges takes."""
        return [(self.rows, "flag"), (self.changed, "flag")] if self.reads else []

    @property
    def tests(self) -> tuple[str, str]:
        """The texts of whether a row ``u`` holds an edge that moved, and of whether edge ``e`` did."""
        return (f"at({self.rows}, u)", f"at({self.changed}, e)") if self.reads else ("False", "False")

    @property
    def sources(self) -> NDArray[np.bool_]:
        """The sources of edges that moved, bool[V]; only where there are any to move."""
        return self.engine.memory.arrays[self.rows]

    def count(self, active: NDArray[np.bool_]) -> int:
        """How many edges moved that do not leave an active source (bool[V])."""
        if not self.reads:
            return 0
        changed = self.engine.memory.arrays[self.changed]
        if active.any():
            changed = changed & ~np.repeat(active, self.engine.graph.out_degrees)
        return int(np.count_nonzero(changed))

    def propagated(self) -> None:
        """Note that what moved was propagated."""
        if self.reads:
            whole = self.engine.whole
            self.engine.call(f"sent_edges_{self.name}", len(whole) - 1, bounds=whole)

    def all_propagated(self) -> None:
        """Note that every edge was propagated as it is now."""
        arrays = self.engine.memory.arrays
        if self.reads:
            arrays[self.changed][:] = False
            arrays[self.rows][:] = False
        for _, name in self.reads:
            arrays[f"sent_{self.name}_{name}"][:] = arrays[f"csr_{name}"]

    def _kernel(self) -> Kernel:
        engine = self.engine
        template = PROPAGATED.format(rows=self.rows, changed=self.changed)
        signature = [("bounds", "i64"), ("out_offsets", "offsets"), (self.rows, "flag"), (self.changed, "flag")]
        builder = KernelBuilder(
            f"sent_edges_{self.name}", engine.program, engine.layout, template, signature,
            feature_aware=engine.feature_aware,
        )  # fmt: skip
        engine.bind_edges(builder, self.group.edge_stages, "csr")
        for space, name in self.reads:
            node = builder.reading(space, name)
            index = "e" if space == "edge" else f"at({builder.argument('reverse', engine.ids)}, e)"
            builder.store(f"sent_{self.name}_{name}", index, node, builder.lower(node), "edge")
        return builder.finish()

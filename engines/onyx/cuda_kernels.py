"""Onyx on CUDA: the kernels of vertex steps, edge reductions in either direction, edge updates, graph reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api import CudaKernelBuilder, EdgeReduce, EdgeUpdate, FoldGroup, GraphReduce, composed_writes

if TYPE_CHECKING:
    from engines.onyx.cuda_engine import OnyxCudaEngine
    from harness.api import CudaKernel

OPERATION = {"sum": "Add", "min": "Min", "max": "Max"}
FETCHED_SLOTS = 32  # of rows that a lane holds for edges fetched ahead

VERTEX = """
    Count moved = 0;
    @kernel
    vertexmap(team, first, last, [&](Id v) {
        @vertex
    });
    add_counts(&run->moved, moved);
"""
FETCH = """[&](Id {row}, Id {other}, Arc e) {{
            struct {{
                @fields
            }} got;
        @fetch
            return got;
        }}"""
EDGES = """
    @kernel
    {map}(team, {walked}, {bounds},
        FETCH,
        [&](const auto& got, Id {row}, Id {other}, Arc e) {{
        @visit
        }});
"""
GATHER = """
    Count moved = 0;
    @kernel
    gather<{share}, {depth}>(team, in_offsets, in_neighbours, first, last,
        [&](Id v) {{
      @start
        }},
        FETCH,
        [&](const auto& got, Id u, Id v, Arc e) {{
        @visit
        }},
        [&]() {{
        @join
        }},
        [&](Id v) {{
        @finish
        }});
    add_counts(&run->moved, moved);
"""
CLEAR = """
    @kernel
    vertexmap(team, first, last, [&](Id v) {
        @vertex
    });
"""
JOIN = """
    @kernel
    if (warp_of_grid() == 0 && team.number == 0) {
        for (Id v = first; v < last; ++v) {
            @vertex
        }
        @end
    }
"""
PARTIAL = """
    @kernel
    vertexmap(team, first, last, [&](Id v) {
        @vertex
    });
    @end
"""


def fetch(row: str, other: str) -> str:
    """The lambda that reads what an edge needs."""
    return FETCH.format(row=row, other=other)


class Kernels:
    """Makes the kernels of one engine's plan."""

    def __init__(self, engine: OnyxCudaEngine) -> None:
        self.engine, self.program, self.layout = engine, engine.program, engine.layout
        schedule = engine.schedule
        self.pipeline = schedule.pipeline is not False
        self.tiles = (schedule.balance or "warp") == "edge"

    def builder(
        self, name: str, template: str, signature: list[tuple[str, str]], hoisted: tuple[str, ...] = ()
    ) -> CudaKernelBuilder:
        """A builder under the engine's mapping."""
        engine = self.engine
        return CudaKernelBuilder(
            name, self.program, self.layout, engine.team, template, signature,
            feature_aware=engine.feature_aware, hoisted=hoisted,
        )  # fmt: skip

    def depth(self, group: FoldGroup) -> int:
        """How many edges are fetched before the first is computed on."""
        if not self.pipeline or not self.engine.feature_aware:
            return 1
        rows = sum(
            self.engine.team.slots(self.layout.dims(shape)[-1])
            for shape in {s.message.shape for s in group.edge_stages}
            if shape
        )
        return max(1, min(4, FETCHED_SLOTS // max(1, rows)))

    # vertices ---------------------------------------------------------------------------------------------------------
    def vertices(self, group: FoldGroup) -> CudaKernel:
        """The vertex steps of a group, one after another on the same team."""
        builder = self.builder(self.engine.tracking.name(group), VERTEX, [("first", "Id"), ("last", "Id")])
        builder.bind("v", "vertex", "v")
        for step in group.vertex_steps:
            builder.comment("vertex", step)
        self.write_back(builder, group, "vertex", {})
        return builder.finish()

    def write_back(self, builder: CudaKernelBuilder, group: FoldGroup, block: str, prefixes: dict[str, str]) -> None:
        """Store what the vertex steps of a group write in the end, and count the vertices that moved."""
        live = self.engine.tracking.live(group.stages)
        writes = composed_writes(self.program, group, live)
        builder.bind("old", block, "v")
        new = {name: builder.mapping.kept(value) for name, value in writes}
        moved = [
            builder.moved(name, new[name], block)
            for name, _ in writes
            if ("vertex", name) in self.engine.tracking.watches
        ]
        if moved:
            builder.blocks[block].line(f"if (team.leads() && ({' || '.join(moved)})) ++moved;")
        for name, value in writes:
            builder.store(prefixes.get(name, "vertex_") + name, "v", value, new[name], block)

    def clear(self, stage: EdgeReduce) -> CudaKernel:
        """Set an accumulator in memory to the reducer's identity."""
        builder = self.builder(f"clear_{stage.into}", CLEAR, [("first", "Id"), ("last", "Id")])
        blank = builder.accumulator("blank", stage.message, stage.reducer, "kernel")
        builder.store(f"vertex_{stage.into}", "v", stage.message, blank, "vertex")
        return builder.finish()

    # edges ------------------------------------------------------------------------------------------------------------
    def edges(self, name: str, order: str, depth: int) -> CudaKernelBuilder:
        """An edgemap over out-edges (order csr) or in-edges (csc), warp- or edge-balanced."""
        side, row, other = ("out", "u", "v") if order == "csr" else ("in", "v", "u")
        if self.tiles:
            signature = [(f"{side}_rows", "ids"), (f"{side}_neighbours", "ids"), ("first", "Arc"), ("last", "Arc")]
            mapped, walked = f"edgemap_tiles<{depth}>", f"{side}_rows, {side}_neighbours"
        else:
            signature = [(f"{side}_offsets", "arcs"), (f"{side}_neighbours", "ids"), ("first", "Id"), ("last", "Id")]
            pipeline = "true" if self.pipeline else "false"
            mapped, walked = f"edgemap<{pipeline}, {depth}>", f"{side}_offsets, {side}_neighbours"
        template = EDGES.format(map=mapped, walked=walked, bounds="first, last", row=row, other=other)
        builder = self.builder(name, template.replace("FETCH", fetch(row, other)), signature)
        builder.bind("src", "fetch", "u")
        builder.bind("dst", "fetch", "v")
        builder.bind("edge", "fetch", "e", f"{order}_")
        return builder

    def scatter(self, group: FoldGroup) -> CudaKernel:
        """Push: every edge sends its messages to its destination."""
        builder = self.edges(self.engine.tracking.name(group), "csr", self.depth(group))
        for stage in group.edge_stages:
            builder.comment("visit", stage)
            builder.reduce_into(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "visit")
        return builder.finish()

    def update(self, stage: EdgeUpdate, order: str) -> CudaKernel:
        """New values of an edge property into the buffer that nobody reads."""
        builder = self.edges(stage.name, order, 1)
        builder.root.line("Count moved = 0;")
        builder.argument("reverse", "ids")
        builder.bind("reverse", "fetch", "reverse[e]", f"{order}_")
        builder.comment("visit", stage)
        new = builder.mapping.kept(stage.value)
        if ("edge", stage.updates) in self.engine.tracking.watches:
            builder.bind("old", "fetch", "e", f"{order}_")
            moved = builder.moved(stage.updates, new, "visit")
            builder.blocks["visit"].line(f"if (team.leads() && {moved}) ++moved;")
        builder.store(f"next_{order}_{stage.updates}", "e", stage.value, new, "visit")
        builder.template += "    add_counts(&run->moved, moved);\n"
        return builder.finish()

    def gather(self, group: FoldGroup, share: int, doubled: tuple[str, ...]) -> CudaKernel:
        """Pull: the owner of a vertex gathers over its in-edges and goes on with its vertex steps."""
        template = GATHER.format(share=share, depth=self.depth(group)).replace("FETCH", fetch("u", "v"))
        signature = [("in_offsets", "arcs"), ("in_neighbours", "ids"), ("first", "Id"), ("last", "Id")]
        builder = self.builder(self.engine.tracking.name(group), template, signature, ("start",))
        builder.blocks["start"].parent = builder.root
        builder.blocks["fetch"].parent = builder.blocks["start"]
        builder.blocks["finish"].parent = builder.blocks["start"]
        builder.bind("src", "fetch", "u")
        builder.bind("dst", "start", "v")
        builder.bind("edge", "fetch", "e", "csc_")
        builder.bind("v", "finish", "v")
        live = self.engine.tracking.live(group.stages)
        totals = []
        for stage in group.edge_stages:
            total = builder.accumulator(f"{stage.into}_total", stage.message, stage.reducer, "start")
            builder.comment("visit", stage)
            builder.accumulate(total, stage.message, stage.reducer, "visit")
            if share > 1:
                joined = f"across_teams<{share}, {OPERATION[stage.reducer]}>(team, {total.text})"
                builder.blocks["join"].line(f"{total.text} = {joined};")
            builder.bind_value("v", stage.into, "finish", total)
            if stage.into in live:
                totals.append((stage, total))
        for step in group.vertex_steps:
            builder.comment("finish", step)
        self.write_back(builder, group, "finish", dict.fromkeys(doubled, "next_vertex_"))
        for stage, total in totals:
            builder.store(f"vertex_{stage.into}", "v", builder.reading("v", stage.into), total, "finish")
        return builder.finish()

    # the graph --------------------------------------------------------------------------------------------------------
    def reduction(self, stage: GraphReduce) -> CudaKernel:
        """One value for every team of the grid, over its vertices; :meth:`joined` brings them together."""
        signature = [("first", "Id"), ("last", "Id")]
        builder = self.builder(stage.name, PARTIAL, signature)
        builder.bind("v", "vertex", "v")
        builder.comment("kernel", stage)
        total = builder.accumulator("total", stage.value, stage.reducer, "kernel")
        builder.accumulate(total, stage.value, stage.reducer, "vertex")
        index = "(warp_of_grid() * TEAMS + team.number)"
        builder.blocks["end"].line("if (!team.idle()) {")
        builder.store(f"partial_{stage.into}", index, stage.value, total, "end")
        builder.blocks["end"].line("}")
        return builder.finish()

    def joined(self, stage: GraphReduce) -> CudaKernel:
        """The value for the graph, by one team in float32 over partial values of many vertices each."""
        builder = self.builder(f"join_{stage.into}", JOIN, [("first", "Id"), ("last", "Id")])
        builder.bind("partial", "vertex", "v", "partial_")
        total = builder.accumulator("total", stage.value, stage.reducer, "kernel")
        builder.accumulate(total, builder.reading("partial", stage.into), stage.reducer, "vertex")
        builder.store(f"graph_{stage.into}", "0", stage.value, total, "end")
        return builder.finish()

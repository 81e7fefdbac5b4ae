"""Kernels over vertices: vertex steps (all, or the dirty ones), reductions over the graph, initial values."""

from __future__ import annotations

from collections.abc import Sequence

from harness.language.analysis import FoldGroup
from harness.language.program import EdgeReduce, GraphReduce, Program, VertexReduce
from harness.lowering.cpu.flags import every_vertex, flagged_loop
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.cpu.named_vertices import located, names_one
from harness.lowering.cpu.write_back import write_back
from harness.lowering.layout import Layout
from harness.lowering.tracking import Tracking, composed_writes

VERTEX_STEPS = """
    @part
    moved = 0
    {loop}
    counts[t] = moved
"""

GRAPH_REDUCTION = """
    @part
    @start
    for v in range(bounds[t], bounds[t + 1]):
        @vertex
    @end
"""

FILL = """
    @part
    for v in range(bounds[t], bounds[t + 1]):
        @vertex
"""


def vertex_kernel(tracking: Tracking, group: FoldGroup, layout: Layout, *, feature_aware: bool) -> Kernel:
    """Return one kernel for the vertex steps of a group; under change tracking it visits only dirty vertices."""
    name = tracking.name(group)
    signature = [("bounds", "i64"), ("counts", "i64")]
    loop = every_vertex("v", "@vertex")
    if tracking.change_driven:
        loop = flagged_loop("v", f"dirty_{name}", "@vertex")
    builder = KernelBuilder(
        name, tracking.program, layout, VERTEX_STEPS.format(loop=loop), signature, feature_aware=feature_aware
    )
    if tracking.change_driven:
        builder.flags(f"dirty_{name}")
    builder.bind("v", "vertex", "v")
    writes = composed_writes(tracking.program, group, tracking.live(group.stages))
    write_back(builder, tracking, group, writes, "vertex")
    return builder.finish()


def graph_kernel(program: Program, stage: GraphReduce, layout: Layout, *, feature_aware: bool) -> Kernel:
    """Reduce a value over the vertices of each part into ``partial_<name>``, one row per part."""
    name = stage.name
    builder = KernelBuilder(name, program, layout, GRAPH_REDUCTION, [("bounds", "i64")], feature_aware=feature_aware)
    builder.bind("v", "vertex", "v")
    total = builder.start_accumulator("total", stage.value, stage.reducer, "start")
    builder.accumulate_in_runs(
        total, stage.into, stage.value, stage.reducer, start="start", block="vertex", end="end", at="v"
    )
    builder.store(f"partial_{name}", "t", stage.value, total, "end")
    return builder.finish()


def named_kernel(program: Program, stage: VertexReduce, layout: Layout, *, feature_aware: bool) -> Kernel:
    """Reduce a value of every vertex into the vertex that it names, atomically: extrema do not depend on the order."""
    builder = KernelBuilder(stage.name, program, layout, FILL, [("bounds", "i64")], feature_aware=feature_aware)
    builder.bind("v", "vertex", "v")
    message, number = (builder.lower(one).text for one in located(builder, [stage.message, stage.at], "vertex"))
    target, block = builder.argument(f"vertex_{stage.into}", "f32"), builder.blocks["vertex"]
    better = f"{message} {'<' if stage.reducer == 'min' else '>'} at({target}, named)"
    block.line(f"if {names_one(builder, number)}:").inner(
        [f"named = int64({number})", f"if {better}:", f"    atomic_{stage.reducer}({target}, named, {message})"]
    )
    return builder.finish()


def fill_kernel(
    program: Program, stage: EdgeReduce | VertexReduce, layout: Layout, *, prefixes: Sequence[str] = ("vertex_",)
) -> Kernel:
    """Set an accumulator in memory to the reducer's identity: the arrays ``prefix + property`` of all ``prefixes``."""
    builder = KernelBuilder(f"clear_{stage.into}", program, layout, FILL, [("bounds", "i64")])
    neutral = builder.start_accumulator("neutral", stage.message, stage.reducer, "part")
    for prefix in dict.fromkeys(prefixes):
        builder.store(f"{prefix}{stage.into}", "v", stage.message, neutral, "vertex")
    return builder.finish()

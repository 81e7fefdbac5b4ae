"""Onyx on CUDA: an edge update fused with the reduction that reads it in the next superstep.

In belief propagation a superstep reduces messages at vertices and then updates them. The new message of an edge is in
registers when it is stored, so the pass that updates it also adds its contribution to the sums of its destination. The
reduction of the next superstep then has nothing left to read: foldmap (thesis fig. 6.3) across the end of a superstep.
Only the first superstep runs its own reduction and, if changes are tracked, the first of every stretch without
tracking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx.cuda_pull import segments_builder
from harness.api import EdgeUpdate, Program, read, reads, substitute, unfolded
from harness.api.cuda import OVER, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.onyx.cuda_kernels import Kernels
    from harness.api import EdgeReduce, Expression, FoldGroup
    from harness.api.cuda import Condition, CudaKernel, CudaKernelBuilder, Value

FIRST_ALONE = OVER | when("run->superstep")  # a kernel that does nothing after the first superstep
FIRST_OF_STRETCH = OVER | when("run->untracked != run->stretch")  # or the first untracked one
AT_ONCE = 1024  # threads, of 64 registers each: with fewer threads belief propagation takes a tenth longer
NEW = "new"  # the space of the values that an update has just computed


def fused_next_superstep(program: Program) -> tuple[EdgeUpdate, tuple[EdgeReduce, ...]] | None:
    """Return the update and the reductions that can share a pass; None if there are none.

    There must be one update, after all reductions, and these may read only its result and inputs of edges and of the
    graph, so that nothing can change in between. The pass overwrites the results of the reductions: only steps between
    a reduction and the update may read them, and they must not be outputs.
    """
    if program.control.alternate or program.names_vertices:
        return None
    updates = [stage for stage in program.stages if isinstance(stage, EdgeUpdate)]
    edge_groups = [group for group in unfolded(program) if group.edge_stages]
    reductions = tuple(stage for group in edge_groups for stage in group.edge_stages)
    if len(updates) != 1 or not reductions or any(len(stage.message.shape) == 2 for stage in reductions):
        return None
    (update,) = updates
    order = list(program.stages).index
    if any(order(stage) > order(update) or _outlives(program, stage, update) for stage in reductions):
        return None
    found = {pair for stage in reductions for pair in reads(stage.message)}
    inputs = {name for name, prop in program.properties.items() if prop.role == "input"}
    if ("edge", update.updates) not in found:
        return None
    others = found - {("edge", update.updates)}
    return (update, reductions) if all(s in ("edge", "graph") and name in inputs for s, name in others) else None


def _outlives(program: Program, reduction: EdgeReduce, update: EdgeUpdate) -> bool:
    """Return whether the reduction is unused or read after the update.

    Reads after the update include those in the next superstep before it is recomputed, and those of a run's state.
    """
    order = list(program.stages).index
    readers = [stage for stage in program.stages if reduction.into in {name for _, name in reads(stage)}]
    between = all(order(reduction) < order(stage) < order(update) for stage in readers)
    kept = reduction.into in program.outputs or program.properties[reduction.into].role == "state"
    return kept or not readers or not between


def update_and_reduce(
    kernels: Kernels, update: EdgeUpdate, reductions: tuple[EdgeReduce, ...], run: int, depth: int, *, in_place: bool
) -> CudaKernel:
    """Build the kernel of the new values of an edge property, and of their sums for the next superstep.

    The values go into the unused buffer, or ``in_place``. The sums are reduced into the accumulators that the
    :func:`last_reader` has cleared. ``depth``: edges of a run that are fetched ahead.
    """
    builder = segments_builder(kernels, update.name, (update,), run, depth)
    builder.comment("visit", update)
    kernels.updated(builder, update, "csc", in_place=in_place)
    builder.bind_value(NEW, update.updates, "visit", builder.mapping.kept(update.value))
    for stage in reductions:
        builder.comment("visit", stage)
        message = substitute(stage.message, lambda node: _new(node, update))
        total = builder.accumulator(f"{stage.into}_total", message, stage.reducer, "start")
        builder.accumulate(total, message, stage.reducer, "visit")
        builder.bind_value("v", stage.into, "store", total)
        _reduce_row(builder, stage, total, counts=_counts(stage))
    return builder.finish(at_once=AT_ONCE if kernels.setting.lane_group.lanes > 1 else 0)


def _reduce_row(builder: CudaKernelBuilder, stage: EdgeReduce, total: Value, *, counts: bool) -> None:
    """Reduce a lane group's part of a row into memory after its last edge.

    A reduction that ``counts`` is mostly 0 and then does not access memory.
    """
    array, node, at = f"vertex_{stage.into}", builder.reading("v", stage.into), builder.blocks["store"]
    if not counts:
        builder.reduce_into(array, "v", node, stage.reducer, "store")
        return
    at.line(f"if (some(group, {total.text})) {{")
    builder.reduce_into(array, "v", node, stage.reducer, "store")
    at.line("}")


def _counts(stage: EdgeReduce) -> bool:
    """Return whether a reduction counts the edges that satisfy a condition."""
    message = stage.message
    return stage.reducer == "sum" and message.op == "where" and message.args[2].attribute == 0.0


def reduces_alone(kernels: Kernels) -> Condition:
    """Return the condition under which kernels that only reduce do nothing, because a fused pass has already
    reduced."""
    if not kernels.fused_next_superstep:
        return OVER
    return FIRST_OF_STRETCH if kernels.untracked else FIRST_ALONE


def last_reader(stage: EdgeReduce, groups: Sequence[FoldGroup]) -> FoldGroup:
    """Return the last vertex steps that read the result of a fused reduction."""
    return [g for g in groups if any(stage.into in {name for _, name in reads(step)} for step in g.vertex_steps)][-1]


def _new(node: Expression, update: EdgeUpdate) -> Expression | None:
    if node.op == "read" and node.attribute == ("edge", update.updates):
        return read(NEW, update.updates, node.shape, node.dtype)
    return None

"""Onyx on CUDA: an edge update folded with the reduction that reads it in the next superstep.

In belief propagation a superstep reduces messages at vertices and then updates them. The new message of an arc is in
registers when it is stored, so the pass that updates it also adds its share to the sums of its destination, and the
reduction of the next superstep has nothing left to read: foldmap (thesis fig. 6.3) across the end of a superstep. Only
the first superstep reduces by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx.cuda_pull import segments_builder, store_rows
from harness.api import EdgeUpdate, Program, read, reads, substitute, unfolded

if TYPE_CHECKING:
    from engines.onyx.cuda_kernels import Kernels
    from harness.api import CudaKernel, EdgeReduce, Expression

FIRST_ALONE = "run->over() || run->superstep"  # a kernel that does nothing after the first superstep
NEW = "new"  # the space of what an update has just made


def rolled(program: Program) -> tuple[EdgeUpdate, tuple[EdgeReduce, ...]] | None:
    """The update and the reductions that can share a pass: one update behind all reductions, which read nothing but
    what it makes and inputs of edges and of the graph, so that nothing can come between.

    The pass overwrites what was reduced: only steps between a reduction and the update read it, and it is no output.
    """
    if program.control.alternate:
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
    """Whether somebody wants what is reduced behind the update, or in the next superstep before it is reduced anew."""
    order = list(program.stages).index
    readers = [stage for stage in program.stages if reduction.into in {name for _, name in reads(stage)}]
    between = all(order(reduction) < order(stage) < order(update) for stage in readers)
    return reduction.into in program.outputs or not between


def update_and_reduce(
    kernels: Kernels, update: EdgeUpdate, reductions: tuple[EdgeReduce, ...], run: int, depth: int
) -> CudaKernel:
    """New values of an edge property into the buffer that nobody reads, and their sums for the next superstep: rows
    that lie in one run of segments are stored, parts of others reduced into the identity. ``depth``: edges of a run
    that are fetched ahead."""
    builder = segments_builder(kernels, update.name, (update,), run, depth)
    builder.comment("visit", update)
    kernels.updated(builder, update, "csc")
    builder.bind_value(NEW, update.updates, "visit", builder.mapping.kept(update.value))
    for stage in reductions:
        builder.comment("visit", stage)
        message = substitute(stage.message, lambda node: _new(node, update))
        total = builder.accumulator(f"{stage.into}_total", message, stage.reducer, "start")
        builder.accumulate(total, message, stage.reducer, "visit")
        builder.bind_value("v", stage.into, "store", total)
    store_rows(builder, reductions)
    return builder.finish()


def _new(node: Expression, update: EdgeUpdate) -> Expression | None:
    if node.op == "read" and node.attribute == ("edge", update.updates):
        return read(NEW, update.updates, node.shape, node.dtype)
    return None

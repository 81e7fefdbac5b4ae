"""Plans for CUDA engines that treat properties as opaque: a thread loops over all features of a vertex or an edge.

This module has what they share independently of the traversal: vertex steps, updates of edges, reductions over the
graph, clearing of accumulators. Each engine defines how it reduces over edges.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from harness.contract import Direction
from harness.facts import GraphFacts
from harness.language.analysis import FoldGroup, unfolded
from harness.language.expressions import Expression, walk
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Reducer, VertexReduce, reads
from harness.lowering.cuda.buffers import work
from harness.lowering.cuda.code import Value
from harness.lowering.cuda.conditions import OVER, Condition
from harness.lowering.cuda.draft import PlanDraft
from harness.lowering.cuda.kernels import CudaKernel, CudaKernelBuilder, Scratch
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.mapping import OPERATION
from harness.lowering.cuda.named_vertices import reduce_at_named
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.setting import CudaSetting
from harness.lowering.cuda.write_back import cuda_write_back
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.setting import LoweredProgram
from harness.lowering.summands import summand
from harness.lowering.tracking import composed_writes

BLOCK = 256  # threads
PARTS = 1024  # blocks of a reduction over the graph, about eight for each multiprocessor; one combines their results
MOST_HELD = 12  # floats of vertices read ahead by a thread: 32 registers per thread fully occupy a multiprocessor

VERTICES = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {
        @visit
    }
"""
# A thread has the reads of several vertices in flight, which stores to arrays that are also read would separate.
# Positions of 64 bits cannot wrap, so the vertices of a thread are a constant distance apart in every array.
VERTICES_AHEAD = """
    @kernel
    for (size_t at = first + first_in_block_range({ahead}); at < last; at += {ahead} * size_t(threads_of_grid())) {{
        struct {{
            @fields
        }} fetched[{ahead}];
        _Pragma("unroll") for (int i = 0; i < {ahead}; ++i) {{
            const size_t v = at + i * BLOCK;
            auto& got = fetched[i];
            if (v < last) {{
                @fetch
            }}
        }}
        _Pragma("unroll") for (int i = 0; i < {ahead}; ++i) {{
            const size_t v = at + i * BLOCK;
            const auto& got = fetched[i];
            if (v < last) {{
                @visit
            }}
        }}
    }}
"""
# The vertices that take part in a reduction.
CHOSEN_VERTICES = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {
        @visit
        if (chosen) {
            @chosen
        }
    }
"""
EDGES = """
    @kernel
    for (EdgeId e = first + thread_of_grid(); e < last; e += threads_of_grid()) {{
        const Id {row} = {side}_rows[e], {other} = {side}_neighbours[e];
        @edge
    }}
"""
JOINED = """
    @join
    if (threadIdx.x == 0) {
        @store
    }
    if (!last_block(TICKET)) return;
    @again
    for (Id i = threadIdx.x; i < gridDim.x; i += BLOCK) {
        @part
    }
    @whole
    if (threadIdx.x == 0) {
        @result
    }
"""


def thread_setting(
    lowered: LoweredProgram, facts: GraphFacts, features: int, direction: Direction, *,
    groups: Sequence[FoldGroup] | None = None, change_driven: bool = False, block: int = 0,
    accumulators: KeptAccumulators | None = None,
) -> CudaSetting:  # fmt: skip
    """Return the setting of kernels whose threads loop over features.

    ``groups``: the stages of each kernel, by default one. ``block``: threads of a block; 0: the default.
    """
    groups = unfolded(lowered.program) if groups is None else groups
    return CudaSetting(
        lowered=lowered, facts=facts, layout=DeviceLayout(features),
        lane_group=LaneGroupShape.for_program(lowered.program, features, feature_aware=False),
        tracking=lowered.tracking(groups, change_driven=change_driven), direction=direction, feature_aware=False,
        block=block or BLOCK, accumulators=accumulators or KeptAccumulators(),
    )  # fmt: skip


def thread_builder(
    setting: CudaSetting, name: str, template: str, signature: Sequence[tuple[str, str]], scratch: Scratch = "global"
) -> CudaKernelBuilder:
    """Return a builder for a kernel whose threads loop over the features."""
    return CudaKernelBuilder(
        name, setting.program, setting.layout, setting.lane_group, template, signature, feature_aware=False,
        scratch=scratch,
        holds=True,
    )  # fmt: skip


class ThreadPlanner(ABC):
    """Add the launches of every stage in a kernel of its own to a draft.

    A subclass defines in :meth:`plan_reduction` how edges are traversed. ``scratch``: where a vertex's intermediate
    values are stored between its steps. ``most_ahead``: vertices that a thread reads before it runs the steps of any.
    """

    scratch: Scratch = "global"
    most_ahead = 4

    def __init__(self, setting: CudaSetting) -> None:
        self.setting, self.draft = setting, PlanDraft(setting)
        self.program, self.layout, self.tracking = setting.program, setting.layout, setting.tracking

    def plan_stages(self) -> None:
        """Add the launches of the stages, in order."""
        for group in self.tracking.groups:
            stage = group.stages[0]
            if isinstance(stage, GraphReduce):
                self.plan_graph(stage)
            elif isinstance(stage, EdgeUpdate):
                self.plan_update(stage)
            elif isinstance(stage, EdgeReduce):
                self.plan_reduction(stage)
            elif isinstance(stage, VertexReduce):
                self.plan_named(stage)
            else:
                self.plan_vertices(group)

    @abstractmethod
    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Add the launches of a reduction over edges."""

    def builder(
        self, name: str, template: str, signature: Sequence[tuple[str, str]] = (("first", "Id"), ("last", "Id"))
    ) -> CudaKernelBuilder:
        """Return a builder for a kernel whose threads loop over the features."""
        return thread_builder(self.setting, name, template, signature, self.scratch)

    # vertices ---------------------------------------------------------------------------------------------------------
    def plan_vertices(self, group: FoldGroup) -> None:
        """Add the vertex steps of a group, run at all vertices; the vertices that moved are counted."""
        self.add_vertices(self.vertices_builder(group), group)

    def add_vertices(self, builder: CudaKernelBuilder, group: FoldGroup) -> None:
        """Add the launch of a kernel of vertex steps."""
        self.draft.add(builder.finish(), Over.VERTICES, 1 / self.ahead(group))

    def vertices_builder(self, group: FoldGroup, *, changed: str = "") -> CudaKernelBuilder:
        """Return the unfinished kernel of a group of vertex steps; the steps at vertex ``v`` are in block ``visit``.

        ``changed``: see :func:`cuda_write_back`.
        """
        builder = self.builder(self.tracking.name(group), over_vertices(self.ahead(group)))
        builder.bind("v", builder.read_in("visit"), "v")
        for step in group.vertex_steps:
            builder.comment("visit", step)
        cuda_write_back(builder, self.tracking, group, "visit", changed=changed)
        return builder

    def ahead(self, group: FoldGroup) -> int:
        """Return for how many vertices a thread reads ahead what a group of vertex steps reads or replaces."""
        writes = composed_writes(self.program, group, self.tracking.live(group.stages))
        return self.ahead_of_values([value for _, value in writes], [name for name, _ in writes])

    def ahead_of_values(self, values: Sequence[Expression], names: Iterable[str] = ()) -> int:
        """Return for how many vertices a thread reads ahead what some values need, and properties ``names``.

        It is one if the values need a matrix.
        """
        if any(len(node.shape) == 2 for node in walk(*values)):
            return 1
        return self.ahead_of({name for value in values for space, name in reads(value) if space == "v"} | set(names))

    def ahead_of(self, names: Iterable[str]) -> int:
        """Return for how many vertices a thread reads some properties ahead: as many as fit in registers."""
        floats = sum(math.prod(self.layout.dims(self.program.properties[name].shape)) for name in names)
        return next((n for n in (4, 2) if n <= self.most_ahead and n * floats <= MOST_HELD), 1)

    def plan_named(self, stage: VertexReduce) -> None:
        """Add a reduction at named vertices: clear the accumulator, and reduce the value of every vertex."""
        self.draft.add(self.clear_kernel(stage), Over.VERTICES, 1)
        builder = self.builder(stage.name, VERTICES)
        reduce_at_named(builder, stage, "visit")
        self.draft.add(builder.finish(), Over.VERTICES, 1)

    def clear_kernel(
        self, stage: EdgeReduce | VertexReduce, *, array: str = "vertex", unless: Condition = OVER
    ) -> CudaKernel:
        """Return the kernel that sets an accumulator in memory to the reducer's identity.

        ``array``: the kind of array that holds it; ``unless``: the condition under which the kernel does nothing.
        """
        builder = self.builder(f"clear_{array}_{stage.into}" if array != "vertex" else f"clear_{stage.into}", VERTICES)
        builder.fill_identity(f"{array}_{stage.into}", "v", stage.message, stage.reducer, "visit")
        return builder.finish(unless=unless)

    # edges ------------------------------------------------------------------------------------------------------------
    def plan_update(self, stage: EdgeUpdate) -> None:
        """Add the new values of an edge property, one edge per thread, written to the buffer that nothing reads."""
        pulls = self.setting.direction == "pull"
        order, side, row, other = ("csc", "in", "v", "u") if pulls else ("csr", "out", "u", "v")
        signature = [("first", "EdgeId"), ("last", "EdgeId"), (f"{side}_rows", "ids"), (f"{side}_neighbours", "ids")]
        builder = self.builder(stage.name, EDGES.format(row=row, other=other, side=side), signature)
        builder.argument("reverse", "ids")
        for space, index in (("src", "u"), ("dst", "v")):
            builder.bind(space, "edge", index)
        for space, index in (("edge", "e"), ("reverse", "reverse[e]"), ("old", "e")):
            builder.bind(space, "edge", index, f"{order}_")
        builder.comment("edge", stage)
        new = builder.mapping.kept(stage.value)
        if ("edge", stage.updates) in self.tracking.watches:
            moved = builder.moved("old", stage.updates, new, "edge")
            builder.blocks["edge"].line(f"if ({moved}) ++{builder.counter('moved', '&run->moved')};")
        builder.store(f"next_{order}_{stage.updates}", "e", stage.value, new, "edge")
        self.draft.double(f"{order}_{stage.updates}")
        self.draft.add(builder.finish(), Over.ALL_EDGES, 1, (f"{order}_{stage.updates}",))

    # the graph --------------------------------------------------------------------------------------------------------
    def plan_graph(self, stage: GraphReduce) -> None:
        """Add a reduction to one value per block; the last block to finish combines them.

        Each reduction has a ticket of its own: no barrier separates two of them in one kernel.
        """
        (condition, value), ticket = summand(stage), f"ticket_{stage.into}"
        loop = CHOSEN_VERTICES if condition is not None else over_vertices(self.ahead_of_values([value]))
        partial_values = PARTS * self.layout.stride(stage.value.shape)
        self.draft.own(work(f"partial_{stage.into}", partial_values), work(ticket, 1, "uint32"))
        template = loop.rstrip("\n") + JOINED.replace("TICKET", ticket)
        signature = [("first", "Id"), ("last", "Id"), (ticket, "list")]
        builder = self.builder(stage.name, template, signature)
        builder.bind("v", builder.read_in("visit"), "v")
        builder.comment("visit", stage)
        visit = builder.choose(condition, "visit") if condition is not None else "visit"
        partial = self._reduced(builder, ("kernel", visit, "join"), value, value, stage.reducer)
        builder.store(f"partial_{stage.into}", "blockIdx.x", stage.value, partial, "store")
        builder.bind("partial", "part", "i", "partial_")
        node = builder.reading("partial", stage.into)
        joined = self._reduced(builder, ("again", "part", "whole"), node, stage.value, stage.reducer)
        if self.tracking.change_driven:
            changed = builder.moved("graph", stage.into, joined, "result", exact=True)
            flag = builder.argument(f"changed_{stage.into}", "flag")
            builder.blocks["result"].line(f"{flag}[0] = {changed};")
        builder.store(f"graph_{stage.into}", "0", stage.value, joined, "result")
        self.draft.add(builder.finish(), Over.ALL_VERTICES, 1, blocks=PARTS)

    def _reduced(
        self, builder: CudaKernelBuilder, blocks: tuple[str, str, str], node: Expression, shaped: Expression,
        reducer: Reducer,
    ) -> Value:  # fmt: skip
        """Return the joint accumulator of all threads of a block: cleared, reduced and combined in three template
        blocks.
        """
        first, each, after = blocks
        total = builder.accumulator(f"reduced_{each}", shaped, reducer, first)
        builder.accumulate(total, node, reducer, each)
        combine_threads(builder, total, shaped, reducer, after, "combined_in_block")
        return total


def over_vertices(ahead: int) -> str:
    """Return the template of a loop over vertices, of which a thread reads ``ahead`` before it visits any."""
    return VERTICES if ahead == 1 else VERTICES_AHEAD.format(ahead=ahead)


def combine_threads(
    builder: CudaKernelBuilder, total: Value, shaped: Expression, reducer: Reducer, block: str, function: str
) -> None:
    """Combine the accumulators of several threads, feature by feature, with a function of ``threads.cuh``.

    ``total``: the accumulator, shaped like ``shaped``, with the same name in every thread.
    """
    call, at = f"{function}<{OPERATION[reducer]}>", builder.blocks[block]
    if total.kind == "scalar":
        at.line(f"{total.text} = {call}({total.text});")
        return
    builder.mapping.loop(
        shaped, at,
        lambda nest: "{0} = {1}({0});".format(total.element(nest.slot, nest.row), call),
        tile=total.kind == "tile",
    )  # fmt: skip
